"""Log entries as clients get them, on pages and in streams."""

from typing import Annotated, Literal

from pydantic import BaseModel, ConfigDict, Field

from hutch.domain.events import KnownEvent
from hutch.gateway.request_and_response_bodies import Out


class Erased(Out):
    """An event whose content was erased."""

    type: str
    erased: Literal[True]
    erased_at_ms: int
    reason: str


class Withheld(Out):
    """An event that you may not see."""

    type: str
    withheld: Literal[True]


class OtherEvent(BaseModel):
    """An event of a newer version than this document."""

    model_config = ConfigDict(extra="allow")

    type: str


class EntryOut(Out):
    """An event with its number, its time and its link in the chain."""

    seq: int = Field(ge=1)
    at_ms: int
    hash: str = Field(description="The hash of this event in the log's hash chain.")
    event: Annotated[KnownEvent | Erased | Withheld | OtherEvent, Field(union_mode="left_to_right")]
