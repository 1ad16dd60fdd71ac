"""Projects in Go, Rust, Java and Ruby."""

import re
import shlex
from collections.abc import Iterator

from hutch.domain.dependency_plan import SetupStep
from hutch.environment.detection.bounded_repository_reader import RepositoryFiles, folder_of, join, within
from hutch.environment.detection.detected_install_steps import CACHE, Finding, in_folder, place, unique
from hutch.environment.detection.manifest_parsing import hosts_of

GO_VARIABLES = {
    "GOMODCACHE": f"{CACHE}/go-mod",
    "GOCACHE": f"{CACHE}/go-build",
    "GOFLAGS": "-modcacherw",  # otherwise the directories of modules cannot be removed
    "GOTOOLCHAIN": "local",
}
GO_COMPILE = (
    "go build testing net/http encoding/json text/template os/exec log/slog && "
    "go list -m -f '{{if not (or .Main .Indirect)}}{{.Path}}/...{{end}}' all | "
    "xargs -r go build"
)
"""Otherwise every session compiles the usual standard library and the dependencies before its first test."""
CARGO_HOME = f"{CACHE}/cargo"
MAVEN_OPTIONS = f"-Dmaven.repo.local={CACHE}/maven"
PROXY_OPTIONS = (
    'proxy="${https_proxy#http://}"; proxy="${proxy%/}"; '
    'set -- ${proxy:+-Dhttps.proxyHost="${proxy%%:*}" -Dhttps.proxyPort="${proxy##*:}" '
    '-Dhttp.proxyHost="${proxy%%:*}" -Dhttp.proxyPort="${proxy##*:}"}; '
)
"""Java does not read the variables of the proxy."""
MAX_MEMBERS = 200


def find_go(files: RepositoryFiles) -> Iterator[Finding]:
    modules = _all(files, "go.mod")
    work = _all(files, "go.work")
    below = [folder_of(path) for path in work]
    for source in [*work, *(m for m in modules if not any(_is_below(m, folder) for folder in below))]:
        folder = folder_of(source)
        inputs = _present(files, folder, "go.mod", "go.sum", "go.work", "go.work.sum")
        if source in work:
            inputs += [path for path in modules if _is_below(path, folder)]
            inputs += [path for path in _all(files, "go.sum") if _is_below(path, folder)]
        inputs += _replaced(files, inputs)
        yield Finding(
            steps=(
                SetupStep(in_folder(folder, "go mod download"), source, "go"),
                SetupStep(in_folder(folder, GO_COMPILE), source, "go", is_optional=True),
            ),
            inputs=unique(inputs),
            variables=GO_VARIABLES,
            session_variables={**GO_VARIABLES, "GOPROXY": "off"},
        )


def find_cargo(files: RepositoryFiles) -> Iterator[Finding]:
    """Cargo wants a source file for each package, so that the manifests are copied beside empty ones."""
    for source in _all(files, "Cargo.lock"):
        folder = folder_of(source)
        manifests = [path for path in _all(files, "Cargo.toml") if _is_below(path, folder)][:MAX_MEMBERS]
        if within(folder, "Cargo.toml") not in manifests:
            continue
        names = [path.removeprefix(f"{folder}/") if folder else path for path in [*manifests, source]]
        names += [
            name
            for name in (".cargo/config.toml", "rust-toolchain.toml", "rust-toolchain")
            if join(folder, name) in files
        ]
        folders = [folder_of(name) for name in names if name.endswith("Cargo.toml")]
        sources = " ".join(shlex.quote(f"{each}/src" if each else "src") for each in folders)
        command = (
            f'copy=$(mktemp -d) && cp --parents {" ".join(map(shlex.quote, names))} "$copy" && cd "$copy" && '
            f'for each in {sources}; do mkdir -p "$each" && : > "$each/lib.rs"; done && cargo fetch --locked'
        )
        yield Finding(
            steps=(SetupStep(in_folder(folder, command), source, "cargo"),),
            inputs=unique(path for name in names if (path := join(folder, name))),
            variables={"CARGO_HOME": CARGO_HOME},
            session_variables={"CARGO_HOME": CARGO_HOME, "CARGO_NET_OFFLINE": "true"},
            path=(f"{CARGO_HOME}/bin",),
            hosts=hosts_of(files.text(source)),
        )


def find_maven(files: RepositoryFiles) -> Iterator[Finding]:
    poms = _all(files, "pom.xml")
    for source in poms:
        folder = folder_of(source)
        if any(other != source and _is_below(source, folder_of(other)) for other in poms):
            continue  # a module of the one above
        inputs = [path for path in poms if _is_below(path, folder)][:MAX_MEMBERS]
        inputs += files.matching(".mvn/**/*", below=folder)
        command = f'{PROXY_OPTIONS}mvn -B -ntp "$@" dependency:go-offline'
        yield Finding(
            steps=(SetupStep(in_folder(folder, command), source, "maven"),),
            inputs=unique(inputs),
            variables={"MAVEN_OPTS": MAVEN_OPTIONS},
            session_variables={"MAVEN_OPTS": MAVEN_OPTIONS, "MAVEN_ARGS": "-o"},
            hosts=tuple(
                host for path in inputs for host in hosts_of("".join(_repositories(files.text(path))))
            ),
            notes=(
                f"{source}: Maven chooses the test provider when tests run; name it as a dependency of the "
                "surefire plugin if an offline session misses it",
            ),
        )


def find_bundler(files: RepositoryFiles) -> Iterator[Finding]:
    for lock, manifest in (("Gemfile.lock", "Gemfile"), ("gems.locked", "gems.rb")):
        for source in _all(files, lock):
            folder = folder_of(source)
            if within(folder, manifest) not in files:
                continue
            inputs = [*_present(files, folder, manifest, lock, ".ruby-version"), *_gemspecs(files, folder)]
            variables = {
                "BUNDLE_PATH": f"{CACHE}/bundle",
                "BUNDLE_APP_CONFIG": f"{CACHE}/bundle-config",
                "BUNDLE_GEMFILE": place(folder, manifest),
                "BUNDLE_FROZEN": "true",
            }
            yield Finding(
                steps=(SetupStep(in_folder(folder, "bundle install"), source, "bundler"),),
                inputs=unique(inputs),
                variables=variables,
                session_variables=variables,
                hosts=hosts_of(files.text(source)),
            )


def _gemspecs(files: RepositoryFiles, folder: str) -> list[str]:
    """A gemspec is a program; it usually reads the version of the gem from `lib`."""
    found = files.matching("*.gemspec", below=folder)
    return [*found, *(files.matching("lib/**/version.rb", below=folder) if found else [])]


def _repositories(text: str) -> Iterator[str]:
    for found in re.finditer(r"<url>\s*(https?://[^<\s]{1,300})", text[:1_000_000]):
        yield f"{found[1]} "


def _replaced(files: RepositoryFiles, inputs: list[str]) -> list[str]:
    """The go.mod of modules that others replace by a directory of the repository."""
    found = []
    for path in inputs:
        if path.endswith("go.mod"):
            for target in re.findall(r"=>[ \t]*(\.\.?/\S{1,300})[ \t]*$", files.text(path), re.M):
                for name in ("go.mod", "go.sum"):
                    at = join(folder_of(path), f"{target}/{name}")
                    if at is not None and at in files:
                        found.append(at)
    return found


def _all(files: RepositoryFiles, name: str) -> list[str]:
    found = [path for path in files.names if path.rpartition("/")[2] == name]
    return sorted(found, key=lambda path: (path.count("/"), path))


def _is_below(path: str, folder: str) -> bool:
    return not folder or path.startswith(f"{folder}/")


def _present(files: RepositoryFiles, folder: str, *names: str) -> list[str]:
    return [path for name in names if (path := join(folder, name)) and path in files]
