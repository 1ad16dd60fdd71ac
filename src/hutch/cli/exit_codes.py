"""What each exit code means: the one table that scripts can rely on."""

import json
from typing import Any

from hutch.domain.errors import (
    BadRequest,
    DataGone,
    Denied,
    HutchError,
    LimitReached,
    RecordDamaged,
    TooManyRequests,
    Unavailable,
)

OK = 0
BUG = 1
BAD_REQUEST = 2
NO = 3
DENIED = 4
LIMIT_REACHED = 5
UNAVAILABLE = 6
DATA_GONE = DataGone.exit_code
NOT_EXECUTABLE = 126
NOT_FOUND = 127
INTERRUPTED = 130
BROKEN_PIPE = 141

MEANINGS = {
    OK: "Done.",
    BUG: "A bug in Hutch. `hutch --debug …` shows where.",
    BAD_REQUEST: "The request makes no sense: wrong usage, an unknown name, a state that does not fit.",
    NO: "Checked, and the answer is no: tests fail, a record is damaged or does not verify, "
    "the doctor found a failure.",
    DENIED: "Not allowed; somebody with the right to must allow it.",
    LIMIT_REACHED: "A limit was hit; raise it or use less.",
    UNAVAILABLE: "Something Hutch needs is missing or broken.",
    DATA_GONE: "The data directory or the database vanished, or was replaced, while Hutch was using it.",
    NOT_EXECUTABLE: "`hutch shell`: the command is there, and cannot be run.",
    NOT_FOUND: "`hutch shell`: there is no such command in the jail.",
    INTERRUPTED: "Interrupted from the keyboard.",
    BROKEN_PIPE: "Whoever read the output stopped reading, as `head` does.",
}

OUTCOMES = {  # of runs
    "done": OK,
    "tests_failing": NO,
    "limit_reached": LIMIT_REACHED,
    "failed": UNAVAILABLE,
    "cancelled": INTERRUPTED,
}


FAMILIES = {  # of errors that a server tells by their codes
    "bad_request": BAD_REQUEST,
    "not_found": BAD_REQUEST,
    "conflict": BAD_REQUEST,
    "denied": DENIED,
    "unauthenticated": DENIED,
    "limit_reached": LIMIT_REACHED,
    "too_many_requests": LIMIT_REACHED,
    "unavailable": UNAVAILABLE,
    "record_damaged": NO,
}


class NotStarted(BadRequest):
    """A command in a jail that could not be started; `exit_code` is what a shell would return."""

    def __init__(self, message: str, exit_code: int) -> None:
        super().__init__(message)
        self.exit_code = exit_code


def code_of(error: Exception) -> int:
    """The exit code of an error. What is not one of the families for people is a bug."""
    match error:
        case NotStarted():
            return error.exit_code
        case BadRequest():
            return BAD_REQUEST
        case Denied():
            return DENIED
        case LimitReached():
            return LIMIT_REACHED
        case DataGone():
            return DATA_GONE
        case RecordDamaged():
            return NO
        case Unavailable() | OSError():  # a file or a disk that is not as it should be
            return UNAVAILABLE
        case _:
            return BUG


def error_json(error: HutchError) -> str:
    """An error for programs, in a line."""
    told: dict[str, Any] = {"code": error.code, "detail": str(error)}
    if isinstance(error, LimitReached):
        told["limit"] = error.limit
    if isinstance(error, TooManyRequests):
        told["retry_after_s"] = error.retry_after_s
    return json.dumps({"error": told})
