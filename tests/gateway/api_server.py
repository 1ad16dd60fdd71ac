"""A complete server on its own port, for tests that use it as clients do.

`async with serving(tmp_path) as api:` gives an httpx client that holds an owner's token;
`api.as_user("bob")` is another user's. The server runs in the test's own loop, with real
jails, a real database and a scripted model.
"""

import asyncio
import json
import ssl
import time
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator, Mapping, Sequence
from contextlib import AsyncExitStack, asynccontextmanager, contextmanager
from pathlib import Path
from typing import Any

import httpx
import uvicorn

from hutch import settings
from hutch.app.server import open_server
from hutch.domain.user import Role, parse_scopes
from hutch.flows.user_accounts import LOCAL, Accounts
from hutch.gateway.app import make_app
from hutch.gateway.gateway_context import Server
from hutch.gateway.request_head_limits import Protocol
from hutch.gateway.server_socket import listen
from hutch.gateway.stream import abortable_uvicorn_protocols
from hutch.store.sessions import Sessions
from tests.deadline import DEADLINE_S
from tests.new_database import place_database

TIMEOUT_S = DEADLINE_S
NO_TLS = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)  # the default one reads all certificates of the world
V1 = "/api/v1"
FIRST_PAUSE_S, MAX_PAUSE_S = 0.04, 0.2


class Api(httpx.AsyncClient):
    """A client of a server, as one of its users."""

    app: Any = None  # the application behind the first of them

    def __init__(self, url: str, server: Server, token: str, stack: AsyncExitStack) -> None:
        headers = {"Authorization": f"Bearer {token}"} if token else {}
        super().__init__(base_url=url, headers=headers, timeout=TIMEOUT_S, verify=NO_TLS)
        self.url, self.server, self.token, self._stack = url, server, token, stack

    async def as_user(self, name: str, role: Role = "member", scopes: str = "") -> "Api":
        """The client of another user, who is made when there is none of the name."""
        accounts = Accounts(self.server.rows)
        known = {user.name: user for user in await accounts.users.list()}
        user = known.get(name) or await accounts.add_user(name, role, LOCAL)
        wanted = scopes or {"owner": "admin", "member": "write", "candidate": "write"}.get(role, "read")
        _, token = await accounts.new_token(
            user, name="test", scopes=parse_scopes([wanted]), days=1, actor=LOCAL
        )
        return await self._stack.enter_async_context(Api(self.url, self.server, token, self._stack))

    async def as_nobody(self) -> "Api":
        """A client without a token."""
        return await self._stack.enter_async_context(Api(self.url, self.server, "", self._stack))

    async def new_session(self, **what: Any) -> dict[str, Any]:
        """Open a session; its state is whatever it is by then."""
        made = await self.post(f"{V1}/sessions", json=what)
        assert made.status_code == 201, made.text
        return dict(made.json())

    async def ready_session(self, **what: Any) -> str:
        """The id of a session whose workspace is there and that has nothing to do."""
        session = await self.new_session(**what)
        await self.until(session["id"], "idle", "parked")
        return str(session["id"])

    async def until(self, session_id: str, *states: str) -> dict[str, Any]:
        """The session, once it is in one of these states."""

        async def poll() -> dict[str, Any] | None:
            # Asking the database first costs a tenth of a request, and most looks come too early.
            if (await Sessions(self.server.rows).get(session_id)).state not in states:
                return None
            found = (await self.get(f"{V1}/sessions/{session_id}")).json()
            return found if found["state"] in states else None

        return await eventually(poll)

    async def give(self, session_id: str, **what: Any) -> dict[str, Any]:
        given = await self.post(f"{V1}/sessions/{session_id}/inputs", json=what)
        assert given.status_code == 202, given.text
        return dict(given.json())

    async def events(self, session_id: str) -> list[dict[str, Any]]:
        """All events of a session, as they are by now."""
        found: list[dict[str, Any]] = []
        after: int | None = 0
        while after is not None:
            answered = (await self.get(f"{V1}/sessions/{session_id}/events", params={"after": after})).json()
            found += [entry["event"] for entry in answered["items"]]
            after = answered["next"]
        return found


async def eventually(poll: Callable[[], Awaitable[Any]]) -> Any:
    """Poll until a check returns something, and return that.

    A poll by HTTP takes processor time from what it waits for, so they become rarer.
    """
    until, pause_s = time.monotonic() + TIMEOUT_S, FIRST_PAUSE_S
    while not (found := await poll()):
        assert time.monotonic() < until, "it never came to be so"
        await asyncio.sleep(pause_s)
        pause_s = min(pause_s * 1.25, MAX_PAUSE_S)
    return found


def cassette(path: Path, *replies: Mapping[str, Any]) -> str:
    """A model that says this, by its name."""
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(json.dumps({"replies": list(replies)}))
    return f"scripted:{path}"


class _Uvicorn(uvicorn.Server):
    @contextmanager
    def capture_signals(self) -> Iterator[None]:
        yield


@asynccontextmanager
async def serving(
    place: Path, *, replies: Sequence[Mapping[str, Any]] = ({"text": "Done.", "times": 1000},), **flags: Any
) -> AsyncIterator[Api]:
    """A server with its home below `place`; `flags` are settings, nested as they are: `server={…}`."""
    given = {
        "model": cassette(place / "model.json", *replies),
        **flags,
        "server": {"requests_per_minute": 1_000_000, **flags.get("server", {})},
        # Set-ups of tests download nothing. To ask pip and npm where from takes a second of processor time.
        "environment": {"registries": [], **flags.get("environment", {})},
    }
    loaded = settings.load(given, environ={"HUTCH_HOME": str(place / "home")})
    place_database(loaded.paths.data)
    with listen("127.0.0.1", 0) as listener:
        url = f"http://127.0.0.1:{listener.getsockname()[1]}"
        async with open_server(loaded) as server, AsyncExitStack() as stack:
            await Accounts(server.rows).ensure_owner("owner")
            app = make_app(server)
            uvicorn_server = _Uvicorn(
                uvicorn.Config(
                    app,
                    **{**abortable_uvicorn_protocols.options(), "http": Protocol},
                    lifespan="on",
                    log_config=None,
                    access_log=False,
                    server_header=False,
                    timeout_keep_alive=600,  # the default equals the 5 s of httpx: both close at once
                    timeout_graceful_shutdown=2,
                )
            )
            running = asyncio.ensure_future(uvicorn_server.serve(sockets=[listener]))
            try:
                api = await Api(url, server, "", stack).as_user("owner", "owner")
                api.app = app
                yield api
            finally:
                await stack.aclose()
                server.closing = uvicorn_server.should_exit = True
                await running
