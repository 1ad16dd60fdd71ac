"""A program under a debugger whose adapter ends in unusual ways, in a real jail."""

import asyncio
import shutil
import tempfile
from collections.abc import AsyncIterator, Iterator
from pathlib import Path

import pytest

from hutch.domain.redaction import Redactor
from hutch.jail.jail_startup import Jailed, open_jail
from hutch.sessions.debugging.debug_adapter_values import ValueReader
from hutch.sessions.debugging.debugged_program import DebuggedProgram, ProgramCallbacks
from hutch.sessions.debugging.debugger_launch_parameters import LaunchPlan

pytestmark = pytest.mark.anyio

ADAPTER = """
import json, sys

def send(**message):
    body = json.dumps(message).encode()
    sys.stdout.buffer.write(b"Content-Length: %d\\r\\n\\r\\n" % len(body) + body)
    sys.stdout.buffer.flush()

while line := sys.stdin.buffer.readline():
    sys.stdin.buffer.readline()
    request = json.loads(sys.stdin.buffer.read(int(line.split()[1])))
    if request["command"] == "continue":  # the program ends before this is answered
        send(type="event", event="exited", body={"exitCode": 2})
        break
    send(type="response", request_seq=request["seq"], command=request["command"], success=True)
    if request["command"] == "initialize":
        send(type="event", event="initialized")
"""


@pytest.fixture
def workspace() -> Iterator[Path]:
    """A directory that the user of the jail can reach."""
    directory = Path(tempfile.mkdtemp(prefix="hutch-test-"))
    directory.chmod(0o755)
    (directory / "adapter.py").write_text(ADAPTER)
    yield directory
    shutil.rmtree(directory)


@pytest.fixture
async def jail(workspace: Path) -> AsyncIterator[Jailed]:
    async with open_jail(workspace) as opened:
        yield opened


async def test_a_program_that_ends_when_it_continues_has_ended_with_its_code(jail: Jailed) -> None:
    ended: asyncio.Future[tuple[int | None, str]] = asyncio.get_running_loop().create_future()

    async def on_end(code: int | None, reason: str) -> None:
        ended.set_result((code, reason))

    callbacks = ProgramCallbacks(
        output=lambda stream, data: None,
        verified=lambda path, index, holds, message: None,
        stopped=lambda stop: asyncio.sleep(0),
        ended=on_end,
    )
    plan = LaunchPlan("go", "main.go", "", ("python3", "adapter.py"), b"", {}, "go run .")
    program = DebuggedProgram(jail, plan, ValueReader(Redactor(), jail.workspace), callbacks)
    await program.start([])
    await program.step("continue")
    assert await ended == (2, "")
    await program.close()
