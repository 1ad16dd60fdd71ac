"""Options of a model's replies, as a file or a request sets them."""

from typing import Annotated

from pydantic import BaseModel, ConfigDict, Field

from hutch.domain.generation_options import MAX_REPLY_TOKENS, MAX_TEMPERATURE, Effort, Generation

Temperature = Annotated[float, Field(strict=True, ge=0, le=MAX_TEMPERATURE, allow_inf_nan=False)]
ReplyTokens = Annotated[int, Field(strict=True, ge=1, le=MAX_REPLY_TOKENS)]


class GenerationFields(BaseModel):
    """Options of a model's replies; omitted or null ones are not set here."""

    model_config = ConfigDict(frozen=True, extra="forbid", defer_build=True)

    temperature: Temperature | None = Field(None, description="0 is the most predictable.")
    max_reply_tokens: ReplyTokens | None = Field(
        None, description="Maximum tokens of one reply, thoughts included."
    )
    effort: Effort | None = Field(None, description="How much the model thinks: low, medium or high.")

    def to_generation(self) -> Generation:
        return Generation(self.temperature, self.max_reply_tokens, self.effort)
