"""How a Go program or test is started under a debugger.

A debugger such as delve traces the program, which a jail forbids. So the adapter, `go_adapter`, builds the
program with a call of the package `go_runtime` before each statement. Both go to the jail as arguments: a
jail sees none of Hutch's files. The workspace is not changed: the compiler reads the other texts from /tmp.
"""

import asyncio
import re
import shlex
from collections.abc import Sequence
from functools import cache
from pathlib import Path, PurePosixPath

from hutch.agent.repository_testing.runner_definition import Runner
from hutch.domain.errors import BadRequest
from hutch.jail.interface import Jail
from hutch.sessions.debugging.debug_requests import StartDebugger
from hutch.sessions.debugging.debugger_launch_parameters import PROBE_TIMEOUT_S, LaunchPlan, runner_of

START_TIMEOUT_S = 300.0  # the first start compiles much of Go's library, twice at most
MIN_GO = (1, 21)
_TEST = re.compile(r"(?:^|[ .])((?:Test|Fuzz|Example|Benchmark)\S*)$")
_SCRIPT = """\
rm -rf "${TMPDIR:-/tmp}"/hutch-debugger-*
place=$(mktemp -d "${TMPDIR:-/tmp}/hutch-debugger-XXXXXXXX") && mkdir "$place/runtime" || exit 1
while [ $# -gt 0 ]; do
  printf %s "$2" > "$place/$1" || exit 1
  shift 2
done
cd "$place" && GOFLAGS= GOWORK=off go build -o adapter adapter.go build.go instrument.go >&2 && exec ./adapter
"""


async def plan_go(request: StartDebugger, path: str, jail: Jail, runners: Sequence[Runner]) -> LaunchPlan:
    """The plan for the package of a Go file, or its tests."""
    await _check_go(jail)
    is_test = bool(request.test) or request.as_test
    folder = PurePosixPath(path).parent.as_posix()
    arguments, command = list(request.words), ["go", "run", f"./{folder}", *request.words]
    if is_test:
        named = [f"-test.run={_exactly(request.test)}"] if request.test else []
        arguments = ["-test.v", "-test.timeout=0", *named, *arguments]
        command = ["go", "test", "-v", *(each.replace("-test.", "-") for each in named), f"./{folder}"]
    runner = runner_of(path, runners, ("go test",)) if is_test else None
    if runner is not None and runner.directory:
        command[-1] = f"./{PurePosixPath(folder).relative_to(runner.directory).as_posix()}"
    launch = {
        "directory": f"{jail.workspace}/{folder}".removesuffix("/."),
        "isTest": is_test,
        "args": arguments,
        "stopOnEntry": request.stop_on_entry,
    }
    sources = await asyncio.to_thread(adapter_sources)
    adapter = ("/bin/sh", "-c", _SCRIPT, "sh", *sources)
    command_text = shlex.join(command)
    return LaunchPlan("go", path, request.test, adapter, b"", launch, command_text, START_TIMEOUT_S)


@cache
def adapter_sources() -> tuple[str, ...]:
    """Names and texts of the adapter's files. Blocks."""
    here, found = Path(__file__).parent, []
    for folder, prefix in (("go_adapter", ""), ("go_runtime", "runtime/")):
        for file in sorted((here / folder).glob("*.go")):
            found += [prefix + file.name, file.read_text()]
    return tuple(found)


def _exactly(test: str) -> str:
    """A pattern of this name alone; a subtest's has slashes. A package may stand before it."""
    found = _TEST.search(test)
    if not found:
        raise BadRequest(f"'{test[:200]}' names no test of Go. Write TestName, or TestName/subtest.")
    return "/".join(f"^{re.escape(each)}$" for each in found[1].split("/"))


async def _check_go(jail: Jail) -> None:
    ran = await jail.run(["/bin/sh", "-c", "go env GOVERSION"], timeout_s=PROBE_TIMEOUT_S)
    text = ran.stdout.decode(errors="replace").strip()
    if ran.exit_code != 0 or not text.startswith("go"):
        raise BadRequest(
            "The jail has no go. Install Go below /usr, or name its directory in jail.toolchains."
        )
    found = re.match(r"go(\d{1,4})\.(\d{1,4})", text)
    if not found or (int(found[1]), int(found[2])) < MIN_GO:
        needed = ".".join(map(str, MIN_GO))
        raise BadRequest(f"Debugging Go needs Go {needed} or newer; the jail has {text[:40]}.")
