"""What anybody can ask of a session. Inputs go in, events come out."""

from typing import Annotated, Literal

from pydantic import BaseModel, ConfigDict, Field, TypeAdapter

MAX_TEXT_CHARS = 200_000
Text = Annotated[str, Field(min_length=1, max_length=MAX_TEXT_CHARS)]
Reason = Annotated[str, Field(max_length=1000)]
CallId = Annotated[str, Field(min_length=1, max_length=200)]


class Input(BaseModel):
    """What all inputs share. They come from outside: unknown fields are refused."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    type: str


class Prompt(Input):
    """Start a run of the agent on this."""

    type: Literal["prompt"] = "prompt"
    text: Text


class Message(Input):
    """Say something to whoever is working; when nobody is, it is a prompt."""

    type: Literal["message"] = "message"
    text: Text


class Approve(Input):
    """Let a tool be used that waits for it."""

    type: Literal["approve"] = "approve"
    call_id: CallId
    scope: Literal["once", "session", "always"] = "once"


class Deny(Input):
    """Do not let a tool be used that waits for it."""

    type: Literal["deny"] = "deny"
    call_id: CallId
    reason: Reason = ""


class Answer(Input):
    """Answer a question of the agent."""

    type: Literal["answer"] = "answer"
    call_id: CallId
    text: Text


class Cancel(Input):
    """Stop the current run; the session goes on."""

    type: Literal["cancel"] = "cancel"


class Pause(Input):
    """Stop the current run where it is, and begin nothing until `resume`."""

    type: Literal["pause"] = "pause"


class Resume(Input):
    """Go on after `pause`: a run that was stopped is taken up again."""

    type: Literal["resume"] = "resume"


class Undo(Input):
    """Put files and conversation back to where they were before the last run.

    Refused when that would remove what others have changed since, unless `discard` says so.
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
