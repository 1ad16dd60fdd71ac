"""A server that is killed while it posts a review, and started again to go on.

`python -m tests.stories.server_killed_during_review HOME SOCKET URL COMMIT PULL MODEL`: the first time it
gives itself the work; every time it waits until that is over, and says how.
"""

import asyncio
import sys
from pathlib import Path
from urllib.parse import urlsplit

from hutch import logs
from hutch.flows import sessions
from hutch.flows.reviews import reviewing_agent
from hutch.store.comments_and_reviews import Reviews
from hutch.store.run_queue import Runs
from tests.gateway.api_server import eventually
from tests.sessions.session_server import owner, serving


async def main(home: Path, socket: str, url: str, commit: str, pull: str, model: str) -> None:
    async with serving(home, github__hosts=urlsplit(url).netloc, github__unix_socket=socket) as server:
        who = await owner(server)
        known = await sessions.page(server.services, who)
        if known:
            session = known[0].session
        else:
            session = await reviewing_agent.submit(
                server.services, who, repository=url, commit=commit, target=pull, model=model
            )

        async def is_over() -> bool:
            return not await Runs(server.rows).unfinished(session.id)

        await eventually(is_over)
        given = await Reviews(server.rows).of_pull(pull, commit)
        sys.stdout.write(f"{given.url if given else 'none'}\n")


if __name__ == "__main__":
    logs.configure("error")
    asyncio.run(main(Path(sys.argv[1]), *sys.argv[2:7]))
