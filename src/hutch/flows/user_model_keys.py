"""Model keys of one's own: used only for the runs that a user starts in their own sessions."""

import asyncio
from collections.abc import Sequence

from hutch.domain.errors import BadRequest, Denied, NotFound
from hutch.domain.events import Entry, RunQueued, RunResumed, SessionResumed
from hutch.domain.one_line_text import echo
from hutch.domain.session import QueuedRun, Session
from hutch.domain.user import Caller
from hutch.flows.flow_services import Services
from hutch.llm.model_and_key_names import KEY_NAMES
from hutch.store.table_access_interface import Rows
from hutch.store.webhook_inbox import is_from_forge

PROVIDERS = tuple(provider for provider in KEY_NAMES if provider != "scripted")
MAX_KEY_CHARS = 4096


async def list_keys(services: Services, who: Caller) -> list[str]:
    """The providers for which the caller has a key. Keys are never shown."""
    return await asyncio.to_thread(services.user_keys.providers, who.user.id)


async def set_key(services: Services, who: Caller, provider: str, key: str) -> None:
    """Store a key of the caller, encrypted."""
    _check(who, provider)
    key = key.strip()
    if not key or len(key) > MAX_KEY_CHARS or not (key.isascii() and key.isprintable()):
        raise BadRequest(f"The key for {provider} is empty, too long, or has invalid characters.")
    services.redactor.add_values([key])  # before anything can show it
    await asyncio.to_thread(services.user_keys.set, who.user.id, provider, key)


async def delete_key(services: Services, who: Caller, provider: str) -> None:
    _check(who, provider)
    if provider not in await list_keys(services, who):
        raise NotFound(f"You have no key of your own for {provider}.")  # the vault would name other secrets
    await asyncio.to_thread(services.user_keys.delete, who.user.id, provider)


async def key_owner(rows: Rows, session: Session, run: QueuedRun, entries: Sequence[Entry]) -> str:
    """The user whose own keys a run may use; empty: none.

    Only the owner of the session who also started the run, and resumed it if anyone did. Requests from a
    forge work in the name of a user, but come from others.
    """
    asked_by: set[str] = set()
    for entry in entries:
        match entry.event:
            case RunQueued(run_id=run.id, by=by) | RunResumed(run_id=run.id, by=by):
                asked_by.add(by)
            case SessionResumed(by=by) if asked_by:
                asked_by.add(by)
    if asked_by != {session.owner}:
        return ""
    if await is_from_forge(rows, session.id, run.input):
        return ""
    return session.owner


def _check(who: Caller, provider: str) -> None:
    if who.user.role not in ("owner", "member"):
        raise Denied(f"{who.user.name} is {who.user.role}, and starts no runs. A key would not be used.")
    if provider not in PROVIDERS:
        raise BadRequest(f"{echo(provider, 40)} is no provider with keys. There are: {', '.join(PROVIDERS)}.")
