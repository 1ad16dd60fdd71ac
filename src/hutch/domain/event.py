"""What all events share."""

from pydantic import BaseModel, ConfigDict


class Event(BaseModel):
    """What all events share. `extra="allow"` keeps fields that a newer version added."""

    model_config = ConfigDict(frozen=True, extra="allow")

    type: str
    v: int = 1
    audience: str | None = None
    """Left out of the JSON when it is None: everyone who may see the session. See `domain/audience.py`."""
