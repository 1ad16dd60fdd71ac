"""Erases a user: the account and all that belongs to it, their sessions, and their name in the logs.

The erasure is noted first and each step can be repeated, so that a crash does not leave half a
user: the next start of the server continues, and so does the same command.
"""

import asyncio
import re
from collections.abc import Sequence
from contextlib import suppress
from datetime import UTC, datetime

import structlog

from hutch.domain.errors import BadRequest, EventsMissing, HutchError, NotFound
from hutch.domain.events import Event
from hutch.domain.ids import SessionId
from hutch.domain.one_line_text import echo
from hutch.domain.user import Caller, User, scopes_of
from hutch.flows.flow_services import Services
from hutch.flows.session_option_changes import apply_caps
from hutch.flows.session_removal_keeping_log import remove
from hutch.flows.user_accounts import Accounts, Actor
from hutch.store.user_row_erasure import Mentions, UserErasure, UserErasures
from hutch.system.lazy_dataclass import dataclass

REASON = "a user was erased"
MIN_NAME_CHARS = 3  # shorter names are found in too many words
logger = structlog.get_logger()

REMAINS = (
    "Their id, {user_id}, in events, inputs, the audit and usage totals. It shows that one user did these "
    "things, not who; the chain of hashes and the audit need it.",
    "Addresses in the audit, which shows attacks.",
    "Their messages in sessions of others that do not contain their name.",
    "Titles, descriptions and criteria of tasks, which belong to the team; their comments are erased.",
    "Authors of commits in repositories, and files outside of Hutch.",
    "The server's log and backups. Delete them when they are not needed.",
)


@dataclass(frozen=True, slots=True)
class ErasurePlan:
    """The sessions and events that the erasure of a user would affect."""

    user_id: str
    name: str
    sessions: tuple[str, ...]  # that they own
    mentions: int  # events of other sessions with their name


@dataclass(frozen=True, slots=True)
class Erased:
    """The result of an erasure."""

    user_id: str
    sessions_erased: int
    sessions_handed_over: int
    events_erased: int  # in sessions of others
    secrets_deleted: int
    remains: tuple[str, ...]


async def plan(services: Services, user: User) -> ErasurePlan:
    owned = await UserErasures(services.rows).sessions_of(user.id)
    found = await _mentions(services, user.name, excluding=owned)
    return ErasurePlan(user.id, user.name, tuple(owned), sum(map(len, found.values())))


async def erase(
    services: Services,
    who: Caller,
    user_id: str,
    *,
    heir: str | None,
    erases_sessions: bool,
    mentions: Mentions | None,
    actor: Actor,
) -> Erased:
    """Erase a user. The caller must say what happens to their sessions, and to events with their name."""
    accounts, erasures = Accounts(services.rows), UserErasures(services.rows)
    if (earlier := await erasures.find(user_id)) and earlier.ended_ms:
        when = datetime.fromtimestamp(earlier.ended_ms / 1000, UTC).strftime("%Y-%m-%d %H:%M")
        raise NotFound(f"The user {user_id} was erased on {when} UTC. Nothing is left to do.")
    user = await accounts.users.get(user_id)
    if not earlier or heir is not None or erases_sessions:
        earlier = await _begin(services, user, heir, erases_sessions=erases_sessions, mentions=mentions)
        await accounts.note(actor, "user.erasure_begun", user.id, detail=f"heir: {earlier.heir or 'none'}")
    erased = await _carry_out(services, who, user, earlier)
    await accounts.note(actor, "user.erased", user.id)
    return erased


async def finish_erasures(services: Services) -> None:
    """Continue the erasures that the end of the last server interrupted."""
    accounts = Accounts(services.rows)
    for each in await UserErasures(services.rows).unfinished():
        owner = await accounts.users.first_owner()
        try:
            user = await accounts.users.get(each.user_id)
            assert owner is not None  # the last one cannot be erased
            who = Caller(owner, scopes_of(owner.role), "local", "local")
            await _carry_out(services, who, user, each)
            await accounts.note(Actor(credential_id="local"), "user.erased", each.user_id)
        except HutchError as error:  # the next start retries
            logger.warning("user.not_erased", user_id=each.user_id, problem=str(error))


async def _begin(
    services: Services, user: User, heir: str | None, *, erases_sessions: bool, mentions: Mentions | None
) -> UserErasure:
    """Check that all choices are made, and note the erasure."""
    found = await plan(services, user)
    if erases_sessions and heir:
        raise BadRequest("Sessions are either erased or handed over. Choose one.")
    if found.sessions and not (erases_sessions or heir):
        raise BadRequest(
            f"{user.name} owns {len(found.sessions)} sessions. Choose: erase them (--sessions erase), or "
            "hand them over (--heir USER)."
        )
    if found.mentions and mentions is None:
        raise BadRequest(
            f"{found.mentions} events of other sessions contain the name {echo(user.name, 80)}. Choose: "
            "erase their content (--mentions erase), or keep it (--mentions keep)."
        )
    new_owner = await Accounts(services.rows).users.find(heir) if heir else None
    if new_owner is not None and (new_owner.id == user.id or new_owner.role not in ("owner", "member")):
        raise BadRequest(f"{new_owner.name} cannot own sessions. Name another owner or member as the heir.")
    if new_owner is not None and new_owner.disabled:
        raise BadRequest(f"{new_owner.name} is disabled. Name another owner or member as the heir.")
    return await UserErasures(services.rows).begin(
        user.id, heir=new_owner.id if new_owner else "", mentions=mentions or "keep"
    )


async def _carry_out(services: Services, who: Caller, user: User, erasure: UserErasure) -> Erased:
    """All steps after the note, in an order in which the account, which has the name, goes last."""
    erasures = UserErasures(services.rows)
    secrets = await asyncio.to_thread(services.user_keys.delete_all, user.id)
    owned = tuple(dict.fromkeys((*erasure.sessions, *await erasures.sessions_of(user.id))))
    if erasure.heir:
        await erasures.hand_over(user.id, erasure.heir)
        await apply_caps(services, erasure.heir)
    else:
        for session_id in owned:
            with suppress(NotFound):  # before a crash, it was removed and perhaps not erased
                await remove(services, who, session_id)
            await services.log.erase(SessionId(session_id), None, reason=REASON)
    found = await _mentions(services, user.name) if erasure.mentions == "erase" else {}
    events = 0
    for session_id, seqs in found.items():
        events += await services.log.erase(SessionId(session_id), seqs, reason=REASON)
    await erasures.finish(user.id)
    return Erased(
        user.id,
        sessions_erased=0 if erasure.heir else len(owned),
        sessions_handed_over=len(owned) if erasure.heir else 0,
        events_erased=events,
        secrets_deleted=secrets,
        remains=tuple(line.format(user_id=user.id) for line in REMAINS),
    )


async def _mentions(services: Services, name: str, excluding: Sequence[str] = ()) -> dict[str, list[int]]:
    """The events of all logs that contain a name as a whole word."""
    if len(name) < MIN_NAME_CHARS:
        return {}
    word, found = re.compile(rf"(?<!\w){re.escape(name)}(?!\w)"), dict[str, list[int]]()
    before: SessionId | None = None
    while heads := await services.log.heads(before=before):
        before = heads[-1].session_id
        for id in (head.session_id for head in heads if head.session_id not in excluding):
            try:
                if seqs := await _find_word(services, id, word):
                    found[id] = seqs
            except EventsMissing:  # a damaged log is not searched to its end
                logger.warning("user.log_not_searched", session_id=id)
    return found


async def _find_word(services: Services, session_id: SessionId, word: re.Pattern[str]) -> list[int]:
    after, found = 0, list[int]()
    while page := await services.log.read(session_id, after=after):
        after = page[-1].seq
        events = ((each.seq, each.event) for each in page)
        found += [
            seq for seq, event in events if isinstance(event, Event) and word.search(event.model_dump_json())
        ]
    return found
