"""Five families of errors, by who must act.

A message names the thing, the value, and the way out. Anything that is not
one of these is a bug. `code` is the stable name that clients match on.
"""

from typing import ClassVar


class HutchError(Exception):
    """An error with a message for a person and a code for a program."""

    code: ClassVar[str] = "error"


class BadRequest(HutchError):
    """The caller asked for something that makes no sense; asking again will not help."""

    code = "bad_request"


class NotARepository(BadRequest):
    """A directory without git, of which nobody has said that it may be copied; `option` is how to say so."""

    def __init__(self, reason: str, *, option: str) -> None:
        super().__init__(f"{reason} Make it a repository (git init), or say that it may be copied: {option}.")
        self._reason = reason

    def with_option(self, option: str) -> "NotARepository":
        """The same for a caller who knows the option by another name."""
        return NotARepository(self._reason, option=option)


class NotFound(BadRequest):
    """What the caller named does not exist."""

    code = "not_found"


class Conflict(BadRequest):
    """What the caller asked for does not fit the present state."""

    code = "conflict"


class MergeConflict(Conflict):
    """Two branches have changed the same; `paths` names where."""

    def __init__(self, message: str, *, paths: tuple[str, ...]) -> None:
        super().__init__(message)
        self.paths = paths


class WorkWouldBeLost(Conflict):
    """Going on would remove what somebody else has done; `paths` names the files."""

    def __init__(self, message: str, *, paths: tuple[str, ...]) -> None:
        super().__init__(message)
        self.paths = paths


class Denied(HutchError):
    """The caller may not do this; somebody with the right to must allow it."""

    code = "denied"


class Unauthenticated(Denied):
    """Who is calling is not known: nothing was shown, or what was shown is not valid (any more)."""

    code = "unauthenticated"


class LimitReached(HutchError):
    """A limit was hit; raise it or use less. `limit` is the setting's name."""

    code = "limit_reached"

    def __init__(self, message: str, *, limit: str) -> None:
        super().__init__(message)
        self.limit = limit


class NotRecorded(LimitReached):
    """It was done, but could not be recorded on a full disk; the log says so when it can be written."""

    def __init__(self, message: str) -> None:
        super().__init__(message, limit="disk")


class TooManyRequests(LimitReached):
    """Asked too often, or guessed wrong too often; it works again after `retry_after_s`."""

    code = "too_many_requests"

    def __init__(self, message: str, *, limit: str, retry_after_s: int) -> None:
        super().__init__(message, limit=limit)
        self.retry_after_s = retry_after_s


class Unavailable(HutchError):
    """Something Hutch needs is missing or broken; the operator must mend it."""

    code = "unavailable"


class DoneUnrecorded(Unavailable):
    """It was done, but could not be recorded: the database is locked, damaged or gone."""


class DataGone(Unavailable):
    """The data directory or the database vanished, or was replaced, while it was in use."""

    exit_code: ClassVar[int] = 7


class RecordDamaged(Unavailable):
    """Something that was recorded is no longer there. Trying again will not bring it back."""

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
