"""Exports the record of an interview: its room and its workspaces in one file, as the caller may see them."""

import asyncio
import tempfile
from pathlib import Path

from hutch.domain.errors import HutchError
from hutch.domain.user import Caller
from hutch.flows.interviews.interview_access import allowed_in
from hutch.flows.interviews.interview_services import InterviewServices
from hutch.flows.sessions import allowed, reader_of
from hutch.store.interview_record_bundle import write_bundle
from hutch.store.record_export import export_record
from hutch.store.sessions import Sessions


async def export_interview(interviews: InterviewServices, who: Caller, interview_id: str, path: Path) -> None:
    """Write the record to `path`, a new file. Events that the caller may not see are left out, which the
    signatures state. Workspaces that the caller may not open are left out too."""
    interview, _ = await allowed_in(interviews, who, interview_id, "read")
    services = interviews.services
    workspaces = await interviews.rows.workspaces(interview.id)
    details: dict[str, dict[str, object]] = {
        each.session_id: {"number": each.number, "question": each.question, "language": each.language}
        for each in workspaces
    }
    folder = await asyncio.to_thread(tempfile.TemporaryDirectory, prefix="hutch-interview-")
    try:
        records: dict[str, Path] = {}
        for session_id in (interview.id, *details):
            try:
                session = await allowed(services, who, await Sessions(services.rows).get(session_id))
            except HutchError:
                if session_id == interview.id:
                    raise
                continue
            record = Path(folder.name) / f"{len(records)}.zip"
            reader = await reader_of(services, who, session)
            await export_record(services.log, session.id, record, reader, overwrite=False)
            records[session.id] = record
        withheld = [each for each in details if each not in records]
        await asyncio.to_thread(write_bundle, path, interview.id, records, details, withheld)
    finally:
        await asyncio.to_thread(folder.cleanup)
