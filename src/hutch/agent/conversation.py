"""The messages that the model sees, rebuilt from the log.

Events go in one by one, as they are written or as they are read back after a crash;
messages come out. A message never changes, so each request begins with the previous
one, to the byte, and caches of providers hit. Only old images are dropped, rarely and
several at a time.
"""

import json
from collections.abc import Iterable, Sequence
from dataclasses import field, replace

from hutch.domain import events
from hutch.domain.events import AnyEvent, Entry, ToolReturned
from hutch.domain.log_entry_audience import audience_of
from hutch.llm.interface import Call, FromModel, FromTool, FromUser, Image, Message
from hutch.system.lazy_dataclass import dataclass

INTERRUPTED = (
    "Hutch was stopped while this ran. It is unknown how far it got. Check the current state before you do "
    "it again."
)
NOT_MADE = "The run was stopped before this call, so the call was not made."
UNFINISHED = ("length", "refused")
MAX_NAMED_FILES = 20
MAX_IMAGE_CHARS = 4 << 20  # of all images, in Base64: each request repeats them
GONE = "(It is no longer shown. Read it again to see it.)"
ERASED = "(erased)"  # replaces an erased text, since providers refuse an empty one


@dataclass(slots=True)
class Conversation:
    """The messages so far, and the rest of a run's state that the log holds."""

    messages: list[Message] = field(default_factory=list)
    task: str = ""
    earlier: list[str] = field(default_factory=list)  # tasks of the runs before this one
    run_id: str = ""
    user_messages: list[str] = field(default_factory=list)  # since the task
    files: dict[str, str] = field(default_factory=dict)  # changed files, and how
    waiting: dict[str, Call] = field(default_factory=dict)  # calls without a result, in order
    started: set[str] = field(default_factory=set)  # ids of the waiting calls that had started
    question: events.QuestionAsked | None = None  # the last question of an ask_user call without a result
    answer: str | None = None  # to that question
    # Calls that users allowed for the session, with the names of the owner's policies that had asked.
    granted: list[tuple[Call, tuple[str, ...]]] = field(default_factory=list)
    # Calls that users allowed once, in the same form: a later answer can allow them for the session.
    allowed_once: dict[str, tuple[Call, tuple[str, ...]]] = field(default_factory=dict)
    last: Call | str | None = None  # the call of finish, or the reply without calls that ended the run
    input_tokens: int = 0  # of the last request, as its provider counts them
    summary: str = ""  # replaces all earlier messages, after a compaction
    compacted: tuple[Message, ...] = ()  # of those messages: the replies without text, and the last result
    seq: int = 0  # of the last event applied
    _calls: dict[str, Call] = field(default_factory=dict)  # of the last reply
    _asking: tuple[str, ...] = ()  # the policies that asked last
    _images: dict[str, Image] = field(default_factory=dict)  # read by calls that have not returned
    _notices: list[str] = field(default_factory=list)  # that wait until no call is open

    @classmethod
    def of(cls, entries: Iterable[Entry]) -> "Conversation":
        """The conversation that a log holds so far."""
        made = cls()
        for entry in entries:
            made.apply(entry.event, entry.seq)
        return made

    def interrupted_results(self) -> list[ToolReturned]:
        """Results for the calls without one, for a run that does not continue."""
        return [
            ToolReturned(
                run_id=self.run_id,
                call_id=call.id,
                tool=call.tool,
                ok=False,
                text=INTERRUPTED if call.id in self.started else NOT_MADE,
            )
            for call in self.waiting.values()
        ]

    def extend_approval(self, call_id: str) -> tuple[Call, tuple[str, ...]] | None:
        """Allow a call for the session that a user had allowed once. Returns the arguments of `granted`."""
        found = self.allowed_once.pop(call_id, None)
        if found is not None:
            self.granted.append(found)
        return found

    def _keep_answer(self, event: events.ApprovalAnswered) -> None:
        """Rules with scope "always" are in the store instead, and may have been withdrawn since."""
        call = self._calls.get(event.call_id)
        if call is None or not event.allowed:
            return
        if event.scope == "session":
            self.granted.append((call, self._asking))
        elif event.scope == "once":
            self.allowed_once[call.id] = (call, self._asking)

    def apply(self, event: AnyEvent, seq: int) -> None:
        self.seq = seq
        if audience_of(event) is not None:
            return  # addressed to some users of the session, not to the agent
        match event:
            case events.RunStarted():
                self.earlier += [self.task] if self.task else []
                self.run_id, self.task, self.user_messages, self.last = event.run_id, event.prompt, [], None
                self.messages.append(FromUser(event.prompt))
            case events.MessageSent(author="user"):
                self.messages.append(FromUser(event.text))
                self.user_messages.append(event.text)
                self.last = None  # the run goes on
            case events.MessageSent(author="hutch"):
                self.messages.append(FromUser(f"[Hutch: {event.text}]"))
            case events.ModelReplied():
                self._reply(event)
            case events.ToolCalled():
                self.started.add(event.call_id)
            case events.ApprovalRequested():
                self.started.discard(event.call_id)  # it waits for a user, and has done nothing yet
                self._asking = event.policies
                self.allowed_once.pop(event.call_id, None)  # models may use an id twice
            case events.ApprovalExtended():
                self.extend_approval(event.call_id)
            case events.ApprovalAnswered():
                self.started.add(event.call_id)
                self._keep_answer(event)
            case events.QuestionAsked():
                self.question, self.answer = event, None
            case events.QuestionAnswered():
                self.answer = event.text
            case events.ToolReturned():
                self.question = self.answer = None
                if event.call_id not in self._calls:
                    return  # the reply that made this call was erased
                call = self.waiting.pop(event.call_id, None)
                image = self._images.pop(event.call_id, None)
                self.messages.append(FromTool(event.call_id, event.tool, event.text, event.ok, image))
                self._drop_old_images()
                if event.tool == "finish" and event.ok:
                    self.last = call
                self._send_notices()
            case events.ImageLoaded() if event.data:
                self._images[event.call_id] = Image(event.media_type, event.data)
            case events.FileChanged():
                self.files[event.path] = event.kind
                if event.moved_from:
                    self.files[event.moved_from] = "moved away"
            case events.ChangesUndone(title=title):
                self._notify(f"A user has undone {title}. {_describe_files(event)}")
            case events.SessionRedone(title=title):
                self._notify(f"A user has taken back {title}. {_describe_files(event)}")
            case events.ConversationCopied():
                for copied in event.events:
                    self.apply(events.from_json(json.dumps(copied).encode(), str(copied.get("type"))), seq)
            case events.ContextCompacted():
                self.compacted = _without_text((*self.compacted, *self.messages))
                self.messages = [FromUser(event.summary)]
                self.summary, self.input_tokens = event.summary, 0

    def _drop_old_images(self) -> None:
        """When there are too many images, remove the older half, so that this happens rarely."""
        shown = [
            (at, each, len(each.image.data))
            for at, each in enumerate(self.messages)
            if isinstance(each, FromTool) and each.image is not None
        ]
        if sum(chars for _, _, chars in shown) <= MAX_IMAGE_CHARS:
            return
        total = 0
        for at, message, chars in reversed(shown):
            total += chars
            if total > MAX_IMAGE_CHARS // 2:
                self.messages[at] = replace(message, text=f"{message.text} {GONE}", image=None)

    def _notify(self, text: str) -> None:
        """Add a notice; while calls are open, after their results."""
        self._notices.append(f"[Hutch: {text}]")
        self._send_notices()

    def _send_notices(self) -> None:
        if not self.waiting:
            self.messages += [FromUser(text) for text in self._notices]
            self._notices.clear()

    def _reply(self, event: events.ModelReplied) -> None:
        calls = tuple(Call(call.id, call.tool, call.arguments) for call in event.calls)
        if not self.messages:
            self.messages.append(FromUser(ERASED))
        # There was a result, or the model would not have replied again.
        self.messages += [FromTool(call.id, call.tool, ERASED, True) for call in self.waiting.values()]
        self.waiting = {}
        self._send_notices()
        self.messages.append(FromModel(event.text, calls, event.opaque))
        self._calls = {call.id: call for call in calls}
        self.waiting, self.started = dict(self._calls), set()
        self.question = self.answer = None
        self.last = event.text if not calls and event.finish not in UNFINISHED else None
        self.input_tokens = event.input_tokens


def _describe_files(event: events.ChangesUndone | events.SessionRedone) -> str:
    if not event.files:
        return "No file has changed."
    more = f" and {event.files_count - MAX_NAMED_FILES} more" if event.files_count > MAX_NAMED_FILES else ""
    names = ", ".join(event.files[:MAX_NAMED_FILES])
    return f"These files have changed: {names}{more}. Read them before you edit them."


def _without_text(messages: Sequence[Message]) -> tuple[Message, ...]:
    """The messages that a summary replaced, without text: the replies, and the last result."""
    replies = [FromModel("", (), message.opaque) for message in messages if isinstance(message, FromModel)]
    results = [message for message in messages if isinstance(message, FromTool)]
    return (*replies, *results[-1:])
