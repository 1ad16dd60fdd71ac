"""How a Python file or test is started under debugpy."""

import asyncio
import re
import shlex
from collections.abc import Sequence
from typing import Any

from hutch.agent.repository_testing.runner_definition import Runner
from hutch.domain.errors import BadRequest
from hutch.jail.interface import Jail
from hutch.sessions.debugging.debug_requests import StartDebugger
from hutch.sessions.debugging.debugger_launch_parameters import PROBE_TIMEOUT_S, LaunchPlan, runner_of
from hutch.sessions.debugging.python_adapter_program import debugpy_zip, python_adapter_argv

PYTHONS = (".venv/bin/python", "venv/bin/python")
_MODULE = re.compile(r"[A-Za-z_]\w*(\.[A-Za-z_]\w*)*")


async def plan_python(request: StartDebugger, path: str, jail: Jail, runners: Sequence[Runner]) -> LaunchPlan:
    """The plan for a Python file or its tests."""
    is_test = bool(request.test) or request.as_test
    runner = runner_of(path, runners, ("pytest", "unittest")) if is_test else None
    folder = runner.directory if runner is not None else ""
    python = await _find_python(jail, folder)
    launch: dict[str, Any] = {
        "name": "Hutch",
        "request": "launch",
        "type": "python",
        "console": "internalConsole",
        "redirectOutput": True,
        "justMyCode": True,
        "subProcess": False,
        "showReturnValue": True,
        "stopOnEntry": request.stop_on_entry,
        "python": [python],
        "cwd": f"{jail.workspace}/{folder}".rstrip("/"),
    }
    if not is_test:
        launch |= {"program": f"{jail.workspace}/{path}", "args": list(request.words)}
        command = ["python3", path, *request.words]
    else:
        module, words = _python_test(runner, path, folder, request)
        launch |= {"module": module, "args": words}
        command = ["python3", "-m", module, *words]
    modules = await asyncio.to_thread(debugpy_zip)
    adapter = python_adapter_argv(python, len(modules))
    return LaunchPlan("python", path, request.test, adapter, modules, launch, shlex.join(command))


def _python_test(
    runner: Runner | None, path: str, folder: str, request: StartDebugger
) -> tuple[str, list[str]]:
    """The module that runs a test, and its arguments."""
    inside = path.removeprefix(f"{folder}/") if folder else path
    if runner is not None and runner.name == "pytest":
        test = f"{inside}::{request.test}" if request.test else inside
        return "pytest", ["-q", "-s", "-p", "no:cacheprovider", *request.words, test]
    module = inside.removesuffix(".py").replace("/", ".")
    test = request.test.replace("::", ".")
    if not _MODULE.fullmatch(module) or (test and not _MODULE.fullmatch(test)):
        raise BadRequest(f"'{path}' and '{request.test}' name no test of unittest. Write Class.method.")
    return "unittest", ["-v", *request.words, f"{module}.{test}" if test else module]


async def _find_python(jail: Jail, folder: str) -> str:
    """The Python of the project, or else that of the jail."""
    places = [f"{jail.workspace}/{each}/{name}" for each in dict.fromkeys((folder, "")) for name in PYTHONS]
    tried = " ".join(shlex.quote(place.replace("//", "/")) for place in places)
    script = f'for each in {tried}; do [ -x "$each" ] && echo "$each" && exit; done; command -v python3'
    ran = await jail.run(["/bin/sh", "-c", script], timeout_s=PROBE_TIMEOUT_S)
    lines = ran.stdout.decode(errors="replace").splitlines()
    if ran.exit_code != 0 or not lines or not lines[0].startswith("/"):
        raise BadRequest("The jail has no python3. Install Python on this machine to debug Python programs.")
    return lines[0][:4096]
