"""Failed login attempts, as rows, so that they survive a restart.

Keys are stored as hashes: users sometimes type a password as a name, and an
unauthenticated caller must control neither the size nor the content of a row.
"""

import hashlib
from collections.abc import Sequence

from sqlalchemy import Connection, delete, insert, select, update

from hutch.store.schema import login_attempts
from hutch.store.table_access_interface import Rows
from hutch.system.clock_without_jumps import STEADY, SteadyClock
from hutch.system.lazy_dataclass import dataclass

RETENTION_MS = 24 * 3600 * 1000


@dataclass(frozen=True, slots=True)
class Meter:
    """A counter: the first `free` failures cost nothing, then the wait doubles up to `max_wait_s`."""

    name: str
    free: int
    max_wait_s: int

    @property
    def key(self) -> str:
        return hashlib.sha256(self.name.encode(errors="surrogatepass")).hexdigest()

    def wait_ms(self, failures: int) -> int:
        if failures <= self.free:
            return 0
        return 1000 * min(self.max_wait_s, 1 << min(failures - self.free - 1, 30))


class LoginAttempts:
    """Counts each attempt before it is made, and removes it from the count if it succeeds."""

    def __init__(self, rows: Rows, clock: SteadyClock = STEADY) -> None:
        self._rows = rows
        self._clock = clock

    async def begin(self, meters: Sequence[Meter]) -> int:
        """Count one attempt on each meter and return 0.

        If a meter still requires waiting, count nothing and return the time to wait in ms.

        Counting first limits concurrent attempts, too.
        """
        return await self._rows.change(lambda db: _begin(db, meters, self._clock.now_ms()))

    async def record_success(self, forgiven: Sequence[Meter], uncounted: Sequence[Meter] = ()) -> None:
        """Delete the failures on `forgiven`, and subtract this attempt from `uncounted`."""

        def change(db: Connection) -> None:
            for meter in forgiven:
                db.execute(delete(login_attempts).where(login_attempts.c.key == meter.key))
            for meter in uncounted:
                db.execute(
                    update(login_attempts)
                    .where(login_attempts.c.key == meter.key, login_attempts.c.failures > 0)
                    .values(failures=login_attempts.c.failures - 1, until_ms=0)
                )

        await self._rows.change(change)


def _begin(db: Connection, meters: Sequence[Meter], now_ms: int) -> int:
    db.execute(delete(login_attempts).where(login_attempts.c.last_ms < now_ms - RETENTION_MS))
    # The clock was set back: restart the waits, instead of waiting until the clock has caught up.
    left_ms = login_attempts.c.until_ms - login_attempts.c.last_ms
    ahead = update(login_attempts).where(login_attempts.c.last_ms > now_ms)
    db.execute(ahead.values(last_ms=now_ms, until_ms=now_ms + left_ms))
    found = {
        meter.key: db.execute(
            select(login_attempts.c.failures, login_attempts.c.until_ms).where(
                login_attempts.c.key == meter.key
            )
        ).first()
        for meter in meters
    }
    waits = [row.until_ms - now_ms for row in found.values() if row and row.until_ms > now_ms]
    if waits:
        return int(max(waits))
    for meter in meters:
        row = found[meter.key]
        failures = (row.failures if row else 0) + 1
        values = {"failures": failures, "last_ms": now_ms, "until_ms": now_ms + meter.wait_ms(failures)}
        if row:
            db.execute(update(login_attempts).where(login_attempts.c.key == meter.key).values(values))
        else:
            db.execute(insert(login_attempts).values(key=meter.key, **values))
    return 0
