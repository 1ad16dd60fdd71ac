"""Five families of errors, by the party that must act.

A message names the thing, the value, and the remedy. Any other exception is
a bug. `code` is the stable name that clients match on.
"""

from typing import ClassVar


class HutchError(Exception):
    """An error with a message for a person and a code for a program."""

    code: ClassVar[str] = "error"


class BadRequest(HutchError):
    """The request is wrong; a retry will not help."""

    code = "bad_request"


class NotARepository(BadRequest):
    """A directory without git, which the caller has not allowed to be copied; `option` allows it."""

    def __init__(self, reason: str, *, option: str) -> None:
        super().__init__(f"{reason} Make it a repository (git init), or allow copying it: {option}.")
        self._reason = reason

    def with_option(self, option: str) -> "NotARepository":
        """The same error for a caller that has another name for the option."""
        return NotARepository(self._reason, option=option)


class NotFound(BadRequest):
    """The object that the caller named does not exist."""

    code = "not_found"


class Conflict(BadRequest):
    """The request does not fit the current state."""

    code = "conflict"


class MergeConflict(Conflict):
    """Two branches have changed the same lines; `paths` names the files."""

    def __init__(self, message: str, *, paths: tuple[str, ...]) -> None:
        super().__init__(message)
        self.paths = paths


class WorkWouldBeLost(Conflict):
    """Continuing would remove the work of others; `paths` names the files."""

    def __init__(self, message: str, *, paths: tuple[str, ...]) -> None:
        super().__init__(message)
        self.paths = paths


class Denied(HutchError):
    """The caller may not do this; a user with the right to must allow it."""

    code = "denied"


class Unauthenticated(Denied):
    """The caller is unknown: the request has no credential, or one that is not valid (any more)."""

    code = "unauthenticated"


class LimitReached(HutchError):
    """A limit was hit; raise it or use less. `limit` is the setting's name."""

    code = "limit_reached"

    def __init__(self, message: str, *, limit: str) -> None:
        super().__init__(message)
        self.limit = limit


class BudgetReached(LimitReached):
    """A budget of the month is used up: the model is not called until it is raised, or the month is over."""

    def __init__(self, message: str) -> None:
        super().__init__(message, limit="budget")


class NotRecorded(LimitReached):
    """The action was done, but the disk is full and it was not recorded; the log says so later."""

    def __init__(self, message: str) -> None:
        super().__init__(message, limit="disk")


class TooManyRequests(LimitReached):
    """Too many requests, or too many wrong guesses; retry after `retry_after_s`."""

    code = "too_many_requests"

    def __init__(self, message: str, *, limit: str, retry_after_s: int) -> None:
        super().__init__(message, limit=limit)
        self.retry_after_s = retry_after_s


class Unavailable(HutchError):
    """Something Hutch needs is missing or broken; the operator must fix it."""

    code = "unavailable"


class DoneUnrecorded(Unavailable):
    """The action was done, but not recorded: the database is locked, damaged or gone."""


class DataGone(Unavailable):
    """The data directory or the database vanished, or was replaced, while it was in use."""

    exit_code: ClassVar[int] = 7


class RecordDamaged(Unavailable):
    """Recorded data is missing. A retry will not bring it back."""

    code = "record_damaged"


class EventsMissing(RecordDamaged):
    """Events that were recorded are no longer in the database; `last` is the last one missing here."""

    def __init__(self, session_id: str, first: int, last: int) -> None:
        self.last = last
        super().__init__(
            f"{describe_missing(first, last, of=f' of session {session_id}')} from the database. Stop Hutch "
            f"and keep a copy of its data directory. Save what is left, on the machine of the database: "
            f"hutch export {session_id}"
        )


def describe_missing(first: int, last: int, *, of: str = "") -> str:
    return f"Event {first}{of} is missing" if first == last else f"Events {first} to {last}{of} are missing"
