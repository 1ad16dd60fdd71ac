"""The inputs of a session. Inputs go in, events come out."""

from typing import Annotated, Literal, Self

from pydantic import BaseModel, ConfigDict, Field, TypeAdapter, model_validator

from hutch.domain.generation_option_fields import GenerationFields

MAX_TEXT_CHARS = 200_000
Text = Annotated[str, Field(min_length=1, max_length=MAX_TEXT_CHARS)]
Reason = Annotated[str, Field(max_length=1000)]
CallId = Annotated[str, Field(min_length=1, max_length=200)]


class Input(BaseModel):
    """The base of all inputs. They come from clients: unknown fields are refused."""

    model_config = ConfigDict(frozen=True, extra="forbid", defer_build=True)

    type: str


class Prompt(Input):
    """Start a run of the agent with this prompt. `generation`: options of its replies, for this run only."""

    type: Literal["prompt"] = "prompt"
    text: Text
    generation: GenerationFields | None = None


class Message(Input):
    """Send a message to the current run; without one, it is a prompt."""

    type: Literal["message"] = "message"
    text: Text


class Approve(Input):
    """Allow a tool call that waits for approval."""

    type: Literal["approve"] = "approve"
    call_id: CallId
    scope: Literal["once", "session", "always"] = "once"


class Extend(Input):
    """Allow for the rest of the session what a user has allowed once: the calls that `approval.requested`
    lists in `covers`."""

    type: Literal["extend"] = "extend"
    call_id: CallId


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


class Withdraw(Input):
    """Take back an input without an effect: a message that the agent has not received yet, or a prompt whose
    run has not started. `input` is its number."""

    type: Literal["withdraw"] = "withdraw"
    input: int = Field(ge=1)


class Cancel(Input):
    """Stop the current run; the session continues."""

    type: Literal["cancel"] = "cancel"


class Pause(Input):
    """Stop the current run where it is, and start nothing until `resume`. With `programs`, all programs
    that run in the session's jail stop too, until then."""

    type: Literal["pause"] = "pause"
    programs: bool = False


class Resume(Input):
    """Continue after `pause`: a stopped run is resumed."""

    type: Literal["resume"] = "resume"


class Resolving(Input):
    """The base of inputs that may meet changes by others. At most one of these says what happens then."""

    merge: bool = False
    keep: bool = False
    discard: bool = False

    @model_validator(mode="after")
    def _check_one_choice(self) -> Self:
        if self.merge + self.keep + self.discard > 1:
            raise ValueError("Set only one of `merge`, `keep` and `discard`.")
        return self

    @property
    def mode(self) -> Literal["refuse", "merge", "keep", "discard"]:
        return "merge" if self.merge else "keep" if self.keep else "discard" if self.discard else "refuse"


class Undo(Resolving):
    """Take back the changes of the last run, or of one step, and keep those of others.

    For a run, the conversation goes back too. `step` is the number of an event: a change of a file, a tool
    call, a command or a run. Refused when others have changed the same lines since, unless `merge` writes
    both versions with conflict markers, `keep` leaves these files, or `discard` takes the old version.
    """

    type: Literal["undo"] = "undo"
    step: int = Field(default=0, ge=0)


class Redo(Resolving):
    """Take back the last undo, unless a run began since. Options are those of `undo`."""

    type: Literal["redo"] = "redo"


class End(Input):
    """End the session."""

    type: Literal["end"] = "end"
    reason: Reason = ""


AnyInput = Annotated[
    Prompt
    | Message
    | Withdraw
    | Approve
    | Extend
    | Deny
    | Answer
    | Cancel
    | Pause
    | Resume
    | Undo
    | Redo
    | End,
    Field(discriminator="type"),
]
parse_input: TypeAdapter[
    Prompt
    | Message
    | Withdraw
    | Approve
    | Extend
    | Deny
    | Answer
    | Cancel
    | Pause
    | Resume
    | Undo
    | Redo
    | End
] = TypeAdapter(AnyInput, config=ConfigDict(defer_build=True))
