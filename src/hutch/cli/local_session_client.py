"""Sessions that run in this process."""

import asyncio
from collections.abc import AsyncGenerator, AsyncIterator, Callable
from contextlib import aclosing, asynccontextmanager
from dataclasses import asdict, fields, replace
from typing import Any

import orjson

from hutch.app.local_sessions import Local, open_local
from hutch.app.models import models_of
from hutch.cli.current_repository import MAX_NEWEST, newest_of_repository
from hutch.cli.local_session_lookup import find_session
from hutch.cli.new_session_request_body import model_name, repository_address
from hutch.cli.session_client import Version
from hutch.cli.session_event_stream import IGNORE_CONNECTION, Update
from hutch.domain.errors import NotFound
from hutch.domain.generation_options import NO_GENERATION, Generation
from hutch.domain.ids import SessionId
from hutch.domain.inputs import parse_input
from hutch.domain.log_entry_audience import WHOLE, entry_json
from hutch.domain.run_limits import RunLimits
from hutch.domain.session import NewSession, QueuedRun, Rerun, Session
from hutch.flows import (
    recorded_change_content,
    run_redelivery,
    session_option_changes,
    sessions,
    user_requested_run_resumption,
)
from hutch.flows.in_place_workspaces import InPlaceDirectories
from hutch.flows.personas import list_personas
from hutch.flows.run_and_log_lookup import find_run_id
from hutch.flows.session_rerun import compare_runs, rerun
from hutch.sessions.file_and_command_requests import Diff
from hutch.sessions.interface import Delta
from hutch.settings import LoadedSettings
from hutch.store.proposed_changes import Changes
from hutch.store.run_queue import Runs
from hutch.store.sessions import Sessions

DELTA = tuple(field.name for field in fields(Delta) if field.name != "audience")


class LocalSessions:
    """`SessionClient` without a server."""

    def __init__(self, local: Local) -> None:
        self.local = local

    @classmethod
    @asynccontextmanager
    async def opened(
        cls, loaded: LoadedSettings, *, jobs: int = 1, in_place: InPlaceDirectories | None = None
    ) -> AsyncIterator["LocalSessions"]:
        async with open_local(loaded, jobs=jobs, in_place=in_place) as local:
            yield cls(local)

    async def create(self, new: NewSession) -> dict[str, Any]:
        address, model = repository_address(new.repository, True), model_name(new.model, True)
        new = replace(new, repository=address, model=model)
        return self._to_json(await sessions.create(self.local.services, self.local.caller, new))

    async def get(self, session_id: str) -> dict[str, Any]:
        found = await sessions.show(self.local.services, self.local.caller, session_id)
        return {
            **self._to_json(found.session),
            "head": {"seq": found.head.seq},
            "queue_position": found.queue_position,
        }

    async def rerun(self, session_id: str, asked: Rerun) -> dict[str, Any]:
        asked = replace(asked, model=model_name(asked.model, True))
        return self._to_json(await rerun(self.local.services, self.local.caller, session_id, asked))

    async def compare(self, session_id: str, other: str) -> dict[str, Any]:
        found = await compare_runs(self.local.services, self.local.caller, session_id, other)
        return {name: asdict(run) for name, run in found.items()}

    async def find_session(self, name: str) -> dict[str, Any]:
        return await self.get(await find_session(self.local.log, name))

    async def find_run(self, name: str) -> dict[str, Any]:
        run_id = await self._last_run() if name == "last" else ""
        run_id = run_id or await find_run_id(self.local.services.rows, name)
        try:
            return await self.get_run(run_id)
        except NotFound:
            raise NotFound(f"There is no run '{name}'. `hutch log` lists the sessions.") from None

    async def _last_run(self) -> str:
        """The newest run of the current repository, or of all if that has none; empty if there is none."""
        rows = self.local.services.rows
        runs = await Runs(rows).page(limit=MAX_NEWEST)
        sessions = await Sessions(rows).get_many([run.session_id for run in runs])
        runs = [run for run in runs if run.session_id not in sessions or not sessions[run.session_id].parent]
        last = newest_of_repository(
            runs, lambda run: sessions[run.session_id].repository if run.session_id in sessions else ""
        )
        return last.id if last else ""

    async def resume(
        self,
        run_id: str,
        *,
        limits: RunLimits,
        model: str,
        generation: Generation = NO_GENERATION,
        deliver: bool | None,
    ) -> dict[str, Any]:
        resumed = await user_requested_run_resumption.resume(
            self.local.services,
            self.local.caller,
            run_id,
            limits=limits,
            model=model_name(model, True),
            generation=generation,
            deliver=deliver,
        )
        return _run(resumed)

    async def change(self, session_id: str, body: dict[str, Any]) -> dict[str, Any]:
        if "model" in body:
            body = {**body, "model": model_name(body["model"], True)}
        if "network" in body:
            body = {**body, "network": tuple(body["network"])}
        services, caller = self.local.services, self.local.caller
        changed = await session_option_changes.change(
            services, caller, session_id, session_option_changes.SessionChange(**body)
        )
        return {**self._to_json(changed.session), "waiting": list(changed.waiting)}

    async def follow(
        self, session_id: str, *, after: int = 0, on_connection: Callable[[bool], None] = IGNORE_CONNECTION
    ) -> AsyncGenerator[Update]:
        async with aclosing(self.local.host.follow(SessionId(session_id), WHOLE, after=after)) as updates:
            async for update in updates:
                if isinstance(update, Delta):  # there are many per second, and `asdict` is ten times slower
                    yield Update(delta={name: getattr(update, name) for name in DELTA})
                else:
                    yield Update(entry=orjson.loads(entry_json(update)))

    async def give(self, session_id: str, kind: str, **fields: Any) -> dict[str, Any]:
        parsed = parse_input.validate_python({"type": kind, **fields})
        return asdict(await sessions.give(self.local.services, self.local.caller, session_id, parsed))

    async def diff(self, session_id: str, old: int | None = None, new: int | None = None) -> dict[str, Any]:
        found = await self.local.host.call(SessionId(session_id), Diff(old, new))
        clean = self.local.services.redactor.redact
        return {"patch": clean(found.patch.decode(errors="replace")), "cut": found.cut}

    async def changed_content(self, session_id: str, seq: int, version: Version) -> bytes:
        services, caller = self.local.services, self.local.caller
        return await recorded_change_content.read_content(services, caller, session_id, seq, version)

    async def changed_diff(self, session_id: str, seq: int) -> dict[str, Any]:
        services, caller = self.local.services, self.local.caller
        found = await recorded_change_content.read_diff(services, caller, session_id, seq)
        return {"patch": found.patch.decode(errors="replace"), "cut": found.cut}

    async def page(self, *, before: str, limit: int) -> list[dict[str, Any]]:
        services, caller = self.local.services, self.local.caller
        found = await sessions.page(services, caller, before=before, limit=limit, interviews=False)
        return [
            {
                **self._to_json(each.session),
                "last_prompt": each.last_run.prompt if each.last_run else "",
            }
            for each in found
        ]

    async def personas(self) -> dict[str, Any]:
        found = await asyncio.to_thread(list_personas, self.local.loaded.paths.personas)
        items = [{"name": each.name, "description": each.description} for each in found]
        return {"items": items, "default": self.local.loaded.settings.persona}

    async def models(self) -> dict[str, Any]:
        choice, providers = await models_of(self.local.loaded).list_usable(self.local.caller.user.id)
        return {"default": choice.name, "reason": choice.reason, "providers": [asdict(p) for p in providers]}

    async def names(self, session: dict[str, Any] | None = None) -> tuple[str, dict[str, str]]:
        user = self.local.caller.user
        return str(user.id), {user.id: user.name}

    async def deliver(self, run_id: str, *, failing: bool) -> dict[str, Any]:
        return _run(
            await run_redelivery.deliver(self.local.services, self.local.caller, run_id, failing=failing)
        )

    async def get_run(self, run_id: str) -> dict[str, Any]:
        return _run(await sessions.run(self.local.services, self.local.caller, run_id))

    async def get_change(self, change_id: str) -> dict[str, Any]:
        return asdict(await Changes(self.local.services.rows).find(change_id))

    async def settle(self, run_id: str) -> None:
        await self.local.host.worker.wait_for(run_id)

    def _to_json(self, session: Session) -> dict[str, Any]:
        return {
            **asdict(session),
            "variables": dict(session.variables),
            "owner_name": self.local.caller.user.name,
            "head": None,
            "queue_position": None,
        }


def _run(run: QueuedRun) -> dict[str, Any]:
    return asdict(run)
