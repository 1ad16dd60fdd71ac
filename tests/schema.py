"""A new database, copied: to make one takes longer than most tests that need one."""

from functools import cache
from pathlib import Path
from tempfile import TemporaryDirectory

from hutch.store.database import open_database


def place_database(data: Path) -> None:
    """Put a database without rows into a data directory that has none."""
    data.mkdir(parents=True, exist_ok=True, mode=0o700)
    file = data / "hutch.db"
    if not file.exists():
        file.touch(mode=0o600)
        file.write_bytes(_new_database())


@cache
def _new_database() -> bytes:
    with TemporaryDirectory() as place:
        file = Path(place) / "hutch.db"
        open_database(file).dispose()
        return file.read_bytes()
