"""The log of a session in one file: as a record that anyone can verify, with receipts, or as JSON Lines."""

import asyncio
import tempfile
from pathlib import Path

from fastapi import Request, Response
from fastapi.responses import FileResponse, StreamingResponse
from pydantic import Field
from starlette.background import BackgroundTask

from hutch.flows.json_lines_log_export import json_lines
from hutch.flows.sessions import allowed, reader_of
from hutch.gateway.auth.caller_dependency import Reader
from hutch.gateway.request_and_response_bodies import Out, answer
from hutch.gateway.rest.base_route import router, server_of
from hutch.store.log_damage_check import damaged_log
from hutch.store.record_export import export_record as write_record

routes = router("record")

ZIP = "application/zip"
JSON_LINES = "application/x-ndjson"


class ReceiptOut(Out):
    """A signed statement of a log's head, to store elsewhere."""

    kind: str
    session: str
    seq: int
    hash: str
    at_ms: int
    reason: str
    key: str = Field(description="The fingerprint of the key that signed.")
    signature: str = Field(description="Ed25519, in base64; docs/record.md defines the signed bytes.")


@routes.get(
    "/sessions/{session_id}/record",
    operation_id="export_record",
    response_class=Response,
    responses={
        200: {
            "description": "A record.",
            "content": {ZIP: {"schema": {"type": "string", "format": "binary"}}},
        }
    },
)
async def export_record(request: Request, caller: Reader, session_id: str) -> Response:
    """The whole log with its signatures as one file: `hutch verify` checks it offline.

    Events that you may not see are omitted, which the signatures state.
    """
    server = server_of(request)
    session = await allowed(server.services, caller, session_id)
    folder = await asyncio.to_thread(tempfile.TemporaryDirectory, prefix="hutch-record-")
    try:
        path = Path(folder.name) / f"{session.id}.zip"
        reader = await reader_of(server.services, caller, session)
        await write_record(server.log, session.id, path, reader, overwrite=False)
    except BaseException:
        folder.cleanup()
        raise
    return FileResponse(path, filename=path.name, media_type=ZIP, background=BackgroundTask(folder.cleanup))


@routes.get(
    "/sessions/{session_id}/events.jsonl",
    operation_id="export_events",
    response_class=Response,
    responses={
        200: {
            "description": "One entry per line.",
            "content": {JSON_LINES: {"schema": {"type": "string", "format": "binary"}}},
        }
    },
)
async def export_events(request: Request, caller: Reader, session_id: str) -> Response:
    """The whole log as JSON Lines: each line is an entry with `seq`, `at_ms`, `hash`, `author` and `event`.

    Erased events, and those that you may not see, are marked as on a page of events.
    """
    server = server_of(request)
    session = await allowed(server.services, caller, session_id)
    reader = await reader_of(server.services, caller, session)
    if defects := await server.log.defects(session.id):
        raise damaged_log(session.id, defects)
    return StreamingResponse(
        json_lines(server.log, session.id, reader),
        media_type=JSON_LINES,
        headers={"Content-Disposition": f'attachment; filename="{session.id}.jsonl"'},
    )


@routes.get("/sessions/{session_id}/receipt", operation_id="get_receipt", response_model=ReceiptOut)
async def receipt(request: Request, caller: Reader, session_id: str) -> Response:
    """Sign the present head of the log. A record that is truncated or rewritten later contradicts it."""
    server = server_of(request)
    session = await allowed(server.services, caller, session_id)
    return answer((await server.log.receipt(session.id)).to_json())
