"""The base class of all events."""

from pydantic import BaseModel, ConfigDict


class Event(BaseModel):
    """The base of all events. `extra="allow"` keeps fields that a newer version added.

    Validators are built at the first use (`defer_build`), because few processes use all kinds of events.
    """

    model_config = ConfigDict(frozen=True, extra="allow", defer_build=True)

    type: str
    v: int = 1
    audience: str | None = None
    """None means everyone who may see the session, and is omitted from the JSON (`log_entry_audience.py`)."""
