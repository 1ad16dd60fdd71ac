"""A new database, copied: to make one takes longer than most tests that need one."""

import os
from functools import cache
from pathlib import Path
from tempfile import TemporaryDirectory

from hutch.store.database import open_database


def place_database(data: Path) -> None:
    """Put a database without rows into a data directory that has none."""
    data.mkdir(parents=True, exist_ok=True, mode=0o700)
    file, draft = data / "hutch.db", data / f"hutch.db.{os.getpid()}"
    if not file.exists():
        draft.touch(mode=0o600)
        draft.write_bytes(_new_database())
        draft.rename(file)  # another process may look for it, and must not find half of it


@cache
def _new_database() -> bytes:
    with TemporaryDirectory() as place:
        file = Path(place) / "hutch.db"
        open_database(file).dispose()
        return file.read_bytes()
