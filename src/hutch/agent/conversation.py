"""What the model sees, rebuilt from the log.

Events go in one by one, as they are written or as they are read back after a
crash; messages come out. What has been said is never said otherwise, so the
beginning of each request is the end of the one before, to the byte.
"""

from dataclasses import dataclass, field

from hutch.domain import events
from hutch.domain.events import AnyEvent
from hutch.llm.seam import Call, FromModel, FromTool, FromUser, Message

INTERRUPTED = (
    "Hutch was stopped while this ran, so nobody knows how far it got. Look at the present state before you "
    "do it again."
)


@dataclass(slots=True)
class Conversation:
    """The messages so far, the files that were changed, and the calls that still wait."""

    messages: list[Message] = field(default_factory=list)
    task: str = ""
    files: dict[str, str] = field(default_factory=dict)  # changed ones, and how
    waiting: dict[str, Call] = field(default_factory=dict)  # calls without a result, in order
    begun: set[str] = field(default_factory=set)  # those of them that had started
    seq: int = 0  # of the last event that is in here

    def apply(self, event: AnyEvent, seq: int) -> None:
        self.seq = seq
        match event:
            case events.RunStarted():
                self.task = event.prompt
                self.messages.append(FromUser(event.prompt))
            case events.MessageSent(author="user"):
                self.messages.append(FromUser(event.text))
            case events.ModelReplied():
                calls = tuple(Call(call.id, call.tool, call.arguments) for call in event.calls)
                self.messages.append(FromModel(event.text, calls, event.opaque))
                self.waiting = {call.id: call for call in calls}
                self.begun = set()
            case events.ToolCalled():
                self.begun.add(event.call_id)
            case events.ApprovalAsked():
                self.begun.discard(event.call_id)  # it waits for a person, and has done nothing yet
            case events.ApprovalGiven():
                self.begun.add(event.call_id)
            case events.ToolReturned():
                self.waiting.pop(event.call_id, None)
                self.messages.append(FromTool(event.call_id, event.tool, event.text, event.ok))
            case events.FileChanged():
                self.files[event.path] = event.kind
            case events.ContextCompacted():
                self.messages = [FromUser(event.summary)]
