"""A server that is killed while it delivers, and started again to go on.

`python -m tests.stories.server_killed_during_delivery HOME SOCKET URL MODEL PROMPTS TESTS`: the first
time it gives itself the work; every time it waits until all of it is delivered, and says so. Where
the tests fail, it has the work proposed all the same.
"""

import asyncio
import sys
from pathlib import Path
from urllib.parse import urlsplit

from hutch import logs
from hutch.domain.inputs import Prompt
from hutch.domain.session import Delivery, NewSession
from hutch.flows import run_redelivery, sessions
from hutch.store.run_queue import Runs
from hutch.store.session_inputs import Inputs
from tests.sessions.session_server import owner, serving


async def main(home: Path, socket: str, url: str, model: str, prompts: int, tests: str) -> None:
    async with serving(home, github__hosts=urlsplit(url).netloc, github__unix_socket=socket) as server:
        who = await owner(server)
        known = await sessions.page(server.services, who)
        if known:
            session = known[0].session
        else:
            wanted = NewSession(
                repository=url,
                model=model,
                deliver=True,
                delivery=Delivery(labels=("hutch",), reviewers=("ada",), tests=tests),
                prompt="Make slugs lower case.",
            )
            session = await sessions.create(server.services, who, wanted)
        while True:
            await asyncio.sleep(0.05)
            if await Runs(server.rows).unfinished(session.id):
                continue
            last = (await Runs(server.rows).page(session_ids=[session.id], limit=1))[0]
            if last.delivered is not None and last.delivered.failing:
                await run_redelivery.deliver(server.services, who, last.id, failing=True)
                continue
            given = len(await Inputs(server.rows).page(session.id))
            if given + 1 >= prompts:
                break
            await sessions.give(server.services, who, session.id, Prompt(text="Strip them, too."))
        sys.stdout.write(f"{session.id}\n")


if __name__ == "__main__":
    logs.configure("error")
    arguments = sys.argv[1:]
    home, socket, url, model, prompts, tests = arguments
    asyncio.run(main(Path(home), socket, url, model, int(prompts), tests))
