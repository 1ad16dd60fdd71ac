"""The author of an event: a user, the agent, or Hutch itself."""

from hutch.domain.events import AnyEvent, Event, MessageSent

AGENT = "agent"
HUTCH = "hutch"


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
