"""Health checks of a server, and its status for owners.

`/healthz` succeeds if the process answers. `/readyz` succeeds if the server can work: the
database is writable, a jail can be opened, the worker polls the queue. Both need no
authentication and reveal nothing else.
"""

import asyncio
import os
import shutil
import time
from collections.abc import Awaitable, Callable, Mapping
from contextlib import suppress
from dataclasses import field
from pathlib import Path
from typing import Any, cast

import structlog
from fastapi import APIRouter, Request, Response
from pydantic import Field

import hutch
from hutch.domain.errors import HutchError
from hutch.gateway.auth.caller_dependency import Admin
from hutch.gateway.gateway_context import Server
from hutch.gateway.http_error_table import ErrorStatus
from hutch.gateway.problem_json import problem
from hutch.gateway.request_and_response_bodies import Out, answer
from hutch.gateway.rest.base_route import PREFIX, PROBLEMS, server_of
from hutch.jail.machine_checks import attempt, jail
from hutch.sessions.live_session_host import LocalHost
from hutch.store.database_readiness import check_schema, check_writable, database_bytes
from hutch.store.run_queue import Runs
from hutch.store.sessions import Sessions
from hutch.system.lazy_dataclass import dataclass

CACHE_S, FAILURE_CACHE_S = 30.0, 2.0  # of a result; failures are rechecked soon
MAX_SILENCE_S = 30.0  # without a poll of the queue, after which the worker counts as failed
NOT_READY = ErrorStatus(503, "unavailable")
PAGE_BYTES = os.sysconf("SC_PAGE_SIZE")

logger = structlog.get_logger("hutch.health")
routes = APIRouter()


@dataclass(slots=True)
class _CachedCheck:
    problem: str = ""  # empty if the check succeeded
    until: float = 0.0
    lock: asyncio.Lock = field(default_factory=asyncio.Lock)


class Health:
    """Caches the results of checks, because unauthenticated callers may request them at any rate."""

    def __init__(self, server: Server) -> None:
        self._server = server
        self._checks: dict[str, Callable[[], Awaitable[str]]] = {
            "database": self._database,
            "jail": self._jail,
            "worker": self._worker,
        }
        self._cache = {name: _CachedCheck() for name in self._checks}

    async def problems(self) -> dict[str, str]:
        """The failed checks, each with its reason."""
        found = await asyncio.gather(*(self._run_check(name) for name in self._checks))
        problems = {name: text for name, text in zip(self._checks, found, strict=True) if text}
        try:  # not cached: without the database, results would be lost
            await check_data(self._server)
        except HutchError as error:
            problems["database"] = str(error)
        return {**problems, "server": "The server is stopping."} if self._server.closing else problems

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
        return (
            "" if silent_s < MAX_SILENCE_S else f"The worker has not polled the queue for {silent_s:.0f} s."
        )


async def check_data(server: Server) -> None:
    """Raise `DataGone` if the database is missing or incomplete."""
    await asyncio.to_thread(server.database_files.check)
    if server.database_files.is_wal_in_doubt:  # the next write shows whether SQLite has emptied it
        with suppress(HutchError):  # the checks below report it
            await check_writable(server.rows)
        await asyncio.to_thread(server.database_files.check)


def host_of(server: Server) -> LocalHost:
    """The host of sessions, which must be in this process to be checked."""
    return cast(LocalHost, server.host)


def health_of(request: Request) -> Health:
    """The health of the application that serves a request."""
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
    """The state of a server."""

    version: str
    started_ms: int
    sessions: Mapping[str, int] = Field(description="The number of sessions in each state.")
    runs: Mapping[str, int] = Field(description="The number of runs in each state.")
    jails: int = Field(description="The number of open jails.")
    followers: int = Field(description="The number of open streams of events.")
    memory_bytes: int = Field(description="The memory of the server itself, without jails.")
    database_bytes: int
    problems: Mapping[str, str] = Field(description="The failed checks, each with its reason.")


@routes.get(
    f"{PREFIX}/status",
    operation_id="get_status",
    tags=["server"],
    response_model=StatusOut,
    responses=PROBLEMS,
)
async def status(request: Request, caller: Admin) -> Response:
    """The state of the server, for owners."""
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
        "database_bytes": await database_bytes(server.rows, server.loaded.paths.database),
        "problems": problems,
    }


def memory_bytes() -> int:
    """The resident memory of this process."""
    return int(Path("/proc/self/statm").read_text().split()[1]) * PAGE_BYTES
