"""A long conversation made short: the task, what was decided, and which files were changed, stay.

The first two that are known for sure, the task and what people said, are kept word
for word; so is the list of files. What the model found out it says itself, once,
and its word goes into the log: after a crash the same summary stands there.
"""

from collections.abc import Mapping
from contextlib import aclosing
from dataclasses import dataclass, field

from hutch.agent.conversation import Conversation
from hutch.agent.model_text import shortened, whole
from hutch.domain.errors import HutchError
from hutch.llm.interface import FromModel, FromTool, FromUser, Message, Model, Request, ToolSpec, Usage
from hutch.llm.reply import Gathering

SHARE = 0.75  # of what a model can take
UNKNOWN_CONTEXT_TOKENS = 160_000
CHARS_PER_TOKEN = 3.5
LAST_CHARS = 4000  # of what was said last, when the model cannot summarise
SAID_CHARS = 4000  # of what people said
SUMMARY_CHARS = 16_000
SUMMARY_TOKENS = 4096
MAX_FILES = 200
STANDING = "Where things stand:\n"
SUMMARY_PROMPT = (
    "The conversation is getting too long, and only your next message will be kept of it. Write down what "
    "somebody needs who goes on from here and has seen nothing of it: decisions and why, what was found out, "
    "what was tried and did not work, the state of the tests, and the next steps. Name files and lines. "
    "Do not call tools."
)


@dataclass(frozen=True, slots=True)
class Summary:
    """What stands for all that was said so far, and what it took to get it."""

    text: str
    usage: Usage = field(default_factory=Usage)
    tokens_before: int = 0

    @property
    def tokens_after(self) -> int:
        return tokens([FromUser(self.text)])


def tokens(messages: list[Message]) -> int:
    """About how many tokens messages take."""
    return int(sum(map(_count_chars, messages)) / CHARS_PER_TOKEN)


def due(conversation: Conversation, model: Model) -> bool:
    """Whether the next request could be too long; never while a call waits for its result."""
    most = SHARE * (model.context_tokens or UNKNOWN_CONTEXT_TOKENS)
    return possible(conversation) and max(tokens(conversation.messages), conversation.input_tokens) > most


def possible(conversation: Conversation) -> bool:
    """Whether there is anything that a summary could stand for."""
    return not conversation.waiting and len(conversation.messages) > 2


async def summarised(
    conversation: Conversation,
    model: Model,
    system: str,
    tools: tuple[ToolSpec, ...],
    files: Mapping[str, str],
) -> Summary:
    """The summary of a conversation. The tools are told as always, so that what is cached is of use."""
    messages = (*conversation.messages, FromUser(SUMMARY_PROMPT))
    request = Request(system, messages, tools, most_tokens=SUMMARY_TOKENS, summary=True)
    text, usage = await _complete(model, request)
    listed = [f"- {path} ({kind})" for path, kind in sorted(files.items())]
    if len(listed) > MAX_FILES:
        listed = [*listed[:MAX_FILES], f"- and {len(listed) - MAX_FILES} more"]
    said = "\n".join(f"- {text}" for text in conversation.said)
    earlier = "\n".join(f"- {text}" for text in conversation.earlier)
    parts = [
        conversation.task,
        f"Before that, the user wanted:\n{shortened(earlier, SAID_CHARS)}" if earlier else "",
        "[The conversation so far was made short by Hutch.]",
        f"The user said since:\n{shortened(said, SAID_CHARS, head=0.3)}" if said else "",
        "Files changed so far:\n" + ("\n".join(listed) or "- none"),
        STANDING + (shortened(text, SUMMARY_CHARS) or _last_words(conversation)),
    ]
    return Summary("\n\n".join(filter(None, parts)), usage, tokens(conversation.messages))


async def _complete(model: Model, request: Request) -> tuple[str, Usage]:
    gathering = Gathering()
    try:
        async with aclosing(model.stream(request)) as pieces:
            async for piece in pieces:
                gathering.add(piece)
    except HutchError:
        return "", Usage()  # too long even for that, or out of order: go on with what there is
    reply = gathering.reply()
    return whole(reply.text).strip(), reply.usage


def _last_words(conversation: Conversation) -> str:
    said = [message.text for message in conversation.messages if isinstance(message, FromModel)]
    before = conversation.summary.partition(STANDING)[2]
    words = [shortened(before, LAST_CHARS), *(text for text in said[-10:] if text)]
    return "\n".join(filter(None, words))[-2 * LAST_CHARS :] or "(nothing was said)"


def _count_chars(message: Message) -> int:
    match message:
        case FromModel():
            return len(message.text) + sum(len(call.arguments) + 40 for call in message.calls)
        case FromUser() | FromTool():
            return len(message.text) + 20
