"""The inputs of a session. Inputs go in, events come out."""

from typing import Annotated, Literal

from pydantic import BaseModel, ConfigDict, Field, TypeAdapter

MAX_TEXT_CHARS = 200_000
Text = Annotated[str, Field(min_length=1, max_length=MAX_TEXT_CHARS)]
Reason = Annotated[str, Field(max_length=1000)]
CallId = Annotated[str, Field(min_length=1, max_length=200)]


class Input(BaseModel):
    """The base of all inputs. They come from clients: unknown fields are refused."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    type: str


class Prompt(Input):
    """Start a run of the agent with this prompt."""

    type: Literal["prompt"] = "prompt"
    text: Text


class Message(Input):
    """Send a message to the current run; without one, it is a prompt."""

    type: Literal["message"] = "message"
    text: Text


class Approve(Input):
    """Allow a tool call that waits for approval."""

    type: Literal["approve"] = "approve"
    call_id: CallId
    scope: Literal["once", "session", "always"] = "once"


class Deny(Input):
    """Refuse a tool call that waits for approval."""

    type: Literal["deny"] = "deny"
    call_id: CallId
    reason: Reason = ""


class Answer(Input):
    """Answer a question of the agent."""

    type: Literal["answer"] = "answer"
    call_id: CallId
    text: Text


class Cancel(Input):
    """Stop the current run; the session continues."""

    type: Literal["cancel"] = "cancel"


class Pause(Input):
    """Stop the current run where it is, and start nothing until `resume`."""

    type: Literal["pause"] = "pause"


class Resume(Input):
    """Continue after `pause`: a stopped run is resumed."""

    type: Literal["resume"] = "resume"


class Undo(Input):
    """Restore files and conversation to the state before the last run.

    Refused when that would remove later changes of others, unless `discard` is set.
    """

    type: Literal["undo"] = "undo"
    discard: bool = False


class End(Input):
    """End the session."""

    type: Literal["end"] = "end"
    reason: Reason = ""


AnyInput = Annotated[
    Prompt | Message | Approve | Deny | Answer | Cancel | Pause | Resume | Undo | End,
    Field(discriminator="type"),
]
parse_input: TypeAdapter[
    Prompt | Message | Approve | Deny | Answer | Cancel | Pause | Resume | Undo | End
] = TypeAdapter(AnyInput)
