"""A server that is killed while it delivers, and started again to go on.

`python -m tests.stories.github_victim HOME SOCKET URL MODEL PROMPTS`: the first time it gives
itself the work; every time it waits until all of it is delivered, and says so.
"""

import asyncio
import sys
from pathlib import Path
from urllib.parse import urlsplit

from hutch import logs
from hutch.domain.inputs import Prompt
from hutch.domain.session import Delivery
from hutch.flows import sessions
from hutch.flows.sessions import NewSession
from hutch.store.inputs import Inputs
from hutch.store.runs import Runs
from tests.sessions.hosting import owner, serving


async def main(home: Path, socket: str, url: str, model: str, prompts: int) -> None:
    async with serving(home, github__hosts=urlsplit(url).netloc, github__unix_socket=socket) as server:
        who = await owner(server)
        known = await sessions.page(server.site, who)
        if known:
            session = known[0].session
        else:
            wanted = NewSession(
                repository=url,
                model=model,
                deliver=True,
                delivery=Delivery(labels=("hutch",), reviewers=("ada",)),
                prompt="Make slugs lower case.",
            )
            session = await sessions.create(server.site, who, wanted)
        while True:
            await asyncio.sleep(0.05)
            if await Runs(server.rows).unfinished(session.id):
                continue
            given = len(await Inputs(server.rows).page(session.id))
            if given + 1 >= prompts:
                break
            await sessions.give(server.site, who, session.id, Prompt(text="Strip them, too."))
        sys.stdout.write(f"{session.id}\n")


if __name__ == "__main__":
    logs.configure("error")
    arguments = sys.argv[1:]
    asyncio.run(main(Path(arguments[0]), arguments[1], arguments[2], arguments[3], int(arguments[4])))
