"""Finds runs by the names that users give, and reads the logs of their sessions."""

from hutch.domain.errors import NotFound
from hutch.domain.events import Entry
from hutch.domain.ids import SessionId
from hutch.domain.log_entry_audience import PUBLIC, filter_entry
from hutch.store.event_log_interface import EventLog
from hutch.store.proposed_changes import Changes
from hutch.store.run_queue import Runs
from hutch.store.short_id_lookup import find_work_id
from hutch.store.table_access_interface import Rows


async def find_run_id(rows: Rows, name: str) -> str:
    """A run by its id, its session's or its change's, each of which may be shortened; or `last`."""
    whole = "last" if name == "last" else await find_work_id(rows, name) or name
    if whole.startswith("chg_"):
        whole = (await Changes(rows).find(whole)).run_id
    if whole.startswith("run_"):
        return whole
    found = await Runs(rows).page(session_ids=None if whole == "last" else [whole], limit=1)
    if not found:
        raise NotFound(f"There is no run '{name}'. `hutch log` lists the sessions.")
    return found[0].id


async def read_log(log: EventLog, session_id: SessionId) -> list[Entry]:
    """The whole log, as everyone in the session may see it."""
    found: list[Entry] = []
    has_more = True
    while has_more:
        page, has_more = await log.page(session_id, after=found[-1].seq if found else 0)
        found += [filter_entry(entry, PUBLIC) for entry in page]
    return found
