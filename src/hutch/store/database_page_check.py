"""Checks the pages of a database before a server starts.

SQLite notices an overwritten page only when it reads that page, which may be weeks later.
Its quick check reads all pages, so it is interrupted after a timeout for a large database.
"""

import sqlite3
import time
from contextlib import closing
from pathlib import Path

import structlog

from hutch.store.database import BUSY_TIMEOUT_S, translate_errors

CHECK_TIMEOUT_S = 3.0
STEPS_PER_CLOCK_CHECK = 10_000  # instructions of SQLite's virtual machine

logger = structlog.get_logger()


def check_integrity(path: Path, within_s: float = CHECK_TIMEOUT_S) -> None:
    """Raise `DatabaseDamaged` if the check finds damage before the timeout. Blocks the thread."""
    until = time.monotonic() + within_s
    uri = f"{path.absolute().as_uri()}?mode=ro"
    with (
        translate_errors(path),
        closing(sqlite3.connect(uri, uri=True, timeout=BUSY_TIMEOUT_S)) as connection,
    ):
        connection.set_progress_handler(lambda: time.monotonic() > until, STEPS_PER_CLOCK_CHECK)
        try:
            (verdict,) = connection.execute("PRAGMA quick_check(1)").fetchone()
        except sqlite3.OperationalError as error:
            if "interrupted" not in str(error):
                raise
            logger.warning("store.not_checked_whole", path=str(path), within_s=within_s)
            return
        if verdict != "ok":
            damage = sqlite3.DatabaseError(" ".join(str(verdict).split()))
            damage.sqlite_errorcode = sqlite3.SQLITE_CORRUPT
            raise damage
