"""The table of HTTP errors: status, title and code of each.

Programs match on `code`. The five families of errors define their own; the rest
are about HTTP itself and exist only here.
"""

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
from hutch.system.lazy_dataclass import dataclass


@dataclass(frozen=True, slots=True)
class ErrorStatus:
    """The HTTP status and the code of a kind of error."""

    status: int
    code: str

    @property
    def title(self) -> str:
        return HTTPStatus(self.status).phrase


class PreconditionFailed(Conflict):
    """A condition of the request does not hold: the file has changed, or exists already."""

    code = "precondition_failed"


class RangeNotSatisfiable(BadRequest):
    """The requested range is outside the file."""

    code = "range_not_satisfiable"

    def __init__(self, message: str, *, size: int) -> None:
        super().__init__(message)
        self.size = size


class KeyReused(BadRequest):
    """An idempotency key was sent with two different requests."""

    code = "key_reused"


FAMILIES: dict[type[HutchError], ErrorStatus] = {
    BadRequest: ErrorStatus(400, "bad_request"),
    NotFound: ErrorStatus(404, "not_found"),
    Conflict: ErrorStatus(409, "conflict"),
    PreconditionFailed: ErrorStatus(412, "precondition_failed"),
    RangeNotSatisfiable: ErrorStatus(416, "range_not_satisfiable"),
    KeyReused: ErrorStatus(422, "key_reused"),
    Denied: ErrorStatus(403, "denied"),
    Unauthenticated: ErrorStatus(401, "unauthenticated"),
    LimitReached: ErrorStatus(429, "limit_reached"),
    TooManyRequests: ErrorStatus(429, "too_many_requests"),
    Unavailable: ErrorStatus(503, "unavailable"),
    RecordDamaged: ErrorStatus(503, "record_damaged"),
}
LIMITS: dict[str, int] = {  # by the name of the limit; all others are rate limits
    "disk": 507,
    "sessions.log_bytes": 507,
    "workspace.quota_bytes": 507,
    "workspace.quota_files": 507,
    "workspace.snapshot_entries": 507,
    "workspace.snapshot_path_bytes": 507,
    "server.body_bytes": 413,
    "event_bytes": 413,
    "output_bytes": 413,
    "starter_files": 413,
    "starter_files_bytes": 413,
}
INVALID = ErrorStatus(422, "invalid")  # `errors` lists the invalid fields
INTERNAL = ErrorStatus(500, "internal")
OF_HTTP: dict[int, ErrorStatus] = {
    400: ErrorStatus(400, "bad_request"),
    404: ErrorStatus(404, "not_found"),
    405: ErrorStatus(405, "method_not_allowed"),
    406: ErrorStatus(406, "not_acceptable"),
    415: ErrorStatus(415, "unsupported_media_type"),
    502: ErrorStatus(502, "bad_gateway"),  # from a program in a jail, through a preview
    504: ErrorStatus(504, "gateway_timeout"),
}
CODES = frozenset(
    error_status.code for error_status in (*FAMILIES.values(), *OF_HTTP.values(), INVALID, INTERNAL)
)


def error_status(error: HutchError) -> ErrorStatus:
    """The status of an error, by the nearest family in its class hierarchy."""
    for kind in type(error).__mro__:
        if kind in FAMILIES:
            found = FAMILIES[kind]
            if isinstance(error, LimitReached) and error.limit in LIMITS:
                return ErrorStatus(LIMITS[error.limit], found.code)
            return found
    return INTERNAL


def status_for(status: int) -> ErrorStatus:
    return OF_HTTP.get(status, INTERNAL if status >= 500 else ErrorStatus(status, "bad_request"))
