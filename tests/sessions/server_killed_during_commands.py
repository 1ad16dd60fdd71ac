"""A server that is killed while it runs commands and writes files for its callers.

`python -m tests.sessions.server_killed_during_commands HOME` prints the session's id, then a
line for each answer.
"""

import asyncio
import sys
from pathlib import Path

from hutch import logs
from hutch.domain.session import NewSession
from hutch.flows import sessions
from hutch.sessions import file_and_command_requests as requests
from tests.sessions.session_server import owner, serving, state


def send(word: str) -> None:
    sys.stdout.write(f"{word}\n")
    sys.stdout.flush()


async def main(home: Path) -> None:
    async with serving(home) as server:
        who = await owner(server)
        session = await sessions.create(server.services, who, NewSession(purpose="to be killed"))
        await state(server, who, session.id, "idle")
        send(session.id)

        async def run(shell: int) -> None:
            for number in range(10_000):
                word = f"word-{shell}-{number}"
                asked = requests.RunCommand(f"echo {word}", shell=f"s{shell}")
                assert (await server.host.call(session.id, asked)).stdout == f"{word}\n"
                send(word)

        async def write() -> None:
            for number in range(10_000):
                path = f"file-{number}"
                await server.host.call(session.id, requests.WriteFile(path, b"x"), by=who.user.id)
                send(path)

        await asyncio.gather(run(1), run(2), write())


if __name__ == "__main__":
    logs.configure("error")
    asyncio.run(main(Path(sys.argv[1])))
