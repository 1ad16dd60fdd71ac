"""MCP servers at an address are reached through the egress proxy, with tokens that no jail has."""

import asyncio
import sys
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import pytest

from hutch.agent.extensions.extension_manifest import parse_manifest
from hutch.domain.errors import HutchError
from hutch.domain.redaction import Redactor
from tests.agent.extensions.extension_fixtures import open_extension_rig
from tests.deadline import DEADLINE_S

pytestmark = [pytest.mark.anyio, pytest.mark.long]
TOKEN = "tracker-token-0123456789"
LOOPBACK = ("127.0.0.0/8",)
SERVER = """
import socket, sys
import uvicorn
from mcp.server.mcpserver import Context, MCPServer
from mcp.server.transport_security import TransportSecuritySettings

server = MCPServer("tracker", version="3")

@server.tool()
def find(text: str, context: Context) -> str:
    "Find issues."
    return f"found {text} with {seen[-1]}"

seen = []
app = server.streamable_http_app(
    transport_security=TransportSecuritySettings(enable_dns_rebinding_protection=False)
)

async def guarded(scope, receive, send):
    if scope["type"] == "http":
        headers = {name: value for name, value in scope["headers"]}
        seen.append(headers.get(b"authorization", b"no token").decode())
        if scope["path"] == "/away":
            await send({"type": "http.response.start", "status": 307,
                        "headers": [(b"location", b"http://other.example.com/mcp")]})
            return await send({"type": "http.response.body"})
    await app(scope, receive, send)

listener = socket.create_server(("127.0.0.1", 0))
print(listener.getsockname()[1], flush=True)
uvicorn.Server(uvicorn.Config(guarded, log_level="error")).run(sockets=[listener])
"""


@asynccontextmanager
async def tracker(place: Path) -> AsyncIterator[int]:
    """The port of a server of the official library."""
    program = place / "tracker.py"
    await asyncio.to_thread(program.write_text, SERVER)
    pipe = asyncio.subprocess.PIPE
    process = await asyncio.create_subprocess_exec(sys.executable, str(program), stdout=pipe)
    try:
        assert process.stdout is not None
        async with asyncio.timeout(DEADLINE_S):
            yield int(await process.stdout.readline())
    finally:
        process.kill()
        await process.communicate()


async def all_loopback(host: str, port: int) -> list[str]:
    """Every name is this machine's."""
    return ["127.0.0.1"]


def entry(port: int, path: str = "mcp") -> dict[str, Any]:
    return {
        "url": f"http://tracker.example.com:{port}/{path}",
        "headers": {"Authorization": "Bearer ${TRACKER_TOKEN}"},
    }


async def test_a_server_at_an_address_is_used_through_the_proxy(place: Path) -> None:
    options: dict[str, Any] = {"secrets": {"TRACKER_TOKEN": TOKEN}, "redactor": Redactor([TOKEN])}
    async with (
        tracker(place) as port,
        open_extension_rig(
            place / "home", {"a": b"x"}, resolve=all_loopback, private_networks=LOOPBACK, **options
        ) as rig,
    ):
        await rig.approve("tracker", entry(port))
        found = await rig.use("tracker__find", text="crash")
        assert found.ok and "found crash with Bearer [" in found.text and TOKEN not in found.text
        hosts = {(each.host, each.port, each.allowed) for each in rig.attempts}
        assert hosts == {("tracker.example.com", port, True)}
        changed = parse_manifest("tracker", {**entry(port), "timeout_s": 5})
        assert not (await rig.host.call(parse_manifest("tracker", entry(port)), "no", {})).ok
        with pytest.raises(HutchError, match="manifest"):
            rig.approvals.check(changed, "")


async def test_a_server_cannot_lead_to_this_machine_or_to_another_host(place: Path) -> None:
    secrets = {"TRACKER_TOKEN": TOKEN}
    async with tracker(place) as port:
        async with open_extension_rig(
            place / "one", {"a": b"x"}, resolve=all_loopback, secrets=secrets
        ) as rig:
            with pytest.raises(HutchError):  # its name resolves to a service of this machine
                await rig.try_(parse_manifest("tracker", entry(port)))
            assert [each.allowed for each in rig.attempts if each.port == port][-1] is False
        async with open_extension_rig(
            place / "two", {"a": b"x"}, resolve=all_loopback, private_networks=LOOPBACK, secrets=secrets
        ) as rig:
            with pytest.raises(HutchError):  # it redirects, with the token in the request
                await rig.try_(parse_manifest("tracker", entry(port, "away")))
            assert {each.host for each in rig.attempts} == {"tracker.example.com"}
