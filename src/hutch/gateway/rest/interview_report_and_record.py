"""The record of an interview, and what its assessors read: the report and the views of the AI's work."""

import asyncio
import base64
import hashlib
import tempfile
from datetime import datetime
from pathlib import Path
from typing import Annotated, Any
from uuid import UUID

from fastapi import Query, Request, Response
from fastapi.responses import FileResponse
from pydantic import Field
from starlette.background import BackgroundTask

from hutch.flows.interviews.ai_interaction_quality_rows import ai_sessions, interaction_quality
from hutch.flows.interviews.candidate_comparison import compare_candidates
from hutch.flows.interviews.interview_record_export import export_interview
from hutch.flows.interviews.interview_report import make_report
from hutch.flows.interviews.report_content import report_content
from hutch.flows.interviews.report_page import STYLE, report_page
from hutch.flows.interviews.report_pdf import report_pdf
from hutch.gateway.auth.authenticator import Authenticator
from hutch.gateway.auth.browser_login import base_url
from hutch.gateway.auth.caller_dependency import AuthenticatorDep, Reader
from hutch.gateway.request_and_response_bodies import Out
from hutch.gateway.rest.base_route import router
from hutch.gateway.rest.interviews import interviews_of
from hutch.gateway.rest.record_and_log_download import ZIP

routes = router("interviews")
PDF = "application/pdf"


class AiSessionRow(Out):
    """A row of `ai_session`: the AI's part of one workspace."""

    id: UUID = Field(description="The number in the id of the workspace, as a UUID.")
    sessionRecordingId: UUID = Field(description="The number in the id of the interview, as a UUID.")
    initialHelpfulness: str | None = Field(description="Null without an AI.")
    currentHelpfulness: str | None
    autoEscalationTime: datetime | None = Field(
        description="Of the first proposal of more help, if accepted."
    )
    proactiveSuggestionsCount: int
    autonomousTestRuns: int
    fileModificationsCount: int
    averageLatency: float | None = Field(description="Seconds until a reply was complete; null without one.")
    totalTokensUsed: int
    createdAt: datetime
    updatedAt: datetime
    workspace: str = Field(description="The id of the workspace.")


class AiInteractionQualityRow(Out):
    """A row of `ai_interaction_quality`: one mark or measure of an AI session."""

    id: UUID = Field(description="The same for the same session and type at each reading.")
    aiSessionId: UUID
    metricType: str
    score: float | None = Field(description="Null if there was nothing to judge. Marks are from 0 to 2.")
    description: str
    timestamp: datetime


_STYLE_HASH = base64.b64encode(hashlib.sha256(STYLE.encode()).digest()).decode()
PAGE_HEADERS = {
    "Content-Security-Policy": f"default-src 'none'; style-src 'sha256-{_STYLE_HASH}'; base-uri 'none'; "
    "form-action 'none'; frame-ancestors 'none'",
    "Cache-Control": "no-store",
}


@routes.get(
    "/interviews/{interview_id}/record",
    response_class=Response,
    responses={
        200: {
            "description": "The record of an interview.",
            "content": {ZIP: {"schema": {"type": "string", "format": "binary"}}},
        }
    },
)
async def export_interview_record(request: Request, caller: Reader, interview_id: str) -> Response:
    """The logs of the room and of all workspaces in one file; `hutch verify` checks it offline.

    Events that you may not see are omitted, which the signatures state.
    """
    folder = await asyncio.to_thread(tempfile.TemporaryDirectory, prefix="hutch-record-")
    path = Path(folder.name) / "interview.zip"
    try:
        await export_interview(interviews_of(request), caller, interview_id, path)
    except BaseException:
        folder.cleanup()
        raise
    return FileResponse(
        path, filename=f"{interview_id}.zip", media_type=ZIP, background=BackgroundTask(folder.cleanup)
    )


@routes.get("/interviews/{interview_id}/report")
async def get_interview_report(request: Request, caller: Reader, interview_id: str) -> dict[str, Any]:
    """The facts about an interview, each with the events that show it. For the owner's side."""
    return await make_report(interviews_of(request), caller, interview_id)


@routes.get(
    "/interviews/{interview_id}/report.html",
    response_class=Response,
    responses={200: {"description": "A page to read or print.", "content": {"text/html": {}}}},
)
async def get_interview_report_page(
    request: Request, caller: Reader, interview_id: str, authenticator: AuthenticatorDep
) -> Response:
    """The report as a page."""
    report = await make_report(interviews_of(request), caller, interview_id)
    page = report_page(report["title"], report_content(report), _base(authenticator, request))
    return Response(page, media_type="text/html; charset=utf-8", headers=PAGE_HEADERS)


@routes.get(
    "/interviews/{interview_id}/report.pdf",
    response_class=Response,
    responses={
        200: {
            "description": "A document to keep or send.",
            "content": {PDF: {"schema": {"type": "string", "format": "binary"}}},
        }
    },
)
async def get_interview_report_document(
    request: Request, caller: Reader, interview_id: str, authenticator: AuthenticatorDep
) -> Response:
    """The report as a PDF."""
    report = await make_report(interviews_of(request), caller, interview_id)
    document = await report_pdf(report["title"], report_content(report), _base(authenticator, request))
    headers = {
        "Content-Disposition": f'attachment; filename="report-{report["interview"]}.pdf"',
        "Cache-Control": "no-store",
    }
    return Response(document, media_type=PDF, headers=headers)


def _base(authenticator: Authenticator, request: Request) -> str:
    """The address of the server for links, which are also read far from it."""
    return base_url(authenticator, request.scope)


@routes.get("/interviews/{interview_id}/ai-sessions")
async def list_ai_sessions(request: Request, caller: Reader, interview_id: str) -> list[AiSessionRow]:
    """The AI's part of each workspace, as rows `ai_session`. For the owner's side."""
    rows = await ai_sessions(interviews_of(request), caller, interview_id)
    return [AiSessionRow(**each) for each in rows]


@routes.get("/interviews/{interview_id}/ai-interaction-quality")
async def list_ai_interaction_quality(
    request: Request, caller: Reader, interview_id: str
) -> list[AiInteractionQualityRow]:
    """Marks and measures of the work with the AI, as rows `ai_interaction_quality`. For the owner's side."""
    rows = await interaction_quality(interviews_of(request), caller, interview_id)
    return [AiInteractionQualityRow(**each) for each in rows]


@routes.get("/interview-comparison")
async def compare_interviews(
    request: Request, caller: Reader, question: Annotated[str, Query(min_length=1, max_length=60)]
) -> list[dict[str, Any]]:
    """Compare candidates on one question: a row for each ended interview that you may assess. No totals."""
    return await compare_candidates(interviews_of(request), caller, question)
