"""An application behind the request filter, served by a real uvicorn on its own port."""

import asyncio
import socket
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager, contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import httpx
import uvicorn
from argon2 import PasswordHasher
from fastapi import FastAPI, Request, WebSocket

from hutch.domain.redaction import Redactor
from hutch.domain.user import User
from hutch.flows.password_hashing import Passwords
from hutch.flows.user_accounts import LOCAL, Accounts
from hutch.gateway.auth.authenticator import Authenticator
from hutch.gateway.auth.caller_dependency import Admin, Reader, Writer
from hutch.gateway.auth.host_origin_and_rate_filter import ALL_CHECKS, Check, RequestFilter
from hutch.gateway.problem_json import handle_problems
from hutch.settings.server_sections import Server
from hutch.store.event_log import SqlLog, open_log
from tests.deadline import DEADLINE_S
from tests.gateway.api_server import NO_TLS
from tests.new_database import place_database

CHEAP = PasswordHasher(time_cost=1, memory_cost=1024, parallelism=1)  # so that tests need not wait


class _Server(uvicorn.Server):
    @contextmanager
    def capture_signals(self) -> Iterator[None]:
        yield


@dataclass
class Answering:
    """The server and its application."""

    url: str
    port: int
    log: SqlLog
    accounts: Accounts
    authenticator: Authenticator
    app: FastAPI
    seen: list[Any] = field(default_factory=list)
    answered: list[tuple[str, str, int]] = field(default_factory=list)  # what went over the wire
    clients: list[httpx.AsyncClient] = field(default_factory=list)  # closed with the server

    def client(self, **options: Any) -> httpx.AsyncClient:
        return httpx.AsyncClient(base_url=self.url, timeout=DEADLINE_S, **{"verify": NO_TLS, **options})

    async def token(self, user: User, *scopes: Any, days: int | None = 90) -> str:
        _, secret = await self.accounts.new_token(
            user, name="", scopes=frozenset(scopes or ("read",)), days=days, actor=LOCAL
        )
        return secret


def bearer(token: str) -> dict[str, str]:
    return {"Authorization": f"Bearer {token}"}


@asynccontextmanager
async def answering(
    place: Path,
    *routers: Any,
    server: Server | None = None,
    checks: tuple[Check, ...] = ALL_CHECKS,
    filtered: bool = True,
    state: Any = None,
    **guarding: Any,
) -> AsyncIterator[Answering]:
    """Serve until the block is left. `checks`, `filtered` and `guarding` leave protections away."""
    listener = socket.create_server(("127.0.0.1", 0))
    port = listener.getsockname()[1]
    settings = server or Server()
    place_database(place)
    async with open_log(place / "hutch.db", place / "blobs", place / "keys" / "signing.pem") as log:
        accounts = Accounts(log, Passwords(CHEAP))
        authenticator = Authenticator(accounts, settings, **guarding)
        app = FastAPI()
        app.state.authenticator = authenticator
        for name, value in (state or {}).items():
            setattr(app.state, name, value)
        scheme = "https" if settings.tls_cert else "http"
        answering = Answering(f"{scheme}://127.0.0.1:{port}", port, log, accounts, authenticator, app)
        _routes(app, answering)
        for router in routers:
            app.include_router(router)
        handle_problems(app, Redactor())
        options = {
            "server": settings,
            "buckets": authenticator.buckets,
            "checks": checks,
            "refused": authenticator.note_refusal,
        }
        behind: Any = RequestFilter(app, **options, is_known=authenticator.is_known) if filtered else app
        config = uvicorn.Config(
            _noted(behind, answering),
            log_config=None,
            lifespan="off",
            proxy_headers=False,
            timeout_graceful_shutdown=1,
            ssl_certfile=settings.tls_cert,
            ssl_keyfile=settings.tls_key,
        )
        async with serving(config, listener):
            try:
                yield answering
            finally:
                for client in answering.clients:
                    await client.aclose()
        await authenticator.close()


@asynccontextmanager
async def serving(config: uvicorn.Config, listener: socket.socket) -> AsyncIterator[None]:
    """Serve, in this very loop, until the block is left."""
    server = _Server(config)
    task = asyncio.ensure_future(server.serve(sockets=[listener]))
    while not server.started:  # noqa: ASYNC110  it tells nobody
        await asyncio.sleep(0.01)
    try:
        yield
    finally:
        server.should_exit = True
        await task
        listener.close()


def _noted(app: Any, answering: Answering) -> Any:
    """The application, with every answer written down."""

    async def noting(scope: Any, receive: Any, send: Any) -> None:
        async def send_on(message: Any) -> None:
            if message["type"] == "http.response.start":
                answering.answered.append((scope["method"], scope["path"], message["status"]))
            await send(message)

        await app(scope, receive, send_on)

    return noting


def _routes(app: FastAPI, answering: Answering) -> None:
    @app.get("/api/v1/read")
    async def read(who: Reader) -> dict[str, Any]:
        return {"name": who.user.name, "by": who.by}

    @app.post("/api/v1/write")
    async def write(who: Writer, request: Request) -> dict[str, Any]:
        answering.seen.append(("write", who.user.name))
        return {"bytes": len(await request.body())}

    @app.delete("/api/v1/admin")
    async def admin(who: Admin) -> None:
        answering.seen.append(("admin", who.user.name))

    @app.get("/api/v1/open", operation_id="look")
    @app.post("/api/v1/open", operation_id="send")
    async def open_(request: Request) -> dict[str, Any]:
        count = 0
        async for piece in request.stream():
            count += len(piece)
        answering.seen.append(("open", count))
        client = request.client
        return {"bytes": count, "client": client and client.host, "scheme": request.url.scheme}

    @app.websocket("/api/v1/socket")
    async def converse(socket: WebSocket, who: Reader) -> None:
        await socket.accept()
        answering.seen.append(("socket", who.user.name))
        await socket.send_text(who.user.name)
        await socket.close()
