"""A server that is killed while it opens a session.

`python -m tests.sessions.server_killed_while_opening HOME POINT`: in the transaction that makes the
session (`row`), or as soon as its workspace is there (`workspace`). The second one prints the session's id.
"""

import asyncio
import os
import signal
import sys
from pathlib import Path
from threading import Thread

from hutch import logs
from hutch.domain.session import NewSession
from hutch.flows import sessions
from hutch.store.session_creation import OpenedSession
from tests.sessions.session_server import owner, serving, state


def end() -> None:
    os.kill(os.getpid(), signal.SIGKILL)


class End:
    def write(self, connection: object, made: OpenedSession) -> None:
        end()


class PrintId:
    def write(self, connection: object, made: OpenedSession) -> None:
        sys.stdout.write(f"{made.session.id}\n")
        sys.stdout.flush()


def end_with_workspace(workspaces: Path) -> None:
    while True:
        if workspaces.exists() and any(not each.name.startswith(".") for each in workspaces.iterdir()):
            end()


async def main(home: Path, point: str) -> None:
    async with serving(home) as server:
        who = await owner(server)
        if point == "row":
            await sessions.create(server.services, who, NewSession(purpose="never"), also=End())
        Thread(target=end_with_workspace, args=(home / "data" / "workspaces",), daemon=True).start()
        session = await sessions.create(server.services, who, NewSession(purpose="begun"), also=PrintId())
        await state(server, who, session.id, "idle")
        await asyncio.sleep(60)


if __name__ == "__main__":
    logs.configure("error")
    asyncio.run(main(Path(sys.argv[1]), sys.argv[2]))
