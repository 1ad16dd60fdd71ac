"""The record of an interview, and what its assessors read: the report and the views of the AI's work."""

import asyncio
import base64
import hashlib
import tempfile
from pathlib import Path
from typing import Annotated, Any

from fastapi import Query, Request, Response
from fastapi.responses import FileResponse
from starlette.background import BackgroundTask

from hutch.flows.interviews.ai_session_views import ai_sessions, interaction_quality
from hutch.flows.interviews.candidate_comparison import compare_candidates
from hutch.flows.interviews.interview_record import export_interview
from hutch.flows.interviews.interview_report import make_report
from hutch.flows.interviews.report_page import STYLE, report_page
from hutch.gateway.auth.caller_dependency import Reader
from hutch.gateway.rest.base_route import router
from hutch.gateway.rest.interviews import interviews_of
from hutch.gateway.rest.record_and_log_download import ZIP

routes = router("interviews")

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
async def get_interview_report_page(request: Request, caller: Reader, interview_id: str) -> Response:
    """The report as a page."""
    report = await make_report(interviews_of(request), caller, interview_id)
    return Response(report_page(report), media_type="text/html; charset=utf-8", headers=PAGE_HEADERS)


@routes.get("/interviews/{interview_id}/ai-sessions")
async def list_ai_sessions(request: Request, caller: Reader, interview_id: str) -> list[dict[str, Any]]:
    """The AI's part of each workspace, as rows `ai_session`. For the owner's side."""
    return await ai_sessions(interviews_of(request), caller, interview_id)


@routes.get("/interviews/{interview_id}/ai-interaction-quality")
async def list_ai_interaction_quality(
    request: Request, caller: Reader, interview_id: str
) -> list[dict[str, Any]]:
    """Marks and measures of the work with the AI, as rows `ai_interaction_quality`. For the owner's side."""
    return await interaction_quality(interviews_of(request), caller, interview_id)


@routes.get("/interview-comparison")
async def compare_interviews(
    request: Request, caller: Reader, question: Annotated[str, Query(min_length=1, max_length=60)]
) -> list[dict[str, Any]]:
    """Compare candidates on one question: a row for each ended interview that you may assess. No totals."""
    return await compare_candidates(interviews_of(request), caller, question)
