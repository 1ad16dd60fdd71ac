"""The report about each egress attempt, and the limits of the proxy."""

from collections.abc import Callable
from datetime import datetime

from hutch.system.lazy_dataclass import dataclass


@dataclass(frozen=True, slots=True)
class EgressAttempt:
    """One request to reach a host.

    A denied attempt is reported once. An allowed one is reported when it is let through and again, under
    the same number, when it has ended. It counts as denied after all when the tunnel turned out to be for
    another host.
    """

    number: int  # from 1 in one proxy; a gap is a connection without a request
    at: datetime
    method: str  # empty, like host, when the request could not be read
    host: str
    port: int
    allowed: bool
    reason: str
    address: str = ""  # the one that was connected to
    bytes_up: int = 0  # to the host, counted at its socket
    bytes_down: int = 0
    duration_s: float | None = None  # None until it has ended


Report = Callable[[EgressAttempt], None]


@dataclass(frozen=True, slots=True)
class EgressLimits:
    """Limits of one jail's proxy; connections beyond the maximum wait in the kernel's queue."""

    connections: int = 64
    attempts_per_s: float = 100.0  # beyond a burst as large as two seconds, so that reports stay countable
    head_bytes: int = 64 * 1024
    head_timeout_s: float = 10.0
    resolve_timeout_s: float = 10.0
    connect_timeout_s: float = 10.0
    idle_timeout_s: float = 300.0  # without a byte in either direction
