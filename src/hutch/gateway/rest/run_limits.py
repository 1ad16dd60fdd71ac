"""Limits of a run, as requests give them."""

from pydantic import Field

from hutch.gateway.responses import MAX_SIZE, In


class Limits(In):
    """The limits of a run; omitted ones default to those of the persona and the settings."""

    turns: int | None = Field(None, ge=1, le=MAX_SIZE)
    tokens: int | None = Field(None, ge=1, le=MAX_SIZE)
    cost_usd: float | None = Field(None, gt=0)
    timeout_s: float | None = Field(None, gt=0)
