"""A run that kills its own process at one moment. Usage: self_killing_run.py DIRECTORY MOMENT NUMBER

Moments: `stream` (the model is speaking), `append` (before events are written), `written` (after),
`tool` (a command is running in the jail), `any` (NUMBER milliseconds after the start).
"""

import asyncio
import os
import signal
import sys
import threading
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

from hutch.agent.run_setup import RunSetup
from hutch.domain.events import CommandStarted, Event
from hutch.flows.run_execution.agent_work_and_tests import begin
from tests.agent.run_setups import SetupOptions, call, open_setup, replies

TURNS = 5
SESSION = "session_id"
# Each turn leaves a line in a file by bash, and a file by write_file: what was made twice shows.
CASSETTE = replies(
    *(
        {
            "text": f"Turn {turn}. " + "Let me think about it. " * 5,
            "calls": [
                call("bash", command=f"echo bash_{turn} >> ran.txt"),
                call("read_file", path="a.txt"),
                call(
                    "apply_patch", patch=f"*** Begin Patch\n*** Add File: new_{turn}.txt\n+x\n*** End Patch"
                ),
            ],
        }
        for turn in range(TURNS)
    ),
    {"calls": [call("finish", title="Done")]},
)
REQUESTS = SetupOptions({"a.txt": b"hello\n"}, CASSETTE)


def die() -> None:
    os.kill(os.getpid(), signal.SIGKILL)


class Countdown:
    """Ends this process when it was called so often."""

    def __init__(self, number: int) -> None:
        self.left = number

    def __call__(self, *_: object) -> None:
        self.left -= 1
        if self.left < 0:
            die()

    async def on_events(self, events: Sequence[Event]) -> None:
        for _ in events:
            self()


async def run(home: Path, moment: str, number: int) -> None:
    async with open_setup(home, REQUESTS) as setup:
        (home / SESSION).write_text(setup.recorder.session_id)
        count = Countdown(number)
        match moment:
            case "stream":
                setup = replace(setup, on_delta=count)
            case "written":
                setup.recorder.listeners.append(count.on_events)
            case "tool":
                setup.context.shells.listeners.append(
                    lambda event: count() if type(event).__name__ == CommandStarted.__name__ else None
                )
            case "append":
                setup.recorder.log = Deadly(setup, count)  # type: ignore[assignment]
            case "any":
                threading.Timer(number / 1000, die).start()
        await begin(setup, "run_1", "Go.")


class Deadly:
    """A log in front of the real one, where writing may be the last thing that is done."""

    def __init__(self, setup: RunSetup, count: Countdown) -> None:
        self._log, self._count = setup.recorder.log, count

    async def append(self, session_id: str, events: Sequence[Event], **options: Any) -> object:
        self._count()
        return await self._log.append(session_id, events, **options)  # type: ignore[arg-type]


if __name__ == "__main__":
    asyncio.run(run(Path(sys.argv[1]), sys.argv[2], int(sys.argv[3])))
