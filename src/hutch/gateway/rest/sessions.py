"""Opens, lists, shows, forks and removes sessions."""

import asyncio
from collections.abc import Callable, Sequence
from dataclasses import asdict
from typing import Annotated, Any

from fastapi import Depends, Query, Request, Response
from pydantic import ConfigDict, Field

from hutch.domain.errors import BadRequest
from hutch.domain.generation_option_fields import GenerationFields
from hutch.domain.jail_variable_and_secret_check import MAX_VALUE_CHARS, MAX_VARIABLES
from hutch.domain.run_limits import RunLimits
from hutch.domain.session import Delivery, NewSession, QueuedRun, Session, SessionState
from hutch.domain.session_jail_resource_limits import Resources
from hutch.domain.user import Caller
from hutch.flows import session_removal_keeping_log
from hutch.flows import sessions as flow
from hutch.flows.command_limits_and_sources import EffectiveLimit
from hutch.flows.flow_services import Services
from hutch.flows.session_fork import fork as fork_session
from hutch.flows.session_permissions import Action
from hutch.flows.sessions import Shown
from hutch.gateway.auth.caller_dependency import AuthenticatorDep, Reader, Writer
from hutch.gateway.idempotency import ByKeyWithRow, Key, KeyedRequest
from hutch.gateway.request_and_response_bodies import (
    MAX_SIZE,
    Cursor,
    In,
    Limit,
    Out,
    Page,
    answer,
    fields_from,
    page,
)
from hutch.gateway.rest.base_route import PREFIX, router, server_of
from hutch.gateway.rest.delivery_and_tries_fields import DeliveryIn, Short, TriesIn
from hutch.gateway.rest.run_and_command_limit_fields import (
    EffectiveLimitOut,
    Limits,
    ResourcesIn,
    ResourcesOut,
)
from hutch.gateway.rest.runs import DeliveredOut
from hutch.gateway.rest.starter_file_fields import ABOUT_FILES, FilesIn, starter_files
from hutch.store.event_log_interface import Head
from hutch.store.users import Users

routes = router("sessions")

MAX_WORDS = 10
Long = Annotated[str, Field(max_length=200_000)]


class NewSessionIn(In):
    """A new session."""

    model_config = ConfigDict(
        json_schema_extra={
            "examples": [
                {
                    "purpose": "Fix the parser",
                    "repository": "https://example.com/team/project.git",
                    "prompt": "Make the failing test in tests/test_parser.py pass.",
                    "deliver": True,
                }
            ]
        }
    )

    purpose: Annotated[str, Field(max_length=2000)] = Field("", description="The purpose, in one line.")
    role: Short = Field("", description="The role of the agent.")
    company: Short = Field("", description="The company that it is for; the agent sees it.")
    expectations: Long = Field("", description="The expected result.")
    repository: Short = Field("", description="A URL or a path; empty: `files`, or an empty directory.")
    plain_directory: bool = Field(
        False, description="Whether `repository` may be a directory without git, which is copied."
    )
    files: FilesIn = Field(default_factory=dict, description=ABOUT_FILES)
    revision: Short = Field("", description="A branch, tag or commit; empty means the repository's HEAD.")
    persona: Annotated[str, Field(max_length=100)] = Field("", description="The persona; see /personas.")
    model: Annotated[str, Field(max_length=500)] = Field("", description="`provider:name`; see /models.")
    network: list[Annotated[str, Field(min_length=1, max_length=300)]] = Field(
        default_factory=list, max_length=100, description="Hosts that commands may reach."
    )
    variables: dict[str, Annotated[str, Field(max_length=MAX_VALUE_CHARS)]] = Field(
        default_factory=dict,
        max_length=MAX_VARIABLES,
        description="Variables of every command; everyone who sees the session sees them.",
    )
    secrets: list[Annotated[str, Field(min_length=1, max_length=128)]] = Field(
        default_factory=list,
        max_length=MAX_VARIABLES,
        description="Names of your secrets for jails, which every command gets as variables.",
    )
    limits: Limits = Field(default_factory=Limits)
    resources: ResourcesIn = Field(default_factory=ResourcesIn)
    generation: GenerationFields = Field(default_factory=GenerationFields)
    deliver: bool = Field(False, description="Whether a run that changed files proposes a change.")
    delivery: DeliveryIn = Field(default_factory=DeliveryIn)
    prompt: Long = Field("", description="The first prompt; without one only the workspace is prepared.")
    tries: TriesIn = Field(default_factory=TriesIn)


@fields_from(Head, "seq hash at_ms")
class HeadOut(Out):
    """The newest entry of a session's log."""


@fields_from(RunLimits, "turns tokens cost_usd timeout_s")
class LimitsOut(Out):
    """The limits of a run."""


@fields_from(Delivery, "title branch draft labels reviewers tests issue author unattended")
class DeliveryOut(Out):
    """How the result is delivered."""


class SessionDeliveredOut(DeliveredOut):
    """The last attempt to deliver the result of a run."""

    run_id: str


class LastRunOut(Out):
    """How the newest run that has ended went."""

    id: str
    outcome: str = Field(
        description="`done`, `tests_failing`, `limit_reached`, `cancelled` or `failed`.", examples=["done"]
    )
    reason: str


OWN_FIELDS = (
    "id owner purpose role company expectations repository revision persona model network secrets limits "
    "resources generation deliver delivery forked_from parent state reason created_ms updated_ms"
)


@fields_from(Session, OWN_FIELDS)
class SessionOut(Out):
    """A session as its users see it."""

    id: str = Field(examples=["ses_01jd2m4c9k7w6t0q8n5x3vbaeh"])
    owner_name: str = Field(description="The owner's name.")
    variables: dict[str, str] = Field(description="Variables of every command.")
    secrets: tuple[str, ...] = Field(description="Names of the secrets that every command gets as variables.")
    limits: LimitsOut
    resources: ResourcesOut
    generation: GenerationFields = Field(
        description="Options of the model's replies; null: those of the persona."
    )
    delivery: DeliveryOut
    starter_files: int = Field(description="How many files it was given to start with.")
    forked_from: str = Field(description="`SESSION@SNAPSHOT`, if it is a fork.")
    parent: str = Field(description="The session whose agent delegated a task to it; empty for others.")
    reason: str = Field(description="Why it is in that state; may be empty.")
    interview: str = Field(
        description="The interview whose room or workspace it is; empty for other sessions."
    )
    queue_position: int | None = Field(description="The position in the queue while it waits: 1 is next.")
    head: HeadOut | None = Field(description="The head of its log; null in responses that do not look it up.")
    delivered: SessionDeliveredOut | None = Field(
        description="The delivery of the newest run for which one was attempted."
    )
    last_run: LastRunOut | None = Field(
        description="The newest run that has ended; null in responses that do not look it up."
    )
    effective_limits: list[EffectiveLimitOut] | None = Field(
        description="The limits of its commands, and where each comes from; null in responses about several "
        "sessions."
    )
    erased_events: int | None = Field(
        description="How many events of its log were erased: copies that were made before are outdated. Null "
        "in responses about several sessions."
    )


class ForkIn(In):
    """Options of a fork."""

    snapshot: int | None = Field(
        None, ge=1, le=MAX_SIZE, description="A snapshot; the default is the current files."
    )
    conversation: bool = Field(
        False, description="Take the conversation along, up to the moment of the files."
    )


def session_json(
    session: Session,
    owner_name: str,
    head: Head | None = None,
    queue_position: int | None = None,
    run: QueuedRun | None = None,
    effective_limits: Sequence[EffectiveLimit] | None = None,
    last_run: QueuedRun | None = None,
    interview: str = "",
) -> dict[str, Any]:
    """A session as JSON; `run` is the newest run with a delivery."""
    values = {name: getattr(session, name) for name in OWN_FIELDS.split()}
    newest = HeadOut.of(head) if head else None
    delivered = {**asdict(run.delivered), "run_id": run.id} if run and run.delivered else None
    more = {
        "owner_name": owner_name,
        "interview": interview,
        "queue_position": queue_position,
        "head": newest,
        "delivered": delivered,
        "last_run": LastRunOut.of(last_run) if last_run else None,
        "effective_limits": effective_limits,
        "erased_events": None,
        "starter_files": session.delivery.starter_files,
        "variables": dict(session.variables),
    }
    values["delivery"] = DeliveryOut.of(session.delivery)
    return {**values, **more}


async def sessions_json(
    services: Services,
    caller: Caller,
    found: Sequence[Shown],
    *,
    effective_limits: Sequence[EffectiveLimit] | None = None,
) -> list[dict[str, Any]]:
    """Sessions as JSON, with the names of their owners; `effective_limits` are those of the only one."""
    names = {str(caller.user.id): caller.user.name}
    others = {each.session.owner for each in found} - names.keys()
    if others:
        names |= await Users(services.rows).names(others)
    return [
        session_json(
            each.session,
            names[each.session.owner],
            each.head,
            each.queue_position,
            each.delivered,
            effective_limits,
            each.last_run,
            each.interview,
        )
        for each in found
    ]


def search_words(text: str) -> str:
    """Check the words of a search: each one is matched against every session."""
    if len(text.split()) > MAX_WORDS:
        raise BadRequest(f"Search for at most {MAX_WORDS} words at once.")
    return text


def created_response_for(caller: Caller) -> Callable[[Session], Response]:
    """The response to the caller who opened a session, and owns it."""

    def made(session: Session) -> Response:
        return answer(
            session_json(session, caller.user.name), 201, {"Location": f"{PREFIX}/sessions/{session.id}"}
        )

    return made


def _plain(body: In) -> dict[str, Any]:
    """The fields of a request body, as the domain types them."""
    values = {name: getattr(body, name) for name in type(body).model_fields}
    return {name: tuple(value) if isinstance(value, list) else value for name, value in values.items()}


def new_session(body: NewSessionIn) -> NewSession:
    """The session that a request describes. Blocks the thread while files are decoded."""
    parts = {
        "limits": RunLimits(**_plain(body.limits)),
        "resources": Resources(**_plain(body.resources)),
        "generation": body.generation.to_generation(),
        "delivery": Delivery(**_plain(body.delivery), tries=body.tries.to_tries()),
        "files": starter_files(body.files),
        "variables": tuple(sorted(body.variables.items())),
    }
    plain = {name: value for name, value in _plain(body).items() if name != "tries"}
    return NewSession(**{**plain, **parts})


@routes.post("/sessions", status_code=201, operation_id="create_session", response_model=SessionOut)
async def create(request: Request, caller: Writer, keyed: ByKeyWithRow, new: NewSessionIn) -> Response:
    """Open a session. Its workspace is prepared and its prompt started when there is capacity."""
    made = created_response_for(caller)
    session = await flow.create(
        server_of(request).services,
        caller,
        await asyncio.to_thread(new_session, new),
        also=keyed.store_answer(lambda opened: made(opened.session)),
    )
    return made(session)


@routes.post("/check-session", status_code=204, operation_id="check_session")
async def check(request: Request, caller: Writer, new: NewSessionIn) -> Response:
    """Check a session before it is opened: the same refusals as when it is opened, and no session."""
    await flow.check_new(server_of(request).services, caller, await asyncio.to_thread(new_session, new))
    return Response(status_code=204)


@routes.get("/sessions", operation_id="list_sessions", response_model=Page[SessionOut])
async def listed(
    request: Request,
    caller: Reader,
    state: Annotated[
        list[SessionState] | None, Query(description="Only sessions in one of these states.")
    ] = None,
    q: Annotated[str, Query(max_length=500, description="Words in purpose, prompts or repository.")] = "",
    interviews: Annotated[bool, Query(description="Whether to list sessions of interviews too.")] = True,
    helpers: Annotated[bool, Query(description="Whether to list sessions of helpers too.")] = True,
    parent: Annotated[str, Query(max_length=80, description="Only the helpers of this session.")] = "",
    cursor: Cursor = "",
    limit: Limit = 50,
) -> Response:
    """The sessions that you may see, the newest first."""
    services = server_of(request).services
    which: dict[str, Any] = {"interviews": interviews, "helpers": helpers, "parent": parent}
    which |= {"states": set(state or ()), "text": search_words(q), "before": cursor}
    found = await flow.page(services, caller, limit=limit + 1, **which)
    more = found[limit - 1].session.id if found[limit:] else None
    return page(request, await sessions_json(services, caller, found[:limit]), more)


async def shown_json(services: Services, caller: Caller, session_id: str) -> dict[str, Any]:
    """One session as JSON, with its effective limits."""
    shown = await flow.show(services, caller, session_id)
    limits = await flow.effective_limits(services, shown.session)
    [found] = await sessions_json(services, caller, [shown], effective_limits=limits)
    return {**found, "erased_events": await services.log.count_erasures(shown.session.id)}


@routes.get("/sessions/{session_id}", operation_id="get_session", response_model=SessionOut)
async def show(request: Request, caller: Reader, session_id: str) -> Response:
    """One session."""
    return answer(await shown_json(server_of(request).services, caller, session_id))


@routes.delete("/sessions/{session_id}", status_code=204, operation_id="remove_session")
async def remove(
    request: Request, caller: Writer, authenticator: AuthenticatorDep, session_id: str
) -> Response:
    """End a session, delete its workspace, and remove it from all lists. Its log stays."""
    server = server_of(request)
    await session_removal_keeping_log.remove(server.services, caller, session_id)
    await authenticator.accounts.note(
        authenticator.actor(request.scope, caller), "session.removed", session_id
    )
    return Response(status_code=204)


def _fork_action(body: bytes) -> Action:
    """A fork of the current files takes a snapshot first; a fork of an older snapshot only reads."""
    fork = ForkIn.model_validate_json(body) if body.strip() not in (b"", b"null") else None
    return "read" if fork and fork.snapshot is not None else "input"


ByKeyToFork = Annotated[KeyedRequest, Depends(Key(atomic=True, action=_fork_action))]


@routes.post(
    "/sessions/{session_id}/fork", status_code=201, operation_id="fork_session", response_model=SessionOut
)
async def fork(
    request: Request, caller: Writer, keyed: ByKeyToFork, session_id: str, body: ForkIn | None = None
) -> Response:
    """Open a new session with the current files of this one, or with those of a snapshot."""
    options = body or ForkIn()
    made = created_response_for(caller)
    session = await fork_session(
        server_of(request).services,
        caller,
        session_id,
        snapshot=options.snapshot,
        conversation=options.conversation,
        also=keyed.store_answer(lambda opened: made(opened.session)),
    )
    return made(session)
