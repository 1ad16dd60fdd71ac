"""`hutch run --server`: the same, worked on by the server, which goes on when we leave."""

import asyncio
import sys

from hutch.cli.asking import ask, short
from hutch.cli.client import Client
from hutch.cli.waiting import Wanted, wait_for
from hutch.cli.wanted import WantedSession


def run_served(wanted: WantedSession, *, as_json: bool) -> int:
    """Have a session of the server do it, and watch; the exit code says how it ended."""

    async def work(client: Client) -> int | None:
        made = await client.post("/sessions", wanted.body(is_local=client.address.is_local))
        try:
            return await wait_for(
                client, made["id"], Wanted(delivers=wanted.deliver), after=0, as_json=as_json
            )
        except asyncio.CancelledError:
            sys.stderr.write(f"hutch: It goes on. Come back: hutch attach {short(made['id'])}\n")
            raise

    return ask(work, as_json=as_json)
