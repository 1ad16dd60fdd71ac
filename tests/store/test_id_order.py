"""Ids rise from one process to the next, also when the clock was set back in between."""

import sys
from pathlib import Path

import pytest

from tests.forked_command import PLAIN, run

NEXT = """
import asyncio, sys
from pathlib import Path
from hutch.domain.ids import new_run_id, new_session_id
from hutch.domain.session import QueuedRun, Session
from hutch.store.event_log import open_log
from hutch.store.run_queue import Runs, add_run
from hutch.store.sessions import add_session
from hutch.store.users import Users

async def main(home, ahead):
    async with open_log(home / "db", home / "blobs", home / "key") as log:
        session = Session(id=new_session_id(), owner="ada", created_ms=0, updated_ms=0)
        run = QueuedRun(id=new_run_id(), session_id=session.id, owner="ada", prompt="x", queued_ms=0)
        await log.change(lambda rows: (add_session(rows, session), add_run(rows, run)))
        await Users(log).add(f"user{ahead}", "owner")
        queue = await Runs(log).queue_positions([run.id])
        print(queue[run.id], [user.name for user in await Users(log).list()])
        # As if all of this had been made with the clock ahead by so much.
        for table in ("runs", "users"):
            later = f"UPDATE {table} SET id = substr(id, 1, 4) || ? || substr(id, 7)"
            await log.change(lambda rows: rows.exec_driver_sql(later, (ahead,)) and None)

asyncio.run(main(Path(sys.argv[1]), sys.argv[2]))
"""


def _process(home: Path, ahead: str) -> str:
    ran = run(
        [sys.executable, "-c", NEXT, str(home), ahead],
        env=PLAIN,
        capture_output=True,
        text=True,
        check=True,
        timeout=120,
    )
    return ran.stdout.strip()


@pytest.mark.parametrize("ahead", ["02", "1z"])
def test_what_is_made_after_the_clock_was_set_back_is_still_the_newest(tmp_path: Path, ahead: str) -> None:
    assert _process(tmp_path, ahead) == f"1 ['user{ahead}']"
    assert _process(tmp_path, "03") == f"2 ['user{ahead}', 'user03']"
