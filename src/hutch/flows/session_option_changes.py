"""Changes the options of an open session: persona, model, network, limits, generation options.

The row and the event are written in one transaction. A run that works meanwhile takes the new
options over before its next turn; network and limits apply to the open jail at once, where the
kernel allows it.
"""

import asyncio
from collections.abc import Mapping
from dataclasses import asdict, field, replace
from typing import Any

from hutch.agent.persona import REPOSITORY_FOLDER
from hutch.domain.errors import BadRequest, Conflict, Denied, NotFound
from hutch.domain.events import OptionChange, SessionChanged
from hutch.domain.ids import SessionId
from hutch.domain.one_line_text import check_line
from hutch.domain.run_limits import NO_LIMITS
from hutch.domain.session import NewSession, Session
from hutch.domain.session_jail_resource_limits import NO_RESOURCES
from hutch.domain.user import Caller
from hutch.flows.flow_services import Services
from hutch.flows.member_session_caps import is_capped
from hutch.flows.new_session_validation import PERSONA_NAME, check_limits, is_script
from hutch.flows.personas import find_persona
from hutch.flows.sessions import allowed
from hutch.sessions.file_and_command_requests import ReadFile
from hutch.sessions.refusals_without_jail import refuse_room, works_in_place
from hutch.store.session_inputs import session_has_ended
from hutch.store.session_option_change_transaction import store_change
from hutch.store.user_row_erasure import UserErasures
from hutch.system.lazy_dataclass import dataclass

MAX_ATTEMPTS = 10  # when others change the same session at the same time
GROUPS = ("limits", "resources", "generation")
PLAIN = ("persona", "model", "network")


@dataclass(frozen=True, slots=True, kw_only=True)
class SessionChange:
    """The options to change. None leaves an option as it is; in the groups, only the named ones change, and
    None means that it is no longer set."""

    persona: str | None = None
    model: str | None = None
    network: tuple[str, ...] | None = None
    limits: Mapping[str, Any] = field(default_factory=dict)
    resources: Mapping[str, Any] = field(default_factory=dict)
    generation: Mapping[str, Any] = field(default_factory=dict)

    def applied_to(self, session: Session) -> Session:
        plain = {name: value for name in PLAIN if (value := getattr(self, name)) is not None}
        groups: dict[str, Any] = {
            name: replace(getattr(session, name), **getattr(self, name)) for name in GROUPS
        }
        return replace(session, **plain, **groups)


@dataclass(frozen=True, slots=True)
class Changed:
    """A changed session."""

    session: Session
    waiting: tuple[str, ...] = ()  # limits that apply when the session gets its next jail


async def change(
    services: Services, who: Caller, session_id: str, asked: SessionChange, *, by: str = ""
) -> Changed:
    """Change the options of a session. Only its owner and owners of the server may."""
    for _ in range(MAX_ATTEMPTS):
        session = await allowed(services, who, session_id, "manage")
        _check_open(services, session)
        wanted = asked.applied_to(session)
        wanted = replace(wanted, persona=services.redactor.redact(wanted.persona))
        if changes := _differences(session, wanted):
            await _check(services, who, session, wanted)
            await services.log.check_can_record(session.id)
            event = SessionChanged(by=by or who.user.id, changes=tuple(changes))
            if not await store_change(services.log, session, wanted, event):
                continue
        return Changed(wanted, tuple(await services.host.apply_changes(session.id)))
    raise Conflict(f"The session {session_id} is being changed by others. Try again.")


async def apply_caps(services: Services, user_id: str) -> None:
    """Apply the caps on members to the open jails of a user, who has another role or more sessions now."""
    for session_id in await UserErasures(services.rows).sessions_of(user_id):
        await services.host.apply_changes(SessionId(session_id))


def _check_open(services: Services, session: Session) -> None:
    if session.state == "ended":
        raise session_has_ended(session.id)
    refuse_room(session)
    if session.delivery.in_place and not services.opens_in_place:
        raise works_in_place(session)


async def _check(services: Services, who: Caller, before: Session, after: Session) -> None:
    """Refuse options that cannot be used, and those that the session's owner may not have."""
    asked = NewSession(
        network=after.network if after.network != before.network else (),
        limits=after.limits if after.limits != before.limits else NO_LIMITS,
        resources=after.resources if after.resources != before.resources else NO_RESOURCES,
    )
    if asked != NewSession():
        await check_limits(services, asked, capped=await is_capped(services.rows, before))
    (await services.policies.network_limit(before)).check(asked.network)
    if after.persona != before.persona:
        await _check_persona(services, before, after.persona)
    if after.model != before.model and is_script(after.model) and not who.is_owner:
        raise Denied("A script is a file of this machine. Only an owner may use one as the model.")
    if (after.model, after.generation, after.persona) != (before.model, before.generation, before.persona):
        try:
            named = (after.model, after.persona, before.owner, after.generation)
            await asyncio.to_thread(services.check_model, *named)
        except NotFound as error:
            raise BadRequest(str(error)) from None


async def _check_persona(services: Services, session: Session, name: str) -> None:
    check_line("A persona's name", name)
    if session.delivery.review:
        raise Conflict(f"The session {session.id} is a review, which has its own persona.")
    try:
        await asyncio.to_thread(find_persona, name or services.default_persona, services.personas)
    except NotFound as error:
        if not session.workspace_id or not PERSONA_NAME.fullmatch(name):
            raise BadRequest(str(error)) from None
        try:
            await services.host.call(session.id, ReadFile(f"{REPOSITORY_FOLDER}/{name}.md", length=1))
        except NotFound:
            raise BadRequest(str(error)) from None


def _differences(before: Session, after: Session) -> list[OptionChange]:
    """One change for each option that differs: `persona`, `limits.turns`, `resources.memory_bytes`."""
    old, new = _flat(before), _flat(after)
    return [
        OptionChange(name=name, before=old[name], after=new[name]) for name in old if old[name] != new[name]
    ]


def _flat(session: Session) -> dict[str, Any]:
    plain = {name: getattr(session, name) for name in PLAIN}
    grouped = {
        f"{group}.{name}": value
        for group in GROUPS
        for name, value in asdict(getattr(session, group)).items()
    }
    return {**plain, "network": list(session.network), **grouped}
