"""The author of an event: a user, the agent, or Hutch itself.

While a request or a tool call is performed, the current actor says for whom. Commands and changes of
files that it makes are recorded with that author.
"""

from collections.abc import Iterator
from contextlib import contextmanager
from contextvars import ContextVar

from hutch.domain.events import AnyEvent, Event, MessageSent
from hutch.domain.run_events import ChangeCause
from hutch.system.lazy_dataclass import dataclass

AGENT = "agent"
HUTCH = "hutch"


@dataclass(frozen=True, slots=True)
class Actor:
    """Someone who may change files, and how; the fields are those of `file.changed`."""

    by: str = ""
    cause: ChangeCause = "unknown"
    source: str = ""
    call_id: str = ""


NOBODY = Actor()
_current: ContextVar[Actor] = ContextVar("actor", default=NOBODY)


def current_actor() -> Actor:
    """The actor of the current request or tool call."""
    return _current.get()


@contextmanager
def acting(actor: Actor) -> Iterator[None]:
    """Make this the current actor, also of threads and tasks that are started inside."""
    token = _current.set(actor)
    try:
        yield
    finally:
        _current.reset(token)


def author_of(event: AnyEvent) -> str:
    """A user's id, `agent` or `hutch`; empty if it is unknown.

    An event names its author in `by`, and `session.opened` in `owner`. Other events of a run or of a tool
    call are the agent's. A changed file without an author has several possible ones, or none is known.
    """
    if not isinstance(event, Event):
        return ""
    if by := str(getattr(event, "by", "") or getattr(event, "owner", "")):
        return by
    if isinstance(event, MessageSent):
        return event.author
    if event.type in ("file.changed", "files.changed") and not getattr(event, "call_id", ""):
        return ""
    if getattr(event, "run_id", "") or getattr(event, "call_id", ""):
        return AGENT
    return HUTCH
