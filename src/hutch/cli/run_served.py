"""`hutch run --server`: the same, worked on by the server, which goes on when we leave."""

import asyncio
import sys
from typing import Any

from hutch.cli.asking import ask, short
from hutch.cli.client import Client
from hutch.cli.sessions import model_name, repository_address
from hutch.cli.waiting import Wanted, wait_for


def run_served(body: dict[str, Any], *, as_json: bool) -> int:
    """Have a session of the server do it, and watch; the exit code says how it ended."""

    async def work(client: Client) -> int | None:
        is_local = client.address.is_local
        wanted = {
            **body,
            "repository": repository_address(body["repository"], is_local),
            "model": model_name(body["model"], is_local),
        }
        made = await client.post("/sessions", wanted)
        try:
            return await wait_for(
                client, made["id"], Wanted(delivers=body["deliver"]), after=0, as_json=as_json
            )
        except asyncio.CancelledError:
            sys.stderr.write(f"hutch: It goes on. Come back: hutch attach {short(made['id'])}\n")
            raise

    return ask(work, as_json=as_json)
