"""Notes, messages, ratings, events of clients, and hidden tests of an interview."""

from typing import Annotated, Any

import orjson
from fastapi import Request, Response
from pydantic import AfterValidator, Field

from hutch.domain.interview_events import ClientEvent
from hutch.flows.interviews import notes_messages_and_ratings as flow
from hutch.flows.interviews.code_measurement import measure_code_now
from hutch.flows.interviews.hidden_test_runs import run_hidden_now
from hutch.flows.interviews.notes_messages_and_ratings import ClientEventType
from hutch.gateway.auth.caller_dependency import Reader
from hutch.gateway.request_and_response_bodies import MAX_SIZE, Id, In, Out, answer
from hutch.gateway.rest.base_route import router
from hutch.gateway.rest.interviews import interviews_of

routes = router("interviews")

MAX_CLIENT_EVENT_BYTES = 65_536
Words = Annotated[str, Field(min_length=1, max_length=20_000)]
Comment = Annotated[str, Field(max_length=20_000)]
Number = Annotated[int, Field(ge=1, le=100, description="Of the question, from 1.")]


class Recorded(Out):
    """The number of the event in the interview's log."""

    seq: int


class NoteIn(In):
    text: Words
    workspace: Id = Field("", description="A workspace of the interview; empty: the current one.")
    seq: int = Field(0, ge=0, le=MAX_SIZE, description="An event of its log; 0: the newest.")


class MessageIn(In):
    text: Words
    private: bool = Field(False, description="For the owner's side only.")


class RatingIn(In):
    number: Number
    criterion: Annotated[str, Field(min_length=1, max_length=200)]
    points: int | None = Field(ge=1, le=flow.MAX_POINTS, description="null takes a rating back.")
    comment: Comment = ""


class MarkIn(In):
    number: Number
    mark: Annotated[str, Field(min_length=1, max_length=40)]
    points: int | None = Field(ge=0, le=2, description="null takes the correction back.")
    comment: Comment = ""


def _is_small(data: dict[str, Any]) -> dict[str, Any]:
    if len(orjson.dumps(data)) > MAX_CLIENT_EVENT_BYTES:
        raise ValueError(f"An event has at most {MAX_CLIENT_EVENT_BYTES} bytes of data")
    return data


class ClientEventIn(In):
    type: ClientEventType
    timestamp: Annotated[str, Field(max_length=40)] = Field("", description="By the client's clock.")
    data: Annotated[dict[str, Any], AfterValidator(_is_small)] = Field(default_factory=dict)


class BatchIn(In):
    events: list[ClientEventIn] = Field(min_length=1, max_length=500)


@routes.post("/interviews/{interview_id}/notes", status_code=201)
async def write_note(request: Request, caller: Reader, interview_id: str, body: NoteIn) -> Recorded:
    """Write a private note on the timeline; candidates and observers never see it."""
    interviews = interviews_of(request)
    seq = await flow.write_note(
        interviews, caller, interview_id, body.text, workspace=body.workspace, seq=body.seq
    )
    return Recorded(seq=seq)


@routes.post("/interviews/{interview_id}/messages", status_code=201)
async def send_interview_message(
    request: Request, caller: Reader, interview_id: str, body: MessageIn
) -> Recorded:
    """Send a message to everyone in the room, or to the owner's side only."""
    seq = await flow.send_message(
        interviews_of(request), caller, interview_id, body.text, private=body.private
    )
    return Recorded(seq=seq)


@routes.post("/interviews/{interview_id}/ratings", status_code=201)
async def give_rating(request: Request, caller: Reader, interview_id: str, body: RatingIn) -> Recorded:
    """Rate a criterion of a question's rubric. Your later rating of it replaces an earlier one."""
    seq = await flow.rate(
        interviews_of(request),
        caller,
        interview_id,
        number=body.number,
        criterion=body.criterion,
        points=body.points,
        comment=body.comment,
    )
    return Recorded(seq=seq)


@routes.post("/interviews/{interview_id}/marks", status_code=201)
async def override_mark(request: Request, caller: Reader, interview_id: str, body: MarkIn) -> Recorded:
    """Replace a computed mark for prompts by your own."""
    seq = await flow.override_mark(
        interviews_of(request),
        caller,
        interview_id,
        number=body.number,
        mark=body.mark,
        points=body.points,
        comment=body.comment,
    )
    return Recorded(seq=seq)


@routes.post("/interviews/{interview_id}/events/batch", status_code=201)
async def report_client_events(
    request: Request, caller: Reader, interview_id: str, body: BatchIn
) -> Recorded:
    """Report events of the candidate's client, such as focus and paste. They are shown with context."""
    events = [ClientEvent(type=each.type, timestamp=each.timestamp, data=each.data) for each in body.events]
    seq = await flow.report_client_events(interviews_of(request), caller, interview_id, events)
    return Recorded(seq=seq)


@routes.post("/interviews/{interview_id}/hidden-tests")
async def run_hidden_tests(request: Request, caller: Reader, interview_id: str) -> Response:
    """Run the hidden tests on a copy of the present work, in other jails. For the owner's side."""
    return answer(await run_hidden_now(interviews_of(request), caller, interview_id))


@routes.post("/interviews/{interview_id}/code-measurement")
async def measure_code(request: Request, caller: Reader, interview_id: str) -> Response:
    """Run the linter on a copy of the present work, and measure its complexity. For the owner's side."""
    return answer(await measure_code_now(interviews_of(request), caller, interview_id))
