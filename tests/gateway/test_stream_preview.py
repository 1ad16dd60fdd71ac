"""Previews of ports in a jail: allowed and refused requests."""

import asyncio
import contextlib
import hashlib
import re
import socket as sockets
from collections.abc import AsyncIterator
from pathlib import Path

import httpx
import pytest
from websockets.asyncio.client import connect
from websockets.exceptions import ConnectionClosed, InvalidStatus

from hutch.flows.user_accounts import LOCAL, Accounts
from hutch.gateway.stream.abortable_uvicorn_protocols import TURN_BYTES
from hutch.gateway.stream.preview_headers import request_headers, response_headers
from hutch.gateway.stream.preview_tokens import PreviewTokens
from tests.deadline import DEADLINE_S
from tests.gateway.api_server import NO_TLS, V1, Api, eventually, serving
from tests.gateway.jail_pages import PROGRAM

pytestmark = pytest.mark.anyio
PORT = 3000


async def served(api: Api, *arguments: str, attack: str = "") -> str:
    """A session in whose jail a program serves pages."""
    session_id = await api.ready_session(purpose="previews")
    files = f"{V1}/sessions/{session_id}/files"
    for name, content in (("serve.py", PROGRAM), ("attack.html", attack)):
        put = await api.put(f"{files}/{name}", content=content.encode())
        assert put.status_code in (200, 201), put.text
    command = f"python3 serve.py {PORT} {' '.join(arguments)}"
    ran = await api.post(f"{V1}/sessions/{session_id}/commands", json={"command": command, "yield_s": 0.2})
    assert ran.status_code in (200, 201, 202), ran.text

    async def listening() -> bool:
        return (await api.get(f"{files}/listening")).status_code == 200

    await eventually(listening)
    return session_id


class Browser:
    """A logged-in user, who keeps cookies by name as browsers do."""

    def __init__(self, api: Api, cookie: str) -> None:
        self.api, self.cookie = api, cookie
        self.port = api.base_url.port

    async def enter(self, session_id: str, path: str = "/") -> tuple[httpx.Response, str, str]:
        """Open a preview: the first response, the host name, and the cookie."""
        headers = {"Cookie": self.cookie}
        async with httpx.AsyncClient(verify=NO_TLS, base_url=self.api.url, timeout=DEADLINE_S) as http:
            sent = await http.get(f"/preview/{session_id}/{PORT}{path}", headers=headers)
            assert sent.status_code == 303, sent.text
            url = httpx.URL(sent.headers["location"])
            entered = await self.get(url.host, url.raw_path.decode())
        kept = entered.headers.get("set-cookie", "").partition(";")[0]
        return entered, url.host, kept

    async def get(self, name: str, path: str, cookie: str = "", **headers: str) -> httpx.Response:
        async with httpx.AsyncClient(verify=NO_TLS, base_url=self.api.url, timeout=DEADLINE_S) as http:
            given = {"Host": f"{name}:{self.port}", "Cookie": cookie, **headers}
            return await http.get(path, headers=given)


async def browser(api: Api, name: str = "owner") -> Browser:
    accounts = Accounts(api.server.rows)
    user = await accounts.users.find(name)
    _, secret = await accounts.browsers.begin(user.id, began_by="link", address="127.0.0.1", agent="test")
    return Browser(api, f"hutch_{api.base_url.port}={secret}")


async def test_a_program_with_a_token_is_answered_under_our_name_in_a_sandbox(tmp_path: Path) -> None:
    async with serving(tmp_path) as api:
        session_id = await served(api)
        base = f"/preview/{session_id}/{PORT}"
        page = await api.get(f"{base}/")
        assert (page.status_code, page.text) == (200, "<h1>Hello from the jail</h1>")
        assert page.headers["content-security-policy"] == "sandbox allow-scripts allow-forms"
        assert page.headers["cache-control"] == "no-store"
        result = (await api.get(f"{base}/headers?a=%2F&b", headers={"Cookie": "hutch=1; other=2"})).text
        assert result.startswith("/headers?a=%2F&b\n")
        assert f"host: localhost:{PORT}\n" in result
        assert "cookie: other=2\n" in result
        assert api.token not in result
        assert "authorization" not in result
        sent = await api.get(f"{base}/cookies")
        assert not {"set-cookie", "strict-transport-security", "alt-svc", "x-secret"} & set(sent.headers)
        moved = await api.get(f"{base}/redirect")
        assert moved.headers["location"] == f"{base}/headers"
        for content in (b"x" * 3_000_000, b""):
            posted = await api.post(f"{base}/", content=content)
            assert posted.text == f"{len(content)}:{hashlib.sha256(content).hexdigest()}"

        async def pieces():  # type: ignore[no-untyped-def]  # a body of unknown length
            for _ in range(10):
                yield b"y" * 1000

        posted = await api.post(f"{base}/", content=pieces())
        assert posted.text == f"10000:{hashlib.sha256(b'y' * 10_000).hexdigest()}"


async def test_a_browser_is_sent_to_a_name_of_its_own(tmp_path: Path) -> None:
    async with serving(tmp_path) as api:
        session_id = await served(api)
        mine = await browser(api)
        entered, name, kept = await mine.enter(session_id, "/headers?x=1")
        assert name == f"{session_id.removeprefix('ses_')}-{PORT}.localhost"
        assert entered.status_code == 303
        assert entered.headers["location"] == f"http://{name}:{mine.port}/headers?x=1"
        assert "HttpOnly" in entered.headers["set-cookie"]
        assert "domain" not in entered.headers["set-cookie"].lower()
        seen = await mine.get(name, "/headers?x=1", f"{kept}; {mine.cookie}; own=1")
        assert seen.status_code == 200
        assert "content-security-policy" not in seen.headers
        assert "cookie: own=1\n" in seen.text  # neither the pass nor the login goes in
        cookies = (await mine.get(name, "/cookies", kept)).headers.get_list("set-cookie")
        assert cookies == ["mine=1; Path=/", "wide=1; Path=/"]
        assert (await mine.get(name, "/redirect", kept)).headers["location"] == "/headers"
        assert (await mine.get(name, "/slow", kept)).text == "0\n1\n2\n3\n4\n"


async def test_a_preview_token_opens_one_preview_once(tmp_path: Path) -> None:
    async with serving(tmp_path) as api:
        session_id = await served(api)
        mine = await browser(api)
        _, name, kept = await mine.enter(session_id)
        async with httpx.AsyncClient(verify=NO_TLS, base_url=api.url, timeout=DEADLINE_S) as http:
            sent = await http.get(f"/preview/{session_id}/{PORT}/", headers={"Cookie": mine.cookie})
        target = httpx.URL(sent.headers["location"]).raw_path.decode()
        other = f"{session_id.removeprefix('ses_')}-3001.localhost"
        assert (await mine.get(other, target)).status_code == 401
        assert (await mine.get(name, target)).status_code == 303
        assert (await mine.get(name, target)).status_code == 401
        assert (await mine.get(name, "/", kept)).status_code == 200
        changed = kept[:-1] + ("0" if kept[-1] != "0" else "1")
        for wrong in (
            "",
            "hutch_preview=",
            "hutch_preview=a.b",
            changed,
            f"{kept}; {kept}",
            mine.cookie,
        ):
            assert (await mine.get(name, "/", wrong)).status_code == 401, wrong
        assert (await mine.get(other, "/", kept)).status_code == 401
        entering = re.sub("token=", "token=x", target)
        assert (await mine.get(name, entering)).status_code == 401
        assert (
            await mine.get(name, f"/.hutch/enter?{kept.replace('hutch_preview', 'token')}")
        ).status_code == 401


async def test_nothing_else_of_ours_is_under_that_name(tmp_path: Path) -> None:
    async with serving(tmp_path) as api:
        session_id = await served(api)
        mine = await browser(api)
        _, name, kept = await mine.enter(session_id)
        for path in ("/api/v1/me", "/mcp", "/healthz", f"/preview/{session_id}/{PORT}/"):
            answer = await mine.get(name, path, f"{kept}; {mine.cookie}")
            assert answer.text == "<h1>Hello from the jail</h1>", path
        for strange in ("x-3000.localhost", f"{name}.evil.example", "localhost.evil.example", f"a.{name}"):
            assert (await mine.get(strange, "/", kept)).status_code == 421


async def test_a_preview_keeps_to_the_rate_of_its_caller(tmp_path: Path) -> None:
    async with serving(tmp_path, server={"requests_per_minute": 40}) as api:
        session_id = await served(api)
        mine = await browser(api)
        _, name, kept = await mine.enter(session_id)

        async def until_refused(cookie: str, answer: int) -> httpx.Response:
            for _ in range(500):  # a slow machine gives some of them back meanwhile
                seen = await mine.get(name, "/", cookie)
                if seen.status_code == 429:
                    return seen
                assert seen.status_code == answer
            raise AssertionError("nothing was refused")

        refused = await until_refused(kept, 200)
        assert refused.json()["limit"] == "server.requests_per_minute"
        # The page of a jail uses up nothing of what its user may ask this server.
        assert (await api.get(f"{V1}/me")).status_code == 200
        await until_refused("hutch_preview=a.b", 401)


async def test_a_preview_takes_no_larger_body_than_the_server(tmp_path: Path) -> None:
    async with serving(tmp_path, server={"body_bytes": 64 * 1024}) as api:
        session_id = await served(api)
        mine = await browser(api)
        _, name, kept = await mine.enter(session_id)
        headers = {"Host": f"{name}:{mine.port}", "Cookie": kept}

        async def pieces(count: int) -> AsyncIterator[bytes]:
            for _ in range(count):
                yield bytes(1024)

        async with httpx.AsyncClient(
            verify=NO_TLS, base_url=api.url, headers=headers, timeout=DEADLINE_S
        ) as http:
            assert (await http.post("/", content=bytes(60 * 1024))).status_code == 200
            assert (await http.post("/", content=pieces(60))).status_code == 200
            for large in (bytes(65 * 1024), pieces(65)):
                refused = await http.post("/", content=large)
                assert (refused.status_code, refused.json()["limit"]) == (413, "server.body_bytes")


async def test_a_body_that_does_not_arrive_at_a_preview_is_refused(tmp_path: Path) -> None:
    async with serving(tmp_path, server={"body_timeout_s": 1}) as api:
        session_id = await served(api)
        mine = await browser(api)
        _, name, kept = await mine.enter(session_id)
        reader, writer = await asyncio.open_connection("127.0.0.1", mine.port)
        head = (
            f"POST / HTTP/1.1\r\nHost: {name}:{mine.port}\r\nCookie: {kept}\r\nContent-Length: 9\r\n\r\nhalf"
        )
        writer.write(head.encode())
        assert (await reader.readline()).split()[1] == b"408"
        writer.close()


async def test_open_previews_count_as_streams_of_their_user(tmp_path: Path) -> None:
    async with serving(tmp_path, server={"streams_per_user": 2}) as api:
        session_id = await served(api)
        mine = await browser(api)
        _, name, kept = await mine.enter(session_id)

        def opened() -> connect:
            return connect(
                f"ws://{name}:{mine.port}/socket",
                host="127.0.0.1",
                additional_headers={"Cookie": kept, "Origin": f"http://{name}:{mine.port}"},
                compression=None,
                proxy=None,
            )

        async with opened(), opened():
            with pytest.raises(InvalidStatus) as caught:
                async with opened():
                    pass
            assert caught.value.response.status_code == 429
        assert (await mine.get(name, "/", kept)).status_code == 200


async def test_ports_are_hidden_from_callers_who_may_not_see_the_session(tmp_path: Path) -> None:
    async with serving(tmp_path) as api:
        session_id = await served(api)
        bob, nobody = await api.as_user("bob"), await api.as_nobody()
        base = f"/preview/{session_id}/{PORT}/"
        assert (await bob.get(base)).status_code == 404
        assert (await nobody.get(base)).status_code == 401
        accounts = Accounts(api.server.rows)
        users = {user.name: user.id for user in await accounts.users.list()}
        await accounts.shares.set(session_id, users["bob"], "observer", created_by=users["owner"])
        bobs = await browser(api, "bob")
        _, name, kept = await bobs.enter(session_id)
        assert (await bobs.get(name, "/", kept)).status_code == 200
        await accounts.shares.remove(session_id, users["bob"])
        assert (await bobs.get(name, "/", kept)).status_code == 404
        await accounts.shares.set(session_id, users["bob"], "observer", created_by=users["owner"])
        async with httpx.AsyncClient(verify=NO_TLS, base_url=api.url, timeout=DEADLINE_S) as http:
            headers = {"Host": f"{name}:{bobs.port}", "Cookie": kept}
            async with http.stream("GET", "/endless", headers=headers) as flood:
                await accounts.set_disabled(users["bob"], True, LOCAL)
                with pytest.raises(httpx.HTTPError):
                    async for _ in flood.aiter_raw():
                        pass

        async def out() -> bool:
            return (await bobs.get(name, "/", kept)).status_code == 401

        await eventually(out)


@pytest.mark.parametrize("port", ["0", "65536", "x", "-1", "٣", "99999999999"])
async def test_ports_that_are_none(tmp_path: Path, port: str) -> None:
    async with serving(tmp_path) as api:
        session_id = (await api.new_session(purpose="ports"))["id"]
        assert (await api.get(f"/preview/{session_id}/{port}/")).status_code == 400


async def test_viewers_of_a_session_have_read_only_previews(tmp_path: Path) -> None:
    """Requests to a program act in the jail: a notebook or a console runs code for its users."""
    async with serving(tmp_path) as api:
        session_id = await served(api)
        base = f"/preview/{session_id}/{PORT}/"
        carl, reader = await api.as_user("carl"), await api.as_user("owner", "owner", "read")
        accounts = Accounts(api.server.rows)
        users = {user.name: user.id for user in await accounts.users.list()}
        for role, may in (("observer", False), ("member", True)):
            await accounts.shares.set(session_id, users["carl"], role, created_by=users["owner"])  # type: ignore[arg-type]
            carls = await browser(api, "carl")
            _, name, kept = await carls.enter(session_id)
            here = {"Host": f"{name}:{carls.port}", "Cookie": kept, "Origin": f"http://{name}:{carls.port}"}
            async with httpx.AsyncClient(verify=NO_TLS, base_url=api.url, timeout=DEADLINE_S) as http:
                by_name = (await http.post("/", headers=here, content=b"x")).status_code
            assert (await carl.get(base)).status_code == 200
            assert ((await carl.post(base, content=b"x")).status_code != 403, by_name != 403) == (may, may)
            opening = connect(
                f"ws://{name}:{carls.port}/socket",
                host="127.0.0.1",
                additional_headers={"Cookie": kept, "Origin": here["Origin"]},
                proxy=None,
            )
            if may:
                async with opening:
                    pass
            else:
                with pytest.raises(InvalidStatus):
                    await opening
        assert (await reader.post(base, content=b"x")).status_code == 403


async def test_programs_that_answer_nonsense(tmp_path: Path) -> None:
    async with serving(tmp_path) as api:
        session_id = await served(api)
        base = f"/preview/{session_id}/{PORT}"
        for path in ("/nonsense", "/huge", "/two", "/split", "/nothing", "/999", "/both"):
            answer = await api.get(base + path)
            assert (answer.status_code, answer.json()["code"]) == (502, "bad_gateway"), path
        dead = await api.get(f"/preview/{session_id}/3999/")
        assert (dead.status_code, dead.json()["code"]) == (502, "bad_gateway")
        assert "Nothing answers on port 3999" in dead.json()["detail"]
        assert (await api.get(f"{base}/after")).text == "ok"
        with pytest.raises(httpx.RemoteProtocolError):
            await api.get(f"{base}/half")
        assert (await api.get(f"{base}/")).status_code == 200


TRICKS = {
    "two framings": b"Content-Length: 6\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n",
    "the other first": b"Transfer-Encoding: chunked\r\nContent-Length: 100\r\n\r\n0\r\n\r\n",
    "two lengths": b"Content-Length: 0\r\nContent-Length: 40\r\n\r\n",
    "a signed length": b"Content-Length: +0\r\n\r\n",
    "a length in words": b"Content-Length: 0x0\r\n\r\n",
    "a list of lengths": b"Content-Length: 0, 40\r\n\r\n",
    "nearly chunked": b"Transfer-Encoding: xchunked\r\n\r\n0\r\n\r\n",
    "chunked twice": b"Transfer-Encoding: chunked\r\nTransfer-Encoding: identity\r\n\r\n0\r\n\r\n",
    "a space before the colon": b"Transfer-Encoding : chunked\r\n\r\n0\r\n\r\n",
    "a folded line": b"X: y\r\n Transfer-Encoding: chunked\r\n\r\n0\r\n\r\n",
    "a bare newline": b"X: y\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n",
    "a NUL": b"X: y\x00Transfer-Encoding: chunked\r\n\r\n0\r\n\r\n",
    "a chunk that lies": b"Transfer-Encoding: chunked\r\n\r\n5\r\n0\r\n\r\n",
    "a chunk with a tail": b"Transfer-Encoding: chunked\r\n\r\n0;a=b\nX\r\n\r\n",
}


async def test_no_second_request_gets_in_with_the_first(tmp_path: Path) -> None:
    async with serving(tmp_path) as api:
        session_id = await served(api)
        loop = asyncio.get_running_loop()
        for name, trick in TRICKS.items():
            with sockets.socket() as client:
                client.setblocking(False)
                await loop.sock_connect(client, (api.base_url.host, api.base_url.port))
                head = f"POST /preview/{session_id}/{PORT}/first HTTP/1.1\r\n"
                head += f"Host: {api.base_url.netloc.decode()}\r\nAuthorization: Bearer {api.token}\r\n"
                second = b"GET /smuggled HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n"
                await loop.sock_sendall(client, head.encode() + trick + second)
                with contextlib.suppress(TimeoutError, ConnectionError):
                    async with asyncio.timeout(3):
                        while data := await loop.sock_recv(client, 65536):
                            assert not data.startswith(b"HTTP/1.1 5"), (name, data)
        await api.get(f"/preview/{session_id}/{PORT}/last")
        seen = (await api.get(f"{V1}/sessions/{session_id}/files/requests")).text
        assert "/last" in seen
        assert "smuggled" not in seen


async def test_a_program_that_listens_on_ipv6_alone(tmp_path: Path) -> None:
    async with serving(tmp_path) as api:
        session_id = await api.ready_session(purpose="previews")
        command = {"command": "python3 -m http.server --bind ::1 3006", "yield_s": 0.2}
        await api.post(f"{V1}/sessions/{session_id}/commands", json=command)

        async def answers() -> bool:
            return (await api.get(f"/preview/{session_id}/3006/")).status_code == 200

        await eventually(answers)


async def test_clients_that_leave_or_do_not_read_cost_nothing(tmp_path: Path) -> None:
    async with serving(tmp_path, server={"slow_client_s": 1}) as api:
        session_id = await served(api)
        path = f"/preview/{session_id}/{PORT}/endless"
        before = _resident_bytes()
        with sockets.create_connection((api.base_url.host, api.base_url.port)) as client:
            head = f"GET {path} HTTP/1.1\r\nHost: {api.base_url.netloc.decode()}\r\n"
            client.sendall(f"{head}Authorization: Bearer {api.token}\r\n\r\n".encode())

            async def let_go() -> bool:
                found = await api.get(f"{V1}/sessions/{session_id}/files/let-go")
                return found.status_code == 200

            await eventually(let_go)
        assert _resident_bytes() - before < 50_000_000


def _resident_bytes() -> int:
    return int(Path("/proc/self/statm").read_text().split()[1]) * 4096


async def test_websockets_go_through(tmp_path: Path) -> None:
    async with serving(tmp_path) as api:
        session_id = await served(api)
        mine = await browser(api)
        _, name, kept = await mine.enter(session_id)
        own = f"http://{name}:{mine.port}"

        def opened(path: str = "/socket", **more: str) -> connect:
            return connect(
                f"ws://{name}:{mine.port}{path}",
                host="127.0.0.1",
                additional_headers={"Cookie": kept, **more},
                subprotocols=["chat"],  # type: ignore[list-item]
                compression=None,
                proxy=None,
            )

        async with opened(Origin=own) as socket:
            assert socket.subprotocol == "chat"
            for message in ("hello", b"\x00\x01", "x" * 60_000):
                await socket.send(message)
                assert await socket.recv() == message
            await socket.send("bye")
            with pytest.raises(ConnectionClosed):
                await socket.recv()
            assert (socket.close_code, socket.close_reason) == (4001, "end")
        async with opened(Origin=own) as socket:
            await socket.send("hello")

        async def left() -> bool:
            return (await api.get(f"{V1}/sessions/{session_id}/files/left")).text == "1000"

        await eventually(left)
        for headers, status in (
            ({"Origin": "https://evil.example"}, 403),
            ({"Origin": api.url}, 403),
            ({"Cookie": mine.cookie}, 401),
        ):
            with pytest.raises(InvalidStatus) as caught:
                async with opened(**headers):
                    pass
            assert caught.value.response.status_code == status
        with pytest.raises(InvalidStatus) as caught:
            async with opened("/headers", Origin=own):
                pass
        assert caught.value.response.status_code == 502


async def test_a_program_that_sends_a_great_many_small_messages_lets_others_have_their_turn(
    tmp_path: Path,
) -> None:
    async with serving(tmp_path) as api:
        session_id = await served(api)
        mine = await browser(api)
        _, name, kept = await mine.enter(session_id)
        url, headers = (
            f"ws://{name}:{mine.port}/socket",
            {"Cookie": kept, "Origin": f"http://{name}:{mine.port}"},
        )
        async with connect(url, host="127.0.0.1", additional_headers=headers, proxy=None) as socket:
            turns, loop = 0, asyncio.get_running_loop()

            def count() -> None:
                nonlocal turns
                turns += 1
                loop.call_soon(count)

            await socket.send("many")
            count()
            assert await socket.recv() == "done"
            assert turns >= 100_000 // TURN_BYTES  # the server runs in this loop


def test_headers_in() -> None:
    sent = request_headers(
        [
            (b"Host", b"x"),
            (b"Connection", b"close, X-Hop"),
            (b"X-Hop", b"1"),
            (b"Transfer-Encoding", b"chunked"),
            (b"Authorization", b"Bearer hutch_abc"),
            (b"authorization", b"Basic abc"),
            (b"Cookie", b"hutch_preview=p"),
            (b"X-Forwarded-For", b"1.2.3.4"),
            (b"Origin", b"http://own:1"),
            (b"Referer", b"http://own:1/page"),
        ],
        port=5,
        own_origin="http://own:1",
        forwarded_for="::1",
        token=False,
    )
    assert sent == [
        (b"host", b"localhost:5"),
        (b"authorization", b"Basic abc"),
        (b"origin", b"http://localhost:5"),
        (b"referer", b"http://localhost:5/page"),
        (b"x-forwarded-for", b"::1"),
        (b"x-forwarded-host", b"own:1"),
        (b"x-forwarded-proto", b"http"),
    ]


@pytest.mark.parametrize(
    ("given", "output"),
    [
        (b"http://localhost:5/a?b", b"/p/a?b"),
        (b"https://127.0.0.1:5", b"/p/"),
        (b"/a", b"/p/a"),
        (b"//evil.example", b"//evil.example"),
        (b"http://localhost:55/a", b"http://localhost:55/a"),
        (b"http://localhost:5.evil.example/", b"http://localhost:5.evil.example/"),
    ],
)
def test_redirects_of_a_program(given: bytes, output: bytes) -> None:
    sent = response_headers([(b"Location", given)], port=5, prefix="/p", sandbox=False)
    assert dict(sent)[b"location"] == output


def test_a_preview_token_expires_by_the_monotonic_clock() -> None:
    now = [100.0]
    tokens = PreviewTokens(lambda: now[0])
    made = tokens.enter("ses_a", 5, "usr_a", "cookie", "brw_a")
    entered = tokens.read(made, "enter", "ses_a", 5)
    assert entered is not None and tokens.spend(entered) and not tokens.spend(entered)
    now[0] += 61
    assert tokens.read(made, "enter", "ses_a", 5) is None


def test_passes_of_another_process_are_nothing() -> None:
    ours, others = PreviewTokens(), PreviewTokens()
    made = ours.enter("ses_a", 5, "usr_a", "cookie", "brw_a")
    assert ours.read(made, "enter", "ses_a", 5) is not None
    for wrong in (
        others.read(made, "enter", "ses_a", 5),
        ours.read(made, "stay", "ses_a", 5),
        ours.read(made, "enter", "ses_b", 5),
        ours.read(made, "enter", "ses_a", 6),
        ours.read(made + "x", "enter", "ses_a", 5),
        ours.read("\udcff.\udcff", "enter", "ses_a", 5),
        ours.read("x" * 10_000, "enter", "ses_a", 5),
    ):
        assert wrong is None
