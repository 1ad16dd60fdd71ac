"""The MCP server over HTTP: several clients, and refused ones."""

import asyncio
import socket
import subprocess
from pathlib import Path

import httpx2
import pytest

from hutch.domain.errors import BadRequest, Denied, Unavailable
from hutch.gateway.mcp.loopback_http_server import address_of, listen
from tests.deadline import DEADLINE_S
from tests.forked_command import run
from tests.gateway.mcp_server import (
    LEGACY,
    MODERN,
    Listening,
    Place,
    by_http,
    eventually,
    long_time,
    runs,
    text_of,
)

pytestmark = pytest.mark.anyio

TOKEN = "a-token-that-somebody-has-chosen"
INITIALIZE = {
    "jsonrpc": "2.0",
    "id": 1,
    "method": "initialize",
    "params": {
        "protocolVersion": "2025-11-25",
        "capabilities": {},
        "clientInfo": {"name": "test", "version": "1"},
    },
}
ACCEPT = {"Accept": "application/json, text/event-stream"}


@pytest.mark.parametrize("mode", [LEGACY, MODERN])
async def test_clients_share_one_shell_and_one_directory(
    shared: Listening, shared_place: Place, mode: str
) -> None:
    async with shared.client(mode) as one, shared.client(mode) as other:
        await one.call_tool("bash", {"command": f"cd /workspace; export FROM={mode}; echo a > a.txt"})
        said = await other.call_tool("bash", {"command": "echo $FROM"})
        assert said.structured_content["stdout"] == f"{mode}\n"
        at_once = await asyncio.gather(
            *(client.call_tool("bash", {"command": "echo x >> many"}) for client in (one, other) * 10),
            *(client.call_tool("read_file", {"path": "a.txt"}) for client in (one, other) * 5),
        )
        assert not any(result.is_error for result in at_once)
        refused = await other.call_tool("edit_file", {"path": "a.txt", "edits": [{"old": "b", "new": "c"}]})
        assert refused.is_error
        assert "was not changed" in text_of(refused)
        await one.call_tool("bash", {"command": "cp many kept; rm many"})
    assert (shared_place.work / "kept").read_text() == "x\n" * 20


@pytest.mark.parametrize("mode", [LEGACY, MODERN])
async def test_no_client_overwrites_what_another_has_changed_and_it_has_not_seen(
    shared: Listening, shared_place: Place, mode: str
) -> None:
    file = shared_place.work / "notes.txt"
    file.write_text("one\n")
    async with shared.client(mode, name="one") as one, shared.client(mode, name="other") as other:
        assert not (await one.call_tool("read_file", {"path": "notes.txt"})).is_error
        assert not (await other.call_tool("read_file", {"path": "notes.txt"})).is_error
        edits = [{"old": "one", "new": "precious"}]
        assert not (await other.call_tool("edit_file", {"path": "notes.txt", "edits": edits})).is_error
        refused = await one.call_tool("write_file", {"path": "notes.txt", "content": "two\n"})
        assert refused.is_error and "was changed by something else since you read it" in text_of(refused)
        assert not (await other.call_tool("read_file", {"path": "notes.txt"})).is_error
        file.write_text("0\nprecious\n")
        line = {"path": "notes.txt", "edits": [{"start_line": 1, "end_line": 1, "new": "lost"}]}
        refused = await other.call_tool("edit_file", line)
        assert refused.is_error and "was changed by something else since you read it" in text_of(refused)
        assert file.read_text() == "0\nprecious\n"
        assert not (await other.call_tool("write_file", {"path": "notes.txt", "content": "3\n"})).is_error


async def test_a_client_of_the_older_protocol_that_vanishes_leaves_nothing(
    shared: Listening, shared_place: Place
) -> None:
    file = shared_place.work / "begun"
    brief = f"0.4{long_time().partition('.')[2]}"
    command = f"touch begun; until test -e go; do sleep 0.05; done; sleep {brief}; touch ended; rm begun go"
    call = {"name": "bash", "arguments": {"command": command, "timeout_s": 500}}
    headers = {**ACCEPT, "Authorization": f"Bearer {shared.token}"}
    http = httpx2.AsyncClient(headers=headers, timeout=DEADLINE_S)
    opened = await http.post(shared.url, json=INITIALIZE)
    session = {"Mcp-Session-Id": opened.headers["mcp-session-id"]}
    calling = asyncio.create_task(
        http.post(
            shared.url,
            json={"jsonrpc": "2.0", "id": 2, "method": "tools/call", "params": call},
            headers=session,
        )
    )
    await asyncio.to_thread(eventually, file.exists)
    calling.cancel()
    await http.aclose()  # nothing is said: it is as if it had been killed
    # A lost connection is no cancelling in that protocol: the call goes on to its end, and is over then.
    (shared_place.work / "go").touch()
    async with shared.client(MODERN) as client:
        said = await client.call_tool("bash", {"command": "ls ended begun", "timeout_s": 60})
    assert said.structured_content["stdout"] == "ended\n"
    assert not runs(brief)


async def test_a_session_that_its_client_ends_ends_its_command(shared: Listening) -> None:
    seconds = long_time()
    headers = {**ACCEPT, "Authorization": f"Bearer {shared.token}"}
    call = {"name": "bash", "arguments": {"command": f"sleep {seconds}", "timeout_s": 500}}
    request = {"jsonrpc": "2.0", "id": 2, "method": "tools/call", "params": call}
    async with httpx2.AsyncClient(headers=headers, timeout=DEADLINE_S) as http:
        opened = await http.post(shared.url, json=INITIALIZE)
        session = {"Mcp-Session-Id": opened.headers["mcp-session-id"]}
        calling = asyncio.create_task(http.post(shared.url, json=request, headers=session))
        await asyncio.to_thread(eventually, lambda: runs(seconds))
        assert (await http.delete(shared.url, headers=session)).status_code == 200
        await asyncio.to_thread(eventually, lambda: not runs(seconds))
        await calling


async def test_a_client_that_leaves_ends_its_command(shared: Listening) -> None:
    seconds = long_time()
    async with shared.client(MODERN) as client:
        calling = asyncio.create_task(
            client.call_tool("bash", {"command": f"sleep {seconds}", "timeout_s": 500})
        )
        await asyncio.to_thread(eventually, lambda: runs(seconds))
        calling.cancel()
        await asyncio.to_thread(eventually, lambda: not runs(seconds))
        said = await client.call_tool("bash", {"command": "echo still here"})
        assert said.structured_content["stdout"] == "still here\n"


async def test_a_call_is_cancelled_by_a_client_of_the_older_protocol(shared: Listening) -> None:
    seconds = long_time()
    async with shared.client(LEGACY) as client:
        calling = asyncio.create_task(
            client.call_tool("bash", {"command": f"sleep {seconds}", "timeout_s": 500})
        )
        await asyncio.to_thread(eventually, lambda: runs(seconds))
        calling.cancel()
        await asyncio.to_thread(eventually, lambda: not runs(seconds))


async def test_requests_that_are_refused(shared: Listening) -> None:
    port = httpx2.URL(shared.url).port
    right = {**ACCEPT, "Authorization": f"Bearer {shared.token}"}
    async with httpx2.AsyncClient(timeout=DEADLINE_S) as http:

        async def status(headers: dict[str, str], url: str = shared.url) -> int:
            answer = await http.post(url, json=INITIALIZE, headers=headers)
            return answer.status_code

        assert await status(right) == 200
        assert (
            await status({**right, "Host": f"localhost:{port}", "Origin": f"http://localhost:{port}"}) == 200
        )
        assert await status(ACCEPT) == 401
        assert await status({**right, "Authorization": "Bearer wrong"}) == 401
        assert await status({**right, "Authorization": f"Basic {shared.token}"}) == 401
        assert await status({**right, "Authorization": "Bearer"}) == 401
        assert await status(right, shared.url.replace("/mcp", "/")) == 404
        for generation in ({}, {"MCP-Protocol-Version": MODERN}):
            for host in (
                "evil.example",
                f"evil.example:{port}",
                f"127.0.0.1.evil.example:{port}",
                "127.0.0.1:1",
            ):
                assert await status({**right, **generation, "Host": host}) == 421
            for origin in (
                "http://evil.example",
                f"http://evil.example:{port}",
                "null",
                f"https://localhost:{port}",
            ):
                assert await status({**right, **generation, "Origin": origin}) == 403
        for method in ("GET", "DELETE"):
            answer = await http.request(method, shared.url, headers={**right, "Host": "evil.example"})
            assert answer.status_code == 421
        plain = {**right, "Content-Type": "text/plain"}  # what a page may send without asking
        assert (await http.post(shared.url, content=b"{}", headers=plain)).status_code == 400


async def test_a_token_may_be_chosen_and_is_not_printed_then(place: Place) -> None:
    place.hutch("config", "set-secret", "mcp_token", stdin=TOKEN)
    with by_http(place, token=TOKEN) as listening:
        async with listening.client() as client:
            said = await client.call_tool("bash", {"command": f"echo {TOKEN}"})
        assert said.structured_content["stdout"] == "[redacted:secret]\n"


async def test_without_a_token_local_callers_are_accepted(place: Place) -> None:
    with by_http(place, "--no-token", token="") as listening:
        async with listening.client() as client:
            assert not (await client.call_tool("bash", {"command": "true"})).is_error
        async with httpx2.AsyncClient(timeout=DEADLINE_S) as http:
            answer = await http.post(
                listening.url, json=INITIALIZE, headers={**ACCEPT, "Host": "evil.example"}
            )
            assert answer.status_code == 421


def test_a_server_that_is_killed_leaves_nothing(place: Place) -> None:
    seconds = long_time()
    with by_http(place, code=-9) as listening:
        asyncio.run(_begin(listening, seconds))
        listening.process.kill()
        eventually(lambda: not runs(seconds))
        eventually(lambda: not runs(str(place.work)))


async def _begin(listening: Listening, seconds: str) -> None:
    async with listening.client(MODERN) as client:
        begun = await client.call_tool("bash", {"command": f"sleep {seconds}", "yield_s": 0.2})
        assert begun.structured_content["running"]
        await asyncio.to_thread(eventually, lambda: runs(seconds))


@pytest.mark.parametrize(
    "address", ["0.0.0.0:0", "[::]:0", "192.0.2.1:80", "example.com:80", "localhost.evil.example:1"]
)
def test_only_this_machine_is_listened_on(address: str) -> None:
    with pytest.raises(Denied, match="ssh -L"):
        listen(address)


@pytest.mark.parametrize("address", ["", "localhost", "127.0.0.1:", "127.0.0.1:99999", "127.0.0.1:x", ":-1"])
def test_invalid_addresses(address: str) -> None:
    with pytest.raises(BadRequest, match="is not an address"):
        listen(address)


@pytest.mark.parametrize("address", ["0", ":0", "localhost:0", "127.0.0.1:0", "127.0.0.2:0", "[::1]:0"])
def test_addresses_of_this_machine(address: str) -> None:
    if address.startswith("[") and not Path("/proc/net/if_inet6").exists():
        pytest.skip("this machine has no IPv6")
    with listen(address) as listener:
        assert address_of(listener).startswith("http://")
        assert address_of(listener).endswith("/mcp")
        with socket.create_connection(listener.getsockname()[:2]):
            pass


def test_a_port_that_is_taken(place: Place) -> None:
    with listen("0") as listener, pytest.raises(Unavailable, match="Choose another port"):
        listen(f"127.0.0.1:{listener.getsockname()[1]}")


def test_no_token_is_only_for_http(place: Place) -> None:
    done = run(
        place.argv("--no-token"),
        env=place.environment(),
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
    )
    assert (done.returncode, done.stdout) == (2, "")
    assert "--http" in done.stderr


VANISHED = 100


async def test_vanished_clients_do_not_lock_others_out(shared: Listening) -> None:
    headers = {**ACCEPT, "Authorization": f"Bearer {shared.token}"} if shared.token else ACCEPT
    http = httpx2.AsyncClient(headers=headers, timeout=DEADLINE_S)
    async with shared.client(LEGACY) as stays, http:
        assert not (await stays.call_tool("bash", {"command": "echo first"})).is_error
        ids = []
        for number in range(VANISHED):
            answer = await http.post(shared.url, json=INITIALIZE)
            assert answer.status_code == 200, number
            ids.append(answer.headers["mcp-session-id"])
            if number % 20 == 0:
                assert not (await stays.call_tool("bash", {"command": "echo again"})).is_error
        version = {"mcp-protocol-version": "2025-11-25"}
        ping = {"jsonrpc": "2.0", "id": 2, "method": "ping"}
        codes = [
            (await http.post(shared.url, json=ping, headers={"mcp-session-id": id_, **version})).status_code
            for id_ in (ids[0], ids[-1])
        ]
        assert codes == [200, 200]
        for id_ in ids:
            await http.delete(shared.url, headers={"mcp-session-id": id_, **version})
