"""How a JavaScript or TypeScript file or test is started under Node's inspector.

The adapter is a program of our own, `node_adapter.cjs`, which goes to the jail as an argument: a jail sees
none of Hutch's files. Node runs TypeScript by replacing types with spaces, so lines stay where they are.
"""

import asyncio
import re
import shlex
from collections.abc import Sequence
from functools import cache
from pathlib import Path, PurePosixPath
from typing import Any

from hutch.agent.repository_testing.runner_definition import Runner
from hutch.domain.errors import BadRequest
from hutch.jail.interface import Jail
from hutch.sessions.debugging.debug_requests import StartDebugger
from hutch.sessions.debugging.debugger_launch_parameters import PROBE_TIMEOUT_S, LaunchPlan, runner_of

JAVASCRIPT = (".js", ".mjs", ".cjs")
TYPESCRIPT = (".ts", ".mts", ".cts")
MIN_NODE = (18, 0)
MIN_NODE_FOR_TYPES = (22, 18)
JEST = "node_modules/jest/bin/jest.js"
NO_VITEST = (
    "Tests of Vitest cannot be debugged: it runs them in workers. Debug a file that calls the code, or a "
    "test of node:test or Jest."
)


async def plan_node(request: StartDebugger, path: str, jail: Jail, runners: Sequence[Runner]) -> LaunchPlan:
    """The plan for a JavaScript or TypeScript file or its tests."""
    is_typed = PurePosixPath(path).suffix.lower() in TYPESCRIPT
    node = await _find_node(jail, is_typed=is_typed)
    is_test = bool(request.test) or request.as_test
    runner = runner_of(path, runners, ("Jest", "Vitest", "node:test")) if is_test else None
    folder = runner.directory if runner is not None else ""
    inside = path.removeprefix(f"{folder}/") if folder else path
    options: list[str] = []
    program, arguments = f"{jail.workspace}/{path}", list(request.words)
    command = ["node", inside, *arguments]
    if runner is not None and runner.name == "Vitest":
        raise BadRequest(NO_VITEST)
    if runner is not None and runner.name == "Jest":
        program = await _find_jest(jail, folder)
        named = ["-t", _exactly(request.test)] if request.test else []
        arguments = ["--runInBand", "--runTestsByPath", inside, *named, *arguments]
        command = ["npx", "jest", *arguments]
    elif request.test:
        options = [f"--test-name-pattern={_exactly(request.test)}"]
        command = ["node", *options, *command[1:]]
    launch: dict[str, Any] = {
        "program": program,
        "args": arguments,
        "nodeArgs": options,
        "cwd": f"{jail.workspace}/{folder}".rstrip("/"),
        "stopOnEntry": request.stop_on_entry,
    }
    adapter = (node, "-e", await asyncio.to_thread(adapter_source))
    language = "typescript" if is_typed else "javascript"
    return LaunchPlan(language, path, request.test, adapter, b"", launch, shlex.join(command))


@cache
def adapter_source() -> str:
    """The program of the adapter. Blocks."""
    return (Path(__file__).parent / "node_adapter.cjs").read_text()


def _exactly(test: str) -> str:
    """A pattern of this name, also for a test in a suite, whose full name begins with that of the suite."""
    escaped = re.sub(r"([.*+?^${}()|\[\]\\])", r"\\\1", test.rpartition(" > ")[2])
    return f"(?:^| ){escaped}$"


async def _find_node(jail: Jail, *, is_typed: bool) -> str:
    script = "command -v node && node --version"
    ran = await jail.run(["/bin/sh", "-c", script], timeout_s=PROBE_TIMEOUT_S)
    lines = ran.stdout.decode(errors="replace").splitlines()
    if ran.exit_code != 0 or len(lines) != 2 or not lines[0].startswith("/"):
        raise BadRequest(
            "The jail has no node. Install Node below /usr, or name its directory in jail.toolchains."
        )
    found = re.match(r"v(\d{1,4})\.(\d{1,4})\.", lines[1])
    version = (int(found[1]), int(found[2])) if found else (0, 0)
    minimum = MIN_NODE_FOR_TYPES if is_typed else MIN_NODE
    if version < minimum:
        needed = ".".join(map(str, minimum))
        language = "TypeScript" if is_typed else "JavaScript"
        raise BadRequest(
            f"Debugging {language} needs Node {needed} or newer; the jail has {lines[1][:40]}. Name the "
            "directory of a newer one in jail.toolchains."
        )
    return lines[0][:4096]


async def _find_jest(jail: Jail, folder: str) -> str:
    parts = PurePosixPath(folder).parts
    places = [f"{jail.workspace}/{'/'.join((*parts[:depth], JEST))}" for depth in range(len(parts), -1, -1)]
    script = f'for each in {shlex.join(places)}; do [ -f "$each" ] && echo "$each" && exit; done; exit 1'
    ran = await jail.run(["/bin/sh", "-c", script], timeout_s=PROBE_TIMEOUT_S)
    lines = ran.stdout.decode(errors="replace").splitlines()
    if ran.exit_code != 0 or not lines or lines[0] not in places:
        raise BadRequest("Jest is not installed: there is no node_modules/jest. Install the dependencies.")
    return lines[0]
