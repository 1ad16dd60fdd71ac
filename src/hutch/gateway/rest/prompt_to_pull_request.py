"""`POST /api/code`: takes a repository and a prompt, streams the run, ends with a pull request."""

import re
from typing import Annotated

from fastapi import Header, Request, Response
from pydantic import ConfigDict, Field

from hutch.domain.run_limits import RunLimits
from hutch.domain.session import Delivery, NewSession, Session
from hutch.domain.user import Caller
from hutch.flows import prompt_to_pull_request_submission as flow
from hutch.gateway.auth.caller_dependency import Reader, Writer
from hutch.gateway.idempotency import ByKeyWithRow
from hutch.gateway.request_and_response_bodies import In, Out
from hutch.gateway.rest.base_route import router, server_of
from hutch.gateway.stream.stream_quota import stream_quota_of
from hutch.gateway.stream.submitted_run_stream import CodeResult, CodeStream
from hutch.store.session_creation import OpenedSession

routes = router("code", prefix="/api/code")

Short = Annotated[str, Field(max_length=2048)]
Accept = Annotated[str, Header(description="`text/event-stream`, or `application/json` to wait for the end.")]
WEIGHT = re.compile(r"q\s*=\s*(0(?:\.[0-9]{0,3})?|1(?:\.0{0,3})?)")
STREAM = {"text/event-stream": {"schema": {"type": "string"}}}


class CodeIn(In):
    """A repository and a prompt."""

    model_config = ConfigDict(
        json_schema_extra={
            "examples": [
                {
                    "repoUrl": "https://github.com/example/project",
                    "prompt": "Add input validation to all POST endpoints.",
                }
            ]
        }
    )

    repoUrl: Annotated[str, Field(min_length=1, max_length=2048)]
    prompt: Annotated[str, Field(min_length=1, max_length=200_000)]
    branch: Short = Field("", description="The branch to start from, and the base of the pull request.")
    persona: Annotated[str, Field(max_length=100)] = ""
    model: Annotated[str, Field(max_length=500)] = Field("", description="`provider:name`.")
    title: Annotated[str, Field(max_length=200)] = Field("", description="The title of the pull request.")
    draft: bool = False
    labels: list[Annotated[str, Field(min_length=1, max_length=50)]] = Field(
        default_factory=list, max_length=20
    )
    reviewers: list[Annotated[str, Field(min_length=1, max_length=100)]] = Field(
        default_factory=list, max_length=20
    )
    maxCost: float | None = Field(None, gt=0, description="US dollars.")
    timeoutSeconds: float | None = Field(
        None, gt=0, description="The maximum duration of the run, including waiting for answers."
    )
    tests: Short = Field("", description="The test command that decides whether the result is delivered.")
    plainDirectory: bool = Field(
        False, description="Whether `repoUrl` may be a directory without git, which is copied."
    )


class PullRequestOut(Out):
    """The pull request with the result."""

    url: str
    changeId: str
    branch: str | None = None
    base: str | None = None
    title: str | None = None


class TestsOut(Out):
    """The last test result."""

    command: str
    ok: bool
    passed: int
    failed: int
    skipped: int
    reason: str = Field(description="Why they did not pass, if the counts do not say it.")


class UsageOut(Out):
    """Tokens, cost and time of the run."""

    turns: int
    inputTokens: int
    cachedTokens: int
    outputTokens: int
    costUsd: float | None
    durationSeconds: float


class CodeOut(Out):
    """The result of the run."""

    run: str
    session: str
    outcome: str = Field(
        description="`done`, `nothing`, `not_delivered`, or the outcome of the run; `unfinished` if the "
        "response ends before the run: send GET again."
    )
    message: str
    pullRequest: PullRequestOut | None
    diff: str | None
    tests: TestsOut | None
    usage: UsageOut | None


def redirect_to_run(opened: OpenedSession) -> Response:
    """303 to the existing run, for a repeated idempotency key."""
    return Response(status_code=303, headers={"Location": f"{routes.prefix}/{opened.run.id}"})


@routes.post(
    "",
    operation_id="change_code",
    response_model=CodeOut,
    responses={
        200: {"description": "A stream, or the result.", "content": STREAM},
        303: {"description": "The same request with the same key: Location is the stream of its run."},
    },
)
async def submit(
    request: Request, caller: Writer, keyed: ByKeyWithRow, new: CodeIn, accept: Accept = ""
) -> Response:
    """Have an agent change a repository. Disconnecting does not stop it: `Location` names the run.

    The frames `question` and `approval` say that the run waits for an answer: POST one of their `answers` to
    their `answerUrl`.
    """
    stream_quota_of(request.app).check(caller)  # before the run is created
    new_session = NewSession(
        repository=new.repoUrl,
        prompt=new.prompt,
        plain_directory=new.plainDirectory,
        revision=new.branch,
        persona=new.persona,
        model=new.model,
        limits=RunLimits(cost_usd=new.maxCost, timeout_s=new.timeoutSeconds),
        delivery=Delivery(
            title=new.title,
            branch=new.branch,
            draft=new.draft,
            labels=tuple(new.labels),
            reviewers=tuple(new.reviewers),
            tests=new.tests,
        ),
    )
    session, run = await flow.submit(
        server_of(request).services, caller, new_session, also=keyed.store_answer(redirect_to_run)
    )
    return _answer(caller, session, run.id, accept)


@routes.get(
    "/{run_id}",
    operation_id="follow_code",
    response_model=CodeOut,
    responses={200: {"description": "A stream, or the result.", "content": STREAM}},
)
async def follow(request: Request, caller: Reader, run_id: str, accept: Accept = "") -> Response:
    """The stream of a run, after the frame that `Last-Event-ID` names."""
    session, run = await flow.find(server_of(request).services, caller, run_id)
    return _answer(caller, session, run.id, accept)


@routes.delete("/{run_id}", status_code=204, operation_id="cancel_code")
async def cancel(request: Request, caller: Writer, run_id: str) -> Response:
    """Cancel a run. A delivered change stays."""
    await flow.cancel(server_of(request).services, caller, run_id)
    return Response(status_code=204)


def _answer(caller: Caller, session: Session, run_id: str, accept: str) -> Response:
    """The stream, or the result if the client prefers JSON."""
    waits = _weight(accept, "application/json") > _weight(accept, "text/event-stream")
    return CodeResult(caller, session, run_id) if waits else CodeStream(caller, session, run_id)


def _weight(accept: str, media_type: str) -> float:
    """The q value of a media type; 0 if it is not accepted."""
    for each in accept.lower().split(","):
        name, *parameters = (part.strip() for part in each.split(";"))
        if name == media_type:
            weights = (WEIGHT.fullmatch(parameter) for parameter in parameters)
            return next((float(found[1]) for found in weights if found), 1.0)
    return 0.0
