"""A server that is killed while it processes requests from GitHub, and started again to continue.

`python -m tests.stories.server_killed_during_webhooks HOME SOCKET URL`: every time it receives the same two
things, as GitHub may do; it waits until both are over, and says so.
"""

import asyncio
import sys
from pathlib import Path
from urllib.parse import urlsplit

from hutch import logs
from hutch.domain.request_from_forge import ForgeRequest, WebhookDelivery
from hutch.flows.forge_request_handler import TriggerOptions
from hutch.gateway.gateway_context import Server
from hutch.store.webhook_inbox import WebhookInbox
from tests.gateway.api_server import eventually
from tests.sessions.session_server import owner, serving

ISSUE, PULL, LINE = 1, 2, 77


async def main(home: Path, socket: str, url: str, model: str) -> None:
    settings = {"github__hosts": urlsplit(url).netloc, "github__unix_socket": socket, "model": model}
    async with serving(home, **settings) as server:
        await owner(server)
        server.triggers.options = TriggerOptions(poll_s=0.02, edit_s=0.0, settle_s=8.0)
        common = {"repository": url, "by": "ada", "author": "ada", "title": "Slugs", "body": "Lower."}
        issue = ForgeRequest(
            kind="issue", number=ISSUE, url="https://127.0.0.1/acme/project/issues/1", **common
        )
        line = ForgeRequest(
            kind="line_comment",
            number=PULL,
            url="https://127.0.0.1/r#77",
            text="Strip them, too.",
            on_pull=True,
            comment_id=LINE,
            path="slug.py",
            line=2,
            **common,
        )
        for id, request in (("one", issue), ("two", line)):
            await server.triggers.take(id, f"digest of {id}", "issues", request)
            found = await over(server, id)
            sys.stdout.write(f"{id} {found.state} {found.reason}\n")


async def over(server: Server, id: str) -> WebhookDelivery:
    async def poll() -> WebhookDelivery | None:
        found = await WebhookInbox(server.rows).get(id)
        return found if found and found.state in ("ended", "ignored") else None

    found: WebhookDelivery = await eventually(poll)
    return found


if __name__ == "__main__":
    logs.configure("error")
    asyncio.run(main(Path(sys.argv[1]), *sys.argv[2:5]))
