"""Node projects: pnpm-lock.yaml, yarn.lock, package-lock.json, or a package.json alone.

The scripts of the project itself (`prepare`, `postinstall`) need its source, which the build
does not see, so they are not run. Those of its dependencies are.
"""

import re
import shlex
from collections.abc import Iterator
from typing import Any

from hutch.domain.dependency_plan import SetupStep
from hutch.environment.detection.bounded_repository_reader import RepositoryFiles, folder_of, join, within
from hutch.environment.detection.detected_install_steps import (
    CACHE,
    TOOLS_PATH,
    Finding,
    in_folder,
    node_tool,
    place,
    unique,
)
from hutch.environment.detection.manifest_parsing import hosts_of, parse_json, parse_yaml, table_of, texts_of

NPM_LOCKS = ("package-lock.json", "npm-shrinkwrap.json")
LOCKS = ("pnpm-lock.yaml", "yarn.lock", *NPM_LOCKS)
OWN_SCRIPTS = ("preinstall", "install", "postinstall", "prepublish", "preprepare", "prepare", "postprepare")
KINDS = ("dependencies", "devDependencies", "optionalDependencies")
SECRET_LINE = re.compile(r"_auth|_password|_authToken|authToken|certfile|keyfile|npmAuth|\$\{", re.I)
VERSION = re.compile(r"\d{1,4}(?:\.\d{1,6}){0,2}(?:-[0-9A-Za-z.-]{1,30})?", re.ASCII)
PACKAGE = re.compile(r"(?:@[a-z0-9._~-]{1,100}/)?[a-z0-9._~-]{1,150}", re.ASCII | re.I)
RESOLVED = re.compile(r'"resolved"\s*:\s*"([^"\\\n]{1,2000})"')
MAX_MEMBERS = 200
VARIABLES = {
    "npm_config_cache": f"{CACHE}/npm",
    "npm_config_update_notifier": "false",
    "npm_config_audit": "false",
    "npm_config_fund": "false",
}
NPM_CI = "(if npm ci --dry-run >/dev/null; then npm ci{scripts}; else npm install --no-save{scripts}; fi)"
"""A lock file that was written with a mirror lacks the packages for other platforms that the mirror lacks.
`npm ci` refuses it, even if none of them is needed; `npm install` takes the versions that it names. The dry
run refuses it too, and needs no network otherwise: a failure of `npm ci` for another reason, such as a
download, is final."""
YARN_REGISTRY = (
    "default=$(cd / && env -u npm_config_registry yarn config get registry) && "
    "registry=${npm_config_registry:-$default} && "
    """sed -i "s|^  resolved \\"${default%/}/|  resolved \\"${registry%/}/|" yarn.lock && """
)
"""Yarn 1 downloads from the addresses in its lock file. Those that begin with its default registry are
replaced by the registry that the user has configured, as npm does."""
BUILD_VARIABLES = {"npm_config_nodedir": "/usr", "CI": "true", "HUSKY": "0"}
"""Headers of node are in the jail: native modules compile without a download."""


def find(files: RepositoryFiles) -> Iterator[Finding]:
    """The Node projects; members of a workspace belong to its root."""
    manifests = sorted(
        (name for name in files.names if name.rpartition("/")[2] == "package.json"),
        key=lambda name: (name.count("/"), name),
    )
    covered: set[str] = set()
    for manifest in manifests:
        folder = folder_of(manifest)
        if folder in covered:
            continue
        project = parse_json(files.text(manifest))
        members = _members(files, folder, project)
        has_lock = any(within(folder, lock) in files for lock in LOCKS)
        if not has_lock and not any(table_of(project, kind) for kind in KINDS) and not members:
            continue
        if not has_lock and any(folder.startswith(f"{above}/") for above in covered if above):
            continue
        covered |= {folder, *map(folder_of, members)}
        yield _finding(files, folder, project, members)


def _finding(
    files: RepositoryFiles, folder: str, project: dict[str, Any], members: tuple[str, ...]
) -> Finding:
    manifests = [project, *(parse_json(files.text(member)) for member in members)]
    own = sorted({name for each in manifests for name in table_of(each, "scripts") if name in OWN_SCRIPTS})
    notes: list[str] = []
    source = next((path for lock in LOCKS if (path := within(folder, lock)) in files), None)
    if own:
        at = within(folder, "package.json")
        notes.append(f"{at}: its own scripts ({', '.join(own)}) are not run: the build sees no source")
    match (source or "").rpartition("/")[2]:
        case "pnpm-lock.yaml":
            steps, more, extra = _pnpm(files, folder, project, ignore=bool(own))
        case "yarn.lock":
            steps, more, extra = _yarn(files, folder, project, ignore=bool(own))
        case _:
            steps, more, extra = _npm(files, folder, source, ignore=bool(own))
    inputs = [within(folder, "package.json"), source, *members, *extra]
    inputs += _npm_settings(files, folder, notes)
    inputs += _patches(files, folder, project)
    if source is None:
        notes.append(
            f"{within(folder, 'package.json')}: there is no lock file, so the newest versions are installed"
        )
    return Finding(
        steps=steps,
        inputs=unique(path for path in inputs if path and path in files),
        variables={**VARIABLES, **BUILD_VARIABLES, **more},
        session_variables={**VARIABLES, "npm_config_offline": "true", **more},
        path=(place(folder, "node_modules/.bin"), TOOLS_PATH) if not folder else (TOOLS_PATH,),
        hosts=hosts_of(_downloads(source, files.text(source))) if source else (),
        notes=tuple(notes),
    )


def _downloads(source: str, text: str) -> str:
    """The text of a lock file with addresses of packages; of npm's without its funding pages."""
    if source.rpartition("/")[2] not in NPM_LOCKS:
        return text
    return "\n".join(RESOLVED.findall(text))


Result = tuple[tuple[SetupStep, ...], dict[str, str], list[str]]


def _npm(files: RepositoryFiles, folder: str, source: str | None, *, ignore: bool) -> Result:
    scripts = " --ignore-scripts" if ignore else ""
    command = NPM_CI.format(scripts=scripts) if source else f"npm install --no-package-lock{scripts}"
    if ignore:
        packages = table_of(parse_json(files.text(source or "")), "packages")
        built = [
            name
            for path, about in packages.items()
            if table_of(about).get("hasInstallScript") is True
            and "node_modules/" in path
            and PACKAGE.fullmatch(name := path.rpartition("node_modules/")[2])
        ]
        if built:
            command += f" && npm rebuild {' '.join(map(shlex.quote, unique(built)[:100]))}"
    at = source or within(folder, "package.json")
    return (SetupStep(in_folder(folder, command), at, "npm"),), {}, []


def _pnpm(files: RepositoryFiles, folder: str, project: dict[str, Any], *, ignore: bool) -> Result:
    source = within(folder, "pnpm-lock.yaml")
    first = files.text(source)[:2000]
    found = re.search(r"^lockfileVersion:\s*'?\"?(\d+)", first, re.M)
    fitting = {"5": "7", "6": "8", "7": "9"}.get(found[1] if found else "", "9")
    version = _named_version(project, "pnpm") or fitting
    command = "pnpm install --frozen-lockfile" + (" --ignore-scripts && pnpm rebuild -r" if ignore else "")
    variables = {
        "npm_config_store_dir": f"{CACHE}/pnpm",
        "npm_config_manage_package_manager_versions": "false",
    }
    steps = (
        SetupStep(node_tool("pnpm", f"pnpm@{version}"), source, "pnpm"),
        SetupStep(in_folder(folder, command), source, "pnpm"),
    )
    extra = [join(folder, name) or "" for name in ("pnpm-workspace.yaml", ".pnpmfile.cjs")]
    return steps, variables, extra


def _yarn(files: RepositoryFiles, folder: str, project: dict[str, Any], *, ignore: bool) -> Result:
    source = within(folder, "yarn.lock")
    is_berry = re.search(r"^__metadata:", files.text(source)[:2000], re.M) is not None
    version = _named_version(project, "yarn")
    extra = []
    if is_berry:
        package = f"@yarnpkg/cli-dist@{version or '4'}"
        command = "yarn install --immutable" + (" --mode=skip-build" if ignore else "")
        variables = {
            "YARN_CACHE_FOLDER": f"{CACHE}/yarn",
            "YARN_ENABLE_GLOBAL_CACHE": "false",
            "YARN_ENABLE_TELEMETRY": "0",
            "YARN_IGNORE_PATH": "1",
        }
        extra = [
            name
            for pattern in (".yarn/plugins/**/*", ".yarn/patches/*", ".yarn/plugins/*")
            for name in files.matching(pattern, below=folder)
        ]
    else:
        package = f"yarn@{version if version.startswith('1') else '1'}"
        command = YARN_REGISTRY + "yarn install --frozen-lockfile --non-interactive"
        command += " --ignore-scripts" if ignore else ""
        variables = {"YARN_CACHE_FOLDER": f"{CACHE}/yarn"}
    steps = (
        SetupStep(node_tool("yarn", package), source, "yarn"),
        SetupStep(in_folder(folder, command), source, "yarn"),
    )
    return steps, variables, extra


def _named_version(project: dict[str, Any], manager: str) -> str:
    """The version in `packageManager`, such as `pnpm@9.1.0+sha512…`; empty if it names another."""
    name, _, version = str(project.get("packageManager", "")).partition("@")
    version = version.partition("+")[0]
    return version if name == manager and VERSION.fullmatch(version) else ""


def _members(files: RepositoryFiles, folder: str, project: dict[str, Any]) -> tuple[str, ...]:
    """The package.json of every member of a workspace."""
    declared = project.get("workspaces")
    patterns = texts_of(declared.get("packages") if isinstance(declared, dict) else declared)
    patterns += texts_of(parse_yaml(files.text(within(folder, "pnpm-workspace.yaml"))).get("packages"))
    found: list[str] = []
    excluded: set[str] = set()
    for pattern in patterns[:50]:
        names = files.matching(f"{pattern.removeprefix('!').rstrip('/')}/package.json", below=folder)
        if pattern.startswith("!"):
            excluded |= set(names)
        else:
            found += names
    return tuple(name for name in unique(found) if name not in excluded)[:MAX_MEMBERS]


def _npm_settings(files: RepositoryFiles, folder: str, notes: list[str]) -> list[str]:
    """The settings files of the managers, unless they hold or ask for a secret."""
    used = []
    for name in (".npmrc", ".yarnrc", ".yarnrc.yml"):
        path = join(folder, name) or ""
        if path not in files:
            continue
        if SECRET_LINE.search(files.text(path)):
            notes.append(f"{path}: not used, since it holds or asks for credentials, which no build gets")
        else:
            used.append(path)
    return used


def _patches(files: RepositoryFiles, folder: str, project: dict[str, Any]) -> list[str]:
    """The patches that pnpm and patch-package apply to dependencies."""
    settings = parse_yaml(files.text(within(folder, "pnpm-workspace.yaml")))
    named = {**table_of(project, "pnpm", "patchedDependencies"), **table_of(settings, "patchedDependencies")}
    return [path for name in texts_of(list(named.values())) if (path := join(folder, name)) and path in files]
