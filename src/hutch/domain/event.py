"""What all events share."""

from pydantic import BaseModel, ConfigDict


class Event(BaseModel):
    """What all events share. `extra="allow"` keeps fields that a newer version added."""

    model_config = ConfigDict(frozen=True, extra="allow")

    type: str
    v: int = 1
