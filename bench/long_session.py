"""A log as long runs leave it: replies, commands with their output, edits and messages."""

import json
from collections.abc import Iterator
from pathlib import Path

from hutch.domain.events import (
    CommandEnded,
    CommandStarted,
    Event,
    FileChanged,
    MessageSent,
    ModelReplied,
    RunEnded,
    RunStarted,
    ShellPrinted,
    ToolCalled,
    ToolReturned,
)
from hutch.domain.ids import SessionId, new_run_id
from hutch.store.event_log import open_log

TURNS_PER_RUN = 200
LAST_LINE = "This is the end of the log."
LINES = "".join(f"tests/test_{number}.py::test_it PASSED\n" for number in range(12))
PROSE = (
    "I read the module and change the **function** that joins words.\n\n- first `slug()`\n- then its tests\n"
)


def events_of_runs() -> Iterator[Event]:
    """Events without an end: each run has turns, each turn a reply, a command and an edit."""
    while True:
        run_id = new_run_id()
        yield RunStarted(run_id=run_id, prompt="Make the failing tests pass.", persona="engineer", model="m")
        for turn in range(1, TURNS_PER_RUN):
            command, call_id, edit_id = "make test", f"c{turn}", f"e{turn}"
            calls = (
                {"id": call_id, "tool": "bash", "arguments": json.dumps({"command": command})},
                {"id": edit_id, "tool": "read_file", "arguments": '{"path": "src/a.py"}'},
            )
            yield ModelReplied.model_validate(
                {
                    "run_id": run_id,
                    "turn": turn,
                    "text": PROSE * 2,
                    "calls": calls,
                    "finish": "calls",
                    "input_tokens": 9000,
                    "output_tokens": 200,
                    "cost_usd": 0.01,
                }
            )
            yield ToolCalled(
                run_id=run_id, call_id=call_id, tool="bash", arguments=json.dumps({"command": command})
            )
            yield CommandStarted(shell="main", command=command, cwd="/workspace", by="agent", call_id=call_id)
            for _ in range(4):
                yield ShellPrinted(shell="main", stream="stdout", text=LINES, by="agent")
            yield CommandEnded(
                shell="main", command=command, cwd="/workspace", exit_code=0, duration_s=1, by="agent"
            )
            yield ToolReturned(
                run_id=run_id, call_id=call_id, tool="bash", ok=True, text=LINES, duration_s=1.0
            )
            yield ToolCalled(
                run_id=run_id, call_id=edit_id, tool="read_file", arguments='{"path": "src/a.py"}'
            )
            yield FileChanged(
                path=f"src/module_{turn}.py",
                kind="modified",
                before=f"{turn:064x}",
                after="f" * 64,
                by="agent",
                call_id=edit_id,
            )
            yield ToolReturned(
                run_id=run_id, call_id=edit_id, tool="read_file", ok=True, text=LINES, duration_s=0.1
            )
            yield MessageSent(author="user", text=f"Message {turn} of a person who watches.")
        yield RunEnded(run_id=run_id, outcome="done", turns=TURNS_PER_RUN)


async def lengthen(home: Path, session: str, events: int) -> None:
    """Append events to the log of a session, while no server runs, and one line at the end."""
    data = home / "data"
    source = events_of_runs()
    session_id = SessionId(session)
    async with open_log(data / "hutch.db", data / "blobs", data / "keys" / "signing.pem") as log:
        missing = events - (await log.head(session_id)).seq - 1
        while missing > 0:
            count = min(1000, missing)
            await log.append(session_id, [next(source) for _ in range(count)])
            missing -= count
        await log.append(session_id, [MessageSent(author="user", text=LAST_LINE)])
