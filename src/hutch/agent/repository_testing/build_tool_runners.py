"""The tests of build tools: go, cargo, Maven, Gradle, CMake and make."""

import re
from collections.abc import Sequence

from hutch.agent.repository_testing.runner_definition import REPORT, ReadFile, Runner

GO_VERSION = ("go", "version")
CTEST_BUILD = "/tmp/hutch-ctest"
# Configures and builds in a directory of its own, unless the repository has a configured one.
CTEST = f"""build=build
if [ ! -f build/CTestTestfile.cmake ]; then
    build={CTEST_BUILD}
    cmake -S . -B "$build" && cmake --build "$build" --parallel 2 || exit
else
    cmake --build build --parallel 2 || exit
fi
exec ctest --test-dir "$build" --output-on-failure --no-tests=error --output-junit {REPORT} "$@\""""
MAKE_TARGET = re.compile(rb"^(test|check)\s*:(?!=)", re.MULTILINE)
GRADLE_FILES = ("build.gradle", "build.gradle.kts", "settings.gradle", "settings.gradle.kts")
MAKE_FILES = ("GNUmakefile", "makefile", "Makefile")


def go_runner(read: ReadFile, names: Sequence[str]) -> Runner | None:
    if "go.mod" not in names:
        return None
    words = ("go", "test", "-json")
    return Runner("go test", words, "go", None, "go test", ("./...",), version=GO_VERSION)


def configured_go(command: str) -> Runner | None:
    """The runner for a `tests.command` that is a plain call of `go test`."""
    found = re.fullmatch(r"go test((?: [^|;&<>$`]*)?)", command.strip())
    if not found:
        return None
    words = ["go", "test", "-json", *found[1].split()]
    return Runner("go test", tuple(words), "go", None, command, version=GO_VERSION)


def cargo_runner(read: ReadFile, names: Sequence[str]) -> Runner | None:
    if "Cargo.toml" not in names:
        return None
    is_workspace = re.search(rb"^\s*\[workspace\b", read("Cargo.toml") or b"", re.MULTILINE)
    words = ("cargo", "test", "--workspace") if is_workspace else ("cargo", "test")
    return Runner("cargo test", words, "cargo", version=("cargo", "--version"))


def maven_runner(read: ReadFile, names: Sequence[str]) -> Runner | None:
    if "pom.xml" not in names:
        return None
    program = "./mvnw" if "mvnw" in names else "mvn"
    # Batch mode prints no progress of downloads; the failure of one module does not hide the others.
    return Runner(
        "Maven",
        (program, "-B", "--fail-at-end", "test"),
        "junit",
        None,
        f"{program} test",
        version=(program, "--version"),
        reports="**/target/surefire-reports/TEST-*.xml",
    )


def gradle_runner(read: ReadFile, names: Sequence[str]) -> Runner | None:
    if not any(name in names for name in GRADLE_FILES):
        return None
    program = "./gradlew" if "gradlew" in names else "gradle"
    # A daemon would outlive the run. Results of tests that did not run again must not be missing.
    words = (program, "--no-daemon", "--console=plain", "--continue", "--rerun-tasks", "test")
    return Runner(
        "Gradle",
        words,
        "junit",
        None,
        f"{program} test",
        version=(program, "--version"),
        reports="**/build/test-results/**/TEST-*.xml",
    )


def ctest_runner(read: ReadFile, names: Sequence[str]) -> Runner | None:
    text = read("CMakeLists.txt") or b""
    if not re.search(rb"^\s*(enable_testing|include\s*\(\s*CTest\b)", text, re.MULTILINE | re.IGNORECASE):
        return None
    argv = ("/bin/sh", "-c", CTEST, "tests")
    return Runner("ctest", argv, "junit", REPORT, "ctest", version=("ctest", "--version"))


def make_runner(read: ReadFile, names: Sequence[str]) -> Runner | None:
    """`make test` or `make check`: for directories in which nothing else is found."""
    text = next((read(name) or b"" for name in MAKE_FILES if name in names), b"")
    targets = set(MAKE_TARGET.findall(text))
    target = "test" if b"test" in targets else "check" if targets else ""
    if not target:
        return None
    return Runner("make", ("make", target), "summary", None, f"make {target}", version=("make", "--version"))
