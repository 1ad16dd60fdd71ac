"""Limits of a run, as requests give them."""

from pydantic import Field

from hutch.gateway.responses import MAX_SIZE, In


class Limits(In):
    """How far a run may go; what is left out is as the persona and the settings say."""

    turns: int | None = Field(None, ge=1, le=MAX_SIZE)
    tokens: int | None = Field(None, ge=1, le=MAX_SIZE)
    cost_usd: float | None = Field(None, gt=0)
    timeout_s: float | None = Field(None, gt=0)
