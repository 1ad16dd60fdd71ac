"""What anybody can ask of a session. Inputs go in, events come out."""

from typing import Annotated, Literal

from pydantic import BaseModel, ConfigDict, Field, TypeAdapter


class Input(BaseModel):
    """What all inputs share. They come from outside: unknown fields are refused."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    type: str


class Prompt(Input):
    """Start a run of the agent on this."""

    type: Literal["prompt"] = "prompt"
    text: str = Field(min_length=1)


class Message(Input):
    """Say something to whoever is working, without starting a new run."""

    type: Literal["message"] = "message"
    text: str = Field(min_length=1)


class Cancel(Input):
    """Stop the current run; the session goes on."""

    type: Literal["cancel"] = "cancel"


class End(Input):
    """End the session."""

    type: Literal["end"] = "end"
    reason: str = ""


AnyInput = Annotated[Prompt | Message | Cancel | End, Field(discriminator="type")]
parse_input: TypeAdapter[Prompt | Message | Cancel | End] = TypeAdapter(AnyInput)
