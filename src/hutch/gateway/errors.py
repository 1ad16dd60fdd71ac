"""The one table of what clients are told when something goes wrong: status, title, code.

Programs match on `code`. Those of the five families are the families' own; the rest
are about HTTP itself and exist only here.
"""

from dataclasses import dataclass
from http import HTTPStatus

from hutch.domain.errors import (
    BadRequest,
    Conflict,
    Denied,
    HutchError,
    LimitReached,
    NotFound,
    RecordDamaged,
    TooManyRequests,
    Unauthenticated,
    Unavailable,
)


@dataclass(frozen=True, slots=True)
class Told:
    """How a kind of error is told."""

    status: int
    code: str

    @property
    def title(self) -> str:
        return HTTPStatus(self.status).phrase


class PreconditionFailed(Conflict):
    """What the caller took for granted is not so: the file has changed, or is there already."""

    code = "precondition_failed"


class RangeNotSatisfiable(BadRequest):
    """The file has no such bytes."""

    code = "range_not_satisfiable"

    def __init__(self, message: str, *, size: int) -> None:
        super().__init__(message)
        self.size = size


class KeyReused(BadRequest):
    """An idempotency key came with another request than the one it was first used for."""

    code = "key_reused"


FAMILIES: dict[type[HutchError], Told] = {
    BadRequest: Told(400, "bad_request"),
    NotFound: Told(404, "not_found"),
    Conflict: Told(409, "conflict"),
    PreconditionFailed: Told(412, "precondition_failed"),
    RangeNotSatisfiable: Told(416, "range_not_satisfiable"),
    KeyReused: Told(422, "key_reused"),
    Denied: Told(403, "denied"),
    Unauthenticated: Told(401, "unauthenticated"),
    LimitReached: Told(429, "limit_reached"),
    TooManyRequests: Told(429, "too_many_requests"),
    Unavailable: Told(503, "unavailable"),
    RecordDamaged: Told(503, "record_damaged"),
}
LIMITS: dict[str, int] = {  # by what is too much; whatever is not here is asked for too often
    "disk": 507,
    "sessions.log_bytes": 507,
    "workspace.quota_bytes": 507,
    "workspace.quota_files": 507,
    "workspace.snapshot_entries": 507,
    "workspace.snapshot_path_bytes": 507,
    "server.body_bytes": 413,
    "event_bytes": 413,
    "output_bytes": 413,
}
INVALID = Told(422, "invalid")  # the fields that are wrong are in `errors`
INTERNAL = Told(500, "internal")
OF_HTTP: dict[int, Told] = {
    400: Told(400, "bad_request"),
    404: Told(404, "not_found"),
    405: Told(405, "method_not_allowed"),
    406: Told(406, "not_acceptable"),
    415: Told(415, "unsupported_media_type"),
    502: Told(502, "bad_gateway"),  # what a program in a jail answered, through a preview
    504: Told(504, "gateway_timeout"),
}
CODES = frozenset(told.code for told in (*FAMILIES.values(), *OF_HTTP.values(), INVALID, INTERNAL))


def told(error: HutchError) -> Told:
    """How an error is told, by the nearest family that it belongs to."""
    for kind in type(error).__mro__:
        if kind in FAMILIES:
            found = FAMILIES[kind]
            if isinstance(error, LimitReached) and error.limit in LIMITS:
                return Told(LIMITS[error.limit], found.code)
            return found
    return INTERNAL


def told_status(status: int) -> Told:
    """How a bare HTTP status is told."""
    return OF_HTTP.get(status, INTERNAL if status >= 500 else Told(status, "bad_request"))
