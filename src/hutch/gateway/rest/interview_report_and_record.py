"""The record of an interview, and what its assessors read: the report and the views of the AI's work."""

import asyncio
import tempfile
from pathlib import Path

from fastapi import Request, Response
from fastapi.responses import FileResponse
from starlette.background import BackgroundTask

from hutch.flows.interviews.interview_record import export_interview
from hutch.gateway.auth.caller_dependency import Reader
from hutch.gateway.rest.base_route import router
from hutch.gateway.rest.interviews import interviews_of
from hutch.gateway.rest.record_and_log_download import ZIP

routes = router("interviews")


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
