"""Opens a session with the files of another one."""

import asyncio
from dataclasses import replace

from hutch.domain.errors import Conflict, NotFound
from hutch.domain.session import NO_TRIES, NewSession, Session
from hutch.domain.user import Caller
from hutch.flows.flow_services import Services
from hutch.flows.forked_conversation_copy import copy_conversation
from hutch.flows.new_session_validation import fork_network, is_script
from hutch.flows.run_and_log_lookup import read_log
from hutch.flows.session_permissions import check_may_open
from hutch.flows.sessions import allowed, create_with_run
from hutch.sessions.file_and_command_requests import ListSnapshots, SnapshotForFork
from hutch.store.session_creation import OpenedSession
from hutch.store.table_access_interface import ExtraWrite


async def fork(
    services: Services,
    who: Caller,
    session_id: str,
    *,
    snapshot: int | None = None,
    conversation: bool = False,
    also: ExtraWrite[OpenedSession] | None = None,
) -> Session:
    """Open a new session with the files of this one, current or from a snapshot, and its conversation up to
    that moment if wanted.

    Unless the caller is an owner, a script is not copied, as only owners may name files of the machine.
    Hosts that the caller may not allow are not copied either, and limits are lowered to those of members.
    """
    session = await allowed(services, who, session_id, "input" if snapshot is None else "read")
    check_may_open(who)  # before a snapshot is taken
    if not session.workspace_id and session.state == "ended":
        raise NotFound(f"The session {session_id} has no files: {session.reason or 'it never had any.'}")
    if not session.workspace_id:
        raise Conflict(f"The session {session_id} has no workspace yet. Wait until it is ready.")
    upto = snapshot
    if snapshot is None:
        snapshot = (await services.host.call(session.id, SnapshotForFork())).id
    elif all(each.id != snapshot for each in await services.host.call(session.id, ListSnapshots())):
        raise NotFound(f"The session {session_id} has no snapshot {snapshot}.")
    new = await copied_options(services, who, session)
    entries = await read_log(services.log, session.id) if conversation else []
    copied = await asyncio.to_thread(copy_conversation, entries, upto) if conversation else []
    origin = f"{session.id}@{snapshot}"
    made = await create_with_run(services, who, new, forked_from=origin, conversation=copied, also=also)
    return made.session


async def copied_options(services: Services, who: Caller, session: Session) -> NewSession:
    """The options of a session that the caller's fork of it has."""
    new = NewSession(
        purpose=session.purpose,
        role=session.role,
        company=session.company,
        expectations=session.expectations,
        repository=session.repository,
        revision=session.revision,
        persona=session.persona,
        model=session.model if who.is_owner or not is_script(session.model) else "",
        network=await fork_network(services, who, session),
        variables=session.variables,
        secrets=session.secrets if session.owner == who.user.id else (),
        limits=session.limits,
        resources=session.resources,
        generation=session.generation,
        deliver=session.deliver and (who.is_owner or session.owner == who.user.id),
        delivery=replace(session.delivery, review="", task="", tries=NO_TRIES),
    )
    return new if who.is_owner else services.caps.lower(new)
