"""Exports the record of a session to a file that a third party can verify."""

from pathlib import Path

from hutch.domain.ids import SessionId
from hutch.domain.log_entry_audience import Reader
from hutch.store.event_log_interface import ErasedMeanwhile, EventLog, Evidence
from hutch.store.log_damage_check import damaged_log
from hutch.store.record_zip_writer import write_record


async def export_record(
    log: EventLog,
    session_id: SessionId,
    path: Path,
    reader: Reader,
    *,
    overwrite: bool,
    damaged: bool = False,
) -> Evidence:
    """Write the record of a session, as this reader may see it, to `path`.

    An incomplete log is refused, unless `damaged`: then the rest of it is written.
    """
    try:
        return await _export(log, session_id, path, reader, overwrite=overwrite, damaged=damaged)
    except ErasedMeanwhile:
        return await _export(log, session_id, path, reader, overwrite=overwrite, damaged=damaged)


async def _export(
    log: EventLog, session_id: SessionId, path: Path, reader: Reader, *, overwrite: bool, damaged: bool
) -> Evidence:
    async with log.evidence(session_id, reader) as evidence:
        if evidence.defects and not damaged:
            raise damaged_log(session_id, evidence.defects)
        await write_record(
            path,
            session_id=session_id,
            records=evidence.records,
            statements=evidence.statements,
            public_keys=evidence.public_keys,
            overwrite=overwrite,
        )
        return evidence
