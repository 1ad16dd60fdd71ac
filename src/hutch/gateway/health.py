"""How a server is: alive, ready, and, for its owner, how much is going on.

`/healthz` says that the process answers. `/readyz` says that it can do its work: the
database takes what is written, a jail can be opened, the queue is looked at. Both are for
whoever watches over a server, and tell strangers nothing else.
"""

import asyncio
import os
import shutil
import time
from collections.abc import Awaitable, Callable, Mapping
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, cast

import structlog
from fastapi import APIRouter, Request, Response
from pydantic import Field

import hutch
from hutch.domain.errors import HutchError
from hutch.gateway.auth.caller import Admin
from hutch.gateway.context import Server
from hutch.gateway.errors import ErrorStatus
from hutch.gateway.problem import problem
from hutch.gateway.responses import Out, answer
from hutch.gateway.rest.route import PREFIX, PROBLEMS, server_of
from hutch.jail.probe import attempt, jail
from hutch.sessions.host import LocalHost
from hutch.store.readiness import check_schema, check_writable
from hutch.store.runs import Runs
from hutch.store.sessions import Sessions

CACHE_S, FAILURE_CACHE_S = 30.0, 2.0  # an answer; one that is wrong is asked again soon
MAX_SILENCE_S = 30.0  # without a look at the queue, the worker counts as gone
NOT_READY = ErrorStatus(503, "unavailable")
PAGE_BYTES = os.sysconf("SC_PAGE_SIZE")

logger = structlog.get_logger("hutch.health")
routes = APIRouter()


@dataclass(slots=True)
class _CachedCheck:
    problem: str = ""  # empty when all is well
    until: float = 0.0
    lock: asyncio.Lock = field(default_factory=asyncio.Lock)


class Health:
    """What was found of a server, for a while: strangers may ask as often as they like."""

    def __init__(self, server: Server) -> None:
        self._server = server
        self._checks: dict[str, Callable[[], Awaitable[str]]] = {
            "database": self._database,
            "jail": self._jail,
            "worker": self._worker,
        }
        self._cache = {name: _CachedCheck() for name in self._checks}

    async def problems(self) -> dict[str, str]:
        """What does not work, and why."""
        found = await asyncio.gather(*(self._run_check(name) for name in self._checks))
        problems = {name: text for name, text in zip(self._checks, found, strict=True) if text}
        try:  # each time: what is answered from now on would be lost
            await check_data(self._server)
        except HutchError as error:
            problems["database"] = str(error)
        return {**problems, "server": "It is about to end."} if self._server.closing else problems

    async def _run_check(self, name: str) -> str:
        cached = self._cache[name]
        async with cached.lock:
            if time.monotonic() >= cached.until:
                try:
                    cached.problem = await self._checks[name]()
                except HutchError as error:
                    cached.problem = str(error)
                if cached.problem:
                    logger.warning("health.problem", check=name, problem=cached.problem)
                cached.until = time.monotonic() + (FAILURE_CACHE_S if cached.problem else CACHE_S)
            return cached.problem

    async def _database(self) -> str:
        await check_schema(self._server.rows)
        await check_writable(self._server.rows)
        return ""

    async def _jail(self) -> str:
        found = await asyncio.to_thread(lambda: attempt("jail", lambda: jail(shutil.which("bwrap"))))
        return "" if found.status == "ok" else f"{found.found}. {found.fix}"

    async def _worker(self) -> str:
        silent_s = time.monotonic() - host_of(self._server).worker.heartbeat_at
        return "" if silent_s < MAX_SILENCE_S else f"Nobody has looked at the queue for {silent_s:.0f} s."


async def check_data(server: Server) -> None:
    """Raise `DataGone` when the database is not there, or not whole."""
    await asyncio.to_thread(server.database_files.check)
    if server.database_files.is_wal_in_doubt:  # the next write tells whether SQLite has emptied it
        with suppress(HutchError):  # what is wrong is found below
            await check_writable(server.rows)
        await asyncio.to_thread(server.database_files.check)


def host_of(server: Server) -> LocalHost:
    """Where sessions live, when that is here: only then is there something to be watched over."""
    return cast(LocalHost, server.host)


def health_of(request: Request) -> Health:
    """Of the application that a request came to."""
    app = request.app
    found = getattr(app.state, "health", None)
    if not isinstance(found, Health):
        found = app.state.health = Health(app.state.server)
    return found


@routes.get("/healthz", include_in_schema=False)
async def alive() -> Response:
    return Response("ok\n", media_type="text/plain")


@routes.get("/readyz", include_in_schema=False)
async def ready(request: Request) -> Response:
    problems = await health_of(request).problems()
    if not problems:
        return Response("ready\n", media_type="text/plain")
    missing = ", ".join(sorted(problems))
    return problem(
        NOT_READY, f"Not ready: {missing}. `hutch status` and the log say more.", missing=sorted(problems)
    )


class StatusOut(Out):
    """What goes on in a server."""

    version: str
    started_ms: int
    sessions: Mapping[str, int] = Field(description="How many there are in each state.")
    runs: Mapping[str, int] = Field(description="How many there are in each state.")
    jails: int = Field(description="That are open.")
    followers: int = Field(description="Who follow a session's events now.")
    memory_bytes: int = Field(description="Of the server itself, without what runs in jails.")
    database_bytes: int
    problems: Mapping[str, str] = Field(description="What does not work, and why.")


@routes.get(
    f"{PREFIX}/status",
    operation_id="get_status",
    tags=["server"],
    response_model=StatusOut,
    responses=PROBLEMS,
)
async def status(request: Request, caller: Admin) -> Response:
    """How the server is, for its owners."""
    return answer(await status_of(server_of(request), await health_of(request).problems()))


async def status_of(server: Server, problems: Mapping[str, str]) -> dict[str, Any]:
    return {
        "version": hutch.__version__,
        "started_ms": server.started_ms,
        "sessions": await Sessions(server.rows).counts(),
        "runs": await Runs(server.rows).counts(),
        "jails": host_of(server).jails,
        "followers": host_of(server).followers,
        "memory_bytes": memory_bytes(),
        "database_bytes": await asyncio.to_thread(database_bytes, server.loaded.paths.database),
        "problems": problems,
    }


def memory_bytes() -> int:
    """What this process has in memory."""
    return int(Path("/proc/self/statm").read_text().split()[1]) * PAGE_BYTES


def database_bytes(path: Path) -> int:
    """The database with what is yet to be folded into it."""
    files = (path, path.with_name(f"{path.name}-wal"))
    return sum(file.stat().st_size for file in files if file.exists())
