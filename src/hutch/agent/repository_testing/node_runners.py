"""The test runners of packages for Node: Vitest, Jest, node:test, and scripts."""

import json
import re
from collections.abc import Sequence
from typing import Any

from hutch.agent.repository_testing.runner_definition import REPORT, ReadFile, Runner

NODE_TEST = ("node", "--test", "--test-reporter=tap")  # an old Node refuses these options
TEST_FILE = re.compile(r"\.test\.[cm]?[jt]s$")
LOCK_FILES = {"pnpm-lock.yaml": "pnpm", "yarn.lock": "yarn"}  # others are npm's
# Starts the repository's own runner, or else the jail's. npx is no choice: for a missing runner it asks the
# network despite its options, and waits for an answer that never comes.
INSTALLED = """name=$1 bin=$2 at=$PWD
shift 2
while :; do
    found=$at/node_modules/.bin
    [ -x "$found/$bin" ] && PATH=$found:$PATH exec "$found/$bin" "$@"
    [ "$at" ] || break
    at=${at%/*}
done
command -v -- "$bin" >/dev/null && exec "$bin" "$@"
echo "$name is not installed: there is no node_modules/.bin/$bin." >&2
exit 127"""


def node_runner(read: ReadFile, names: Sequence[str], *, root: ReadFile) -> Runner | None:
    """The runner of the package in a directory; `root` reads files of the repository's top directory."""
    package = _package(read)
    if package is None:
        return None
    script, known = package
    if "vitest" in known or re.search(r"\bvitest\b", script):
        # The second reporter prints progress: a run without any output would be stopped.
        words = ("run", "--reporter=junit", "--reporter=default", f"--outputFile.junit={REPORT}")
        version = _installed("Vitest", "vitest", "--version")
        argv = _installed("Vitest", "vitest", *words)
        return Runner("Vitest", argv, "junit", REPORT, "npx vitest run", version=version)
    if "jest" in known or re.search(r"\bjest\b", script):
        argv = _installed("Jest", "jest", "--json", "--testLocationInResults", f"--outputFile={REPORT}")
        version = _installed("Jest", "jest", "--version")
        return Runner("Jest", argv, "jest", REPORT, "npx jest", version=version)
    if "node --test" in script or (not script and any(TEST_FILE.search(name) for name in names)):
        version = (*NODE_TEST, "--version")
        return Runner("node:test", NODE_TEST, "tap", None, "node --test", version=version)
    if script and "no test specified" not in script:
        program = next((name for file, name in LOCK_FILES.items() if root(file) is not None), "npm")
        argv = ("npm", "test", "--silent", "--") if program == "npm" else (program, "run", "test")
        name = f"{program} test"
        return Runner(name, argv, "summary", None, name, version=(program, "--version"))
    return None


def _package(read: ReadFile) -> tuple[str, set[str]] | None:
    """The test script and the dependencies of a package."""
    raw = read("package.json")
    if raw is None:
        return None
    try:
        package: Any = json.loads(raw)
        script = str((package.get("scripts") or {}).get("test", ""))
        return script, {*(package.get("dependencies") or {}), *(package.get("devDependencies") or {})}
    except (ValueError, AttributeError, TypeError, RecursionError):
        return None


def _installed(name: str, *words: str) -> tuple[str, ...]:
    return ("/bin/sh", "-c", INSTALLED, "tests", name, *words)
