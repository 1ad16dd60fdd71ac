"""Python projects: uv.lock, poetry.lock, requirements files and pyproject.toml, in this order.

The build sees manifests and lock files, not the source. So the dependencies are installed
without the project, and the project becomes importable by a path entry in `.venv`, with the
metadata that `importlib.metadata` and plugins look for.
"""

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
    place,
    python_tool,
    unique,
)
from hutch.environment.detection.editable_install_without_build import link_command
from hutch.environment.detection.manifest_parsing import hosts_of, list_of, parse_toml, table_of, texts_of
from hutch.environment.detection.pip_requirement_files import requirements_finding, split_requirements

TEST_NAMES = frozenset({"test", "tests", "testing", "dev", "develop", "development", "all-tests"})
PIP_VARIABLES = {"PIP_CACHE_DIR": f"{CACHE}/pip", "PIP_DISABLE_PIP_VERSION_CHECK": "1", "PIP_NO_INPUT": "1"}
UV_VARIABLES = {
    "UV_CACHE_DIR": f"{CACHE}/uv",
    "UV_PYTHON_DOWNLOADS": "never",  # they would lie in a home directory that no session has
}
MARKS = ("uv.lock", "poetry.lock", "pyproject.toml")


def find(files: RepositoryFiles) -> Iterator[Finding]:
    """The Python projects, one for each directory; members of a uv workspace belong to its root."""
    folders = unique(
        folder_of(name)
        for name in sorted(files.names, key=lambda name: (name.count("/"), name))
        if name.rpartition("/")[2] in MARKS or _is_requirements(name)
    )
    covered: set[str] = set()
    for folder in folders:
        if folder in covered:
            continue
        if within(folder, "uv.lock") in files:
            finding, members = _uv(files, folder)
            covered |= members
            yield finding
        elif within(folder, "poetry.lock") in files:
            yield _poetry(files, folder)
        elif any(_is_requirements(name) and folder_of(name) == folder for name in files.names):
            listed = [n for n in files.names if folder_of(n) == folder and _is_requirements(n)]
            yield _with_session(requirements_finding(files, folder, listed, _project(files, folder)), folder)
        elif not folder or _above_is_no_project(files, folder):
            yield from _pyproject(files, folder)


def _uv(files: RepositoryFiles, folder: str) -> tuple[Finding, set[str]]:
    project, lock = _project(files, folder), parse_toml(files.text(within(folder, "uv.lock")))
    members, outside, folders = [], [], set()
    for package in list_of(lock, "package"):
        origin = table_of(package, "source")
        local = origin.get("editable") or origin.get("virtual") or origin.get("directory")
        if not isinstance(local, str):
            continue
        at = join(folder, local)
        manifest = None if at is None else join(at, "pyproject.toml")
        if manifest in files and at is not None:
            members.append(manifest)
            folders.add(at)
        elif isinstance(name := package.get("name"), str):
            outside.append(name)
    command = " ".join(
        [
            "uv sync --frozen --no-install-workspace",
            *(f"--extra {shlex.quote(name)}" for name in _test_names(table_of(project, "project"), "extras")),
            *(f"--group {shlex.quote(name)}" for name in _test_groups(project)),
            *(f"--no-install-package {shlex.quote(name)}" for name in outside),
        ]
    )
    source = within(folder, "uv.lock")
    own = [*_named(files, folder, "pyproject.toml", "uv.lock", "uv.toml", ".python-version"), *members]
    steps = [
        SetupStep(python_tool("uv"), source, "uv"),
        SetupStep(in_folder(folder, command), source, "uv"),
        *_build_requirements(project, folder, source, "uv pip install -q", manager="uv"),
        *_links(files, [folder, *sorted(folders - {folder})], folder),
    ]
    found = Finding(
        steps=tuple(steps),
        inputs=unique(str(name) for name in own),
        variables={**PIP_VARIABLES, **UV_VARIABLES, "UV_COMPILE_BYTECODE": "1"},
        hosts=hosts_of(files.text(source)),
        notes=tuple(
            f"{source}: '{name}' lies outside the repository and is not installed" for name in outside
        ),
    )
    return _with_session(found, folder, {**UV_VARIABLES, "UV_NO_SYNC": "1", "UV_OFFLINE": "1"}), folders


def _poetry(files: RepositoryFiles, folder: str) -> Finding:
    project, source = _project(files, folder), within(folder, "poetry.lock")
    groups = table_of(table_of(project, "tool", "poetry"), "group")
    chosen = [
        name for name, group in groups.items() if name in TEST_NAMES and table_of(group).get("optional")
    ]
    extras = _test_names(table_of(project, "tool", "poetry"), "extras") or _test_names(
        table_of(project, "project"), "optional-dependencies"
    )
    words = ["poetry install --no-root --no-interaction"]
    words += [f"--with {shlex.quote(name)}" for name in chosen]
    words += [f"--extras {shlex.quote(name)}" for name in extras]
    variables = {
        "POETRY_VIRTUALENVS_IN_PROJECT": "true",
        "POETRY_CACHE_DIR": f"{CACHE}/poetry",
    }
    found = Finding(
        steps=(
            SetupStep(python_tool("poetry"), source, "poetry"),
            SetupStep(in_folder(folder, " ".join(words)), source, "poetry"),
            *_links(files, [folder], folder),
        ),
        inputs=_named(files, folder, "pyproject.toml", "poetry.lock", "poetry.toml", ".python-version"),
        variables={**PIP_VARIABLES, **variables},
        hosts=hosts_of(files.text(source)),
    )
    return _with_session(found, folder, variables)


def _pyproject(files: RepositoryFiles, folder: str) -> Iterator[Finding]:
    """A pyproject.toml without any lock: its requirements are installed in their newest versions."""
    source = within(folder, "pyproject.toml")
    document = _project(files, folder)
    project = table_of(document, "project")
    if not project:
        if table_of(document, "tool", "poetry"):
            yield Finding(notes=(f"{source}: there is no poetry.lock, so nothing is installed",))
        return
    notes = []
    dynamic = texts_of(project.get("dynamic"))
    if "dependencies" in dynamic:
        notes.append(
            f"{source}: its dependencies are computed by its build, which Hutch does not run. "
            "Name them in environment.setup."
        )
    wanted = texts_of(project.get("dependencies"))
    optional = table_of(project, "optional-dependencies")
    for name in _test_names(project, "optional-dependencies"):
        wanted += texts_of(optional.get(name))
    groups = table_of(document, "dependency-groups")
    for name in _test_groups(document):
        wanted += _group(groups, name, depth=0)
    name = str(project.get("name", ""))
    wanted = [each for each in wanted if not each.lower().startswith(f"{name.lower()}[")]
    usable, refused = split_requirements(wanted)
    notes += [f"{source}: '{each}' is not installed: it names a local path or an option" for each in refused]
    if not usable and not notes:
        return
    install = f"python3 -m venv .venv && .venv/bin/python -m pip install {' '.join(map(shlex.quote, usable))}"
    steps: list[SetupStep] = []
    if usable:
        steps = [
            SetupStep(in_folder(folder, install), source, "pip"),
            *_build_requirements(
                document, folder, source, ".venv/bin/python -m pip install -q", manager="pip"
            ),
            *_links(files, [folder], folder),
        ]
    found = Finding(
        steps=tuple(steps),
        inputs=_named(files, folder, "pyproject.toml") if steps else (),
        variables=PIP_VARIABLES if steps else {},
        notes=tuple(notes),
    )
    yield _with_session(found, folder) if steps else found


def _build_requirements(
    document: dict[str, Any], folder: str, source: str, command: str, *, manager: str
) -> Iterator[SetupStep]:
    """The requirements that build the project, so that an offline session can build it without isolation."""
    usable, _ = split_requirements(texts_of(table_of(document, "build-system").get("requires")))
    if any(each.startswith("setuptools") for each in usable):
        usable.append("wheel")  # older ones ask for it when they run
    if usable:
        words = f"{command} {' '.join(map(shlex.quote, usable))}"
        yield SetupStep(in_folder(folder, words), source, manager, is_optional=True)


def _links(files: RepositoryFiles, projects: list[str], environment: str) -> Iterator[SetupStep]:
    for folder in projects:
        if command := link_command(files, folder, _project(files, folder), environment):
            source = within(folder, "pyproject.toml")
            yield SetupStep(in_folder(environment, command), source)


def _with_session(found: Finding, folder: str, more: dict[str, str] | None = None) -> Finding:
    """The same, with what a session needs to use `.venv`: that of the root is active in every command."""
    session = {"PIP_CACHE_DIR": PIP_VARIABLES["PIP_CACHE_DIR"], "PIP_DISABLE_PIP_VERSION_CHECK": "1"}
    if not folder:
        session["VIRTUAL_ENV"] = place("", ".venv")
    return Finding(
        steps=found.steps,
        inputs=found.inputs,
        variables=found.variables,
        session_variables={**session, **(more or {})},
        path=(() if folder else (place("", ".venv/bin"),)) + (TOOLS_PATH,),
        hosts=found.hosts,
        notes=found.notes,
    )


def _project(files: RepositoryFiles, folder: str) -> dict[str, Any]:
    return parse_toml(files.text(within(folder, "pyproject.toml")))


def _named(files: RepositoryFiles, folder: str, *names: str) -> tuple[str, ...]:
    return tuple(path for name in names if (path := join(folder, name)) is not None and path in files)


def _test_names(table: dict[str, Any], key: str) -> list[str]:
    key = "optional-dependencies" if key == "extras" and "extras" not in table else key
    return sorted(name for name in table_of(table, key) if name.lower() in TEST_NAMES)


def _test_groups(document: dict[str, Any]) -> list[str]:
    return sorted(name for name in table_of(document, "dependency-groups") if name.lower() in TEST_NAMES)


def _group(groups: dict[str, Any], name: str, *, depth: int) -> list[str]:
    """The requirements of a dependency group with the groups that it includes."""
    members = groups.get(name)
    if not isinstance(members, list) or depth > 5:
        return []
    found: list[str] = []
    for member in members[:200]:
        if isinstance(member, str):
            found.append(member)
        elif isinstance(other := table_of(member).get("include-group"), str):
            found += _group(groups, other, depth=depth + 1)
    return found


def _is_requirements(path: str) -> bool:
    name = path.rpartition("/")[2]
    return name.startswith("requirements") and name.endswith(".txt")


def _above_is_no_project(files: RepositoryFiles, folder: str) -> bool:
    """True if no directory above has a manifest, which would make this one a part of it."""
    above = folder
    while above:
        above = folder_of(above)
        if any(within(above, mark) in files for mark in MARKS):
            return False
    return True
