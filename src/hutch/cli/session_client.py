"""The client of sessions that commands use: for those of a server, or of this process.

Both return the same JSON as the API, so code that shows a session does not depend on its location.
"""

from collections.abc import AsyncGenerator, AsyncIterator, Callable
from contextlib import asynccontextmanager
from dataclasses import asdict
from functools import partial
from pathlib import Path
from typing import Any, Literal, Protocol

from hutch import settings
from hutch.app import configure_logs
from hutch.cli.api_client import Client
from hutch.cli.current_repository import find_current_repository
from hutch.cli.early_session_request import EarlyRequest
from hutch.cli.new_session_request_body import model_name, request_body
from hutch.cli.server_address_and_token import local_address, uses_no_server
from hutch.cli.server_requests import PAGE, find_session, names_of_users
from hutch.cli.session_event_stream import IGNORE_CONNECTION, Update, follow
from hutch.cli.session_response_without_http_client import read_answer
from hutch.domain.errors import NotFound
from hutch.domain.generation_options import NO_GENERATION, Generation
from hutch.domain.run_limits import RunLimits
from hutch.domain.session import NewSession, Rerun
from hutch.system.fast_imports import load_structlog, without_gc
from hutch.system.server_announcement_and_discovery import find_server

MAX_TRIED = 20  # sessions that are asked for their last run
Version = Literal["before", "after"]


class SessionClient(Protocol):
    """Creates, follows and controls sessions."""

    async def create(self, new: NewSession) -> dict[str, Any]: ...

    async def get(self, session_id: str) -> dict[str, Any]: ...

    async def rerun(self, session_id: str, asked: Rerun) -> dict[str, Any]:
        """Run a recorded session again from an event, in a fork."""
        ...

    async def compare(self, session_id: str, other: str) -> dict[str, Any]:
        """The run of a session and its rerun, side by side."""
        ...

    async def find_session(self, name: str) -> dict[str, Any]:
        """Find a session by its id, a unique prefix or suffix of it, or `last`."""
        ...

    async def find_run(self, name: str) -> dict[str, Any]:
        """Find a run by its id, its session's id, or `last`."""
        ...

    async def resume(
        self,
        run_id: str,
        *,
        limits: RunLimits,
        model: str,
        generation: Generation = NO_GENERATION,
        deliver: bool | None,
    ) -> dict[str, Any]: ...

    async def change(self, session_id: str, body: dict[str, Any]) -> dict[str, Any]:
        """Change options of a session; `body` is that of the API."""
        ...

    def follow(
        self, session_id: str, *, after: int = 0, on_connection: Callable[[bool], None] = IGNORE_CONNECTION
    ) -> AsyncGenerator[Update]:
        """Entries after a number, and parts of replies; `on_connection` gets False while disconnected."""
        ...

    async def give(self, session_id: str, kind: str, **fields: Any) -> dict[str, Any]:
        """Send an input."""
        ...

    async def diff(self, session_id: str, old: int | None = None, new: int | None = None) -> dict[str, Any]:
        """The changes between snapshots; by default since the session began."""
        ...

    async def changed_content(self, session_id: str, seq: int, version: Version) -> bytes:
        """The file of a `file.changed` event, before or after."""
        ...

    async def changed_diff(self, session_id: str, seq: int) -> dict[str, Any]:
        """The diff of a `file.changed` or `files.changed` event."""
        ...

    async def page(self, *, before: str, limit: int) -> list[dict[str, Any]]:
        """Sessions, newest first; those of interviews are left out."""
        ...

    async def personas(self) -> dict[str, Any]:
        """The personas, as `items`, and the name of the `default` one if it is known."""
        ...

    async def models(self) -> dict[str, Any]:
        """The usable providers of models, and the default model, as the API returns them."""
        ...

    async def names(self, session: dict[str, Any] | None = None) -> tuple[str, dict[str, str]]:
        """The caller's id, and the names of users by id."""
        ...

    async def deliver(self, run_id: str, *, failing: bool) -> dict[str, Any]:
        """Deliver a run's work again; the returned run may still be delivering."""
        ...

    async def get_run(self, run_id: str) -> dict[str, Any]: ...

    async def get_change(self, change_id: str) -> dict[str, Any]: ...

    async def settle(self, run_id: str) -> None:
        """Return when everything about a run that has ended is stored."""
        ...


class ServedSessions:
    """Sessions of a server."""

    def __init__(self, client: Client, early: EarlyRequest | None = None) -> None:
        self.client = client
        self._early = early

    async def create(self, new: NewSession) -> dict[str, Any]:
        early, self._early = self._early, None
        if early is None:
            body = request_body(new, is_local=self.client.address.is_local)
            return dict(await self.client.post("/sessions", body))
        if opened := await read_answer(early):
            return opened
        headers = {"Idempotency-Key": early.key, "Content-Type": "application/json"}
        answer = await self.client.request("POST", "/sessions", content=early.body, headers=headers)
        return dict(answer.json())

    async def get(self, session_id: str) -> dict[str, Any]:
        answer = await self.client.request("GET", f"/sessions/{session_id}", again=False)
        return dict(answer.json())

    async def rerun(self, session_id: str, asked: Rerun) -> dict[str, Any]:
        model = model_name(asked.model, self.client.address.is_local)
        return dict(
            await self.client.post(f"/sessions/{session_id}/rerun", {**asdict(asked), "model": model})
        )

    async def compare(self, session_id: str, other: str) -> dict[str, Any]:
        return dict(await self.client.get(f"/sessions/{session_id}/comparison", rerun=other))

    async def find_session(self, name: str) -> dict[str, Any]:
        return await find_session(self.client, name)

    async def find_run(self, name: str) -> dict[str, Any]:
        if name.startswith("run_"):
            return dict(await self.client.get(f"/runs/{name}"))
        if name == "last" and (last := await self._last_run()):
            return last
        session = await find_session(self.client, name)
        runs = await self._newest_runs(session["id"])
        if not runs:
            raise NotFound(f"The session {session['id']} has no run yet.")
        return dict(runs[0])

    async def _last_run(self) -> dict[str, Any] | None:
        """The newest run of the current repository, if it has any."""
        here = find_current_repository(Path.cwd())
        if here is None:
            return None
        newest = (await self.client.get("/sessions", limit=PAGE))["items"]
        for session in [each for each in newest if here.is_at(each["repository"])][:MAX_TRIED]:
            if runs := await self._newest_runs(session["id"]):
                return dict(runs[0])
        return None

    async def _newest_runs(self, session_id: str) -> list[dict[str, Any]]:
        return list((await self.client.get(f"/sessions/{session_id}/runs", limit=1))["items"])

    async def resume(
        self,
        run_id: str,
        *,
        limits: RunLimits,
        model: str,
        generation: Generation = NO_GENERATION,
        deliver: bool | None,
    ) -> dict[str, Any]:
        options = {"limits": limits.as_dict(), "generation": generation.as_dict()}
        return dict(
            await self.client.post(f"/runs/{run_id}/resume", {**options, "model": model, "deliver": deliver})
        )

    async def change(self, session_id: str, body: dict[str, Any]) -> dict[str, Any]:
        if "model" in body:
            body = {**body, "model": model_name(body["model"], self.client.address.is_local)}
        return dict((await self.client.request("PATCH", f"/sessions/{session_id}", json=body)).json())

    def follow(
        self, session_id: str, *, after: int = 0, on_connection: Callable[[bool], None] = IGNORE_CONNECTION
    ) -> AsyncGenerator[Update]:
        return follow(self.client, session_id, after=after, on_connection=on_connection)

    async def give(self, session_id: str, kind: str, **fields: Any) -> dict[str, Any]:
        return await self.client.give(session_id, kind, **fields)

    async def diff(self, session_id: str, old: int | None = None, new: int | None = None) -> dict[str, Any]:
        query = {name: value for name, value in (("old", old), ("new", new)) if value}
        return dict(await self.client.get(f"/sessions/{session_id}/diff", **query))

    async def changed_content(self, session_id: str, seq: int, version: Version) -> bytes:
        path = f"/sessions/{session_id}/events/{seq}/content"
        return bytes((await self.client.request("GET", path, params={"version": version})).content)

    async def changed_diff(self, session_id: str, seq: int) -> dict[str, Any]:
        return dict(await self.client.get(f"/sessions/{session_id}/events/{seq}/diff"))

    async def page(self, *, before: str, limit: int) -> list[dict[str, Any]]:
        query = {"before": before} if before else {}
        return list((await self.client.get("/sessions", limit=limit, **query))["items"])

    async def personas(self) -> dict[str, Any]:
        return {"items": (await self.client.get("/personas"))["items"], "default": ""}

    async def models(self) -> dict[str, Any]:
        return dict(await self.client.get("/models"))

    async def names(self, session: dict[str, Any] | None = None) -> tuple[str, dict[str, str]]:
        return await names_of_users(self.client, session)

    async def deliver(self, run_id: str, *, failing: bool) -> dict[str, Any]:
        return dict(await self.client.post(f"/runs/{run_id}/deliver", {"failing": failing}))

    async def get_run(self, run_id: str) -> dict[str, Any]:
        return dict(await self.client.get(f"/runs/{run_id}"))

    async def get_change(self, change_id: str) -> dict[str, Any]:
        return dict(await self.client.get(f"/changes/{change_id}"))

    async def settle(self, run_id: str) -> None:
        """Do nothing: the server stores it on its own."""


@asynccontextmanager
async def open_sessions(
    *, here: bool, jobs: int = 1, early: EarlyRequest | None = None
) -> AsyncIterator[SessionClient]:
    """The sessions of the local server, or of this process if none is running or `here` is set.

    After an `early` request its server is used, even if it has stopped since.
    """
    paths = settings.find_paths()
    if early is not None or (not here and find_server(paths.server_files) is not None):
        async with Client(partial(local_address, paths)) as client:
            yield ServedSessions(client, early)
        return
    async with _open_in_process(jobs=jobs) as sessions:
        yield sessions


@asynccontextmanager
async def open_chosen_sessions() -> AsyncIterator[SessionClient]:
    """The sessions of the server that commands use; if there is none, those of this process."""
    if uses_no_server(settings.load()):
        async with _open_in_process() as sessions:
            yield sessions
    else:
        async with Client() as client:
            yield ServedSessions(client)


@asynccontextmanager
async def _open_in_process(*, jobs: int = 1) -> AsyncIterator[SessionClient]:
    with without_gc():
        load_structlog()
        from hutch.cli.local_session_client import LocalSessions  # loads the jail and the agent

    loaded = settings.load()
    configure_logs(loaded, quiet=True)
    async with LocalSessions.opened(loaded, jobs=jobs) as sessions:
        yield sessions
