"""Replaces a long conversation by a summary.

The task, the user's messages and the list of changed files are copied from the log.
The model summarises the rest, once; its summary goes into the log, so that a resumed
run uses the same one.
"""

from collections.abc import Callable, Mapping
from contextlib import aclosing
from dataclasses import field

from hutch.agent.conversation import Conversation
from hutch.agent.text_for_model import shortened, without_surrogates
from hutch.domain.errors import HutchError
from hutch.llm.interface import Again, FromModel, FromTool, FromUser, Message, Model, Request, ToolSpec, Usage
from hutch.llm.reply_builder import ReplyBuilder
from hutch.system.lazy_dataclass import dataclass

IMAGE_CHARS = 6000  # that cost as many tokens as an image of a usual size
SHARE = 0.75  # of the model's context
UNKNOWN_CONTEXT_TOKENS = 160_000
CHARS_PER_TOKEN = 3.5
FALLBACK_CHARS = 4000  # of the model's last messages, when it cannot summarise
USER_MESSAGES_CHARS = 4000
SUMMARY_CHARS = 16_000
SUMMARY_TOKENS = 4096
MAX_FILES = 200
STATE_HEADING = "Current state:\n"
SUMMARY_PROMPT = (
    "The conversation is getting too long. Only your next message will be kept of it. Write down what "
    "another engineer needs to continue from here without having seen it: decisions and their reasons, "
    "findings, failed attempts, the state of the tests, and the next steps. Name files and lines. "
    "Do not call tools."
)


@dataclass(frozen=True, slots=True)
class Summary:
    """The summary that replaces a conversation, with the tokens it cost."""

    text: str
    usage: Usage = field(default_factory=Usage)
    tokens_before: int = 0

    @property
    def tokens_after(self) -> int:
        return tokens([FromUser(self.text)])


def tokens(messages: list[Message]) -> int:
    """An estimate of the tokens in messages."""
    return int(sum(map(_count_chars, messages)) / CHARS_PER_TOKEN)


def needs_compaction(conversation: Conversation, model: Model) -> bool:
    """True if the next request could be too long. Always False while a tool call waits for its result."""
    max_tokens = SHARE * (model.context_tokens or UNKNOWN_CONTEXT_TOKENS)
    used = max(tokens(conversation.messages), conversation.input_tokens)
    return can_compact(conversation) and used > max_tokens


def can_compact(conversation: Conversation) -> bool:
    """True if the conversation is long enough to summarise, and no call waits for its result."""
    return not conversation.waiting and len(conversation.messages) > 2


async def summarise(
    conversation: Conversation,
    model: Model,
    system: str,
    tools: tuple[ToolSpec, ...],
    files: Mapping[str, str],
    on_retry: Callable[[Again], None],
) -> Summary:
    """Summarise a conversation. The request lists the tools as always, so that the provider's cache hits."""
    messages = (*conversation.messages, FromUser(SUMMARY_PROMPT))
    request = Request(system, messages, tools, max_tokens=SUMMARY_TOKENS, summary=True)
    text, usage = await _complete(model, request, on_retry)
    listed = [f"- {path} ({kind})" for path, kind in sorted(files.items())]
    if len(listed) > MAX_FILES:
        listed = [*listed[:MAX_FILES], f"- and {len(listed) - MAX_FILES} more"]
    since = "\n".join(f"- {text}" for text in conversation.user_messages)
    earlier = "\n".join(f"- {text}" for text in conversation.earlier)
    parts = [
        conversation.task,
        f"Earlier tasks of the user:\n{shortened(earlier, USER_MESSAGES_CHARS)}" if earlier else "",
        "[Hutch replaced the conversation so far by this summary.]",
        f"Messages of the user after the task:\n{shortened(since, USER_MESSAGES_CHARS, head=0.3)}"
        if since
        else "",
        "Files changed so far:\n" + ("\n".join(listed) or "- none"),
        STATE_HEADING + (shortened(text, SUMMARY_CHARS) or _last_words(conversation)),
    ]
    return Summary("\n\n".join(filter(None, parts)), usage, tokens(conversation.messages))


async def _complete(model: Model, request: Request, on_retry: Callable[[Again], None]) -> tuple[str, Usage]:
    builder = ReplyBuilder()
    try:
        async with aclosing(model.stream(request)) as deltas:
            async for delta in deltas:
                builder.add(delta)
                if isinstance(delta, Again):
                    on_retry(delta)
    except HutchError:
        # The conversation is too long even for the summary request, or the provider fails.
        return "", Usage()  # continue without a summary
    reply = builder.reply()
    return without_surrogates(reply.text).strip(), reply.usage


def _last_words(conversation: Conversation) -> str:
    replies = [message.text for message in conversation.messages if isinstance(message, FromModel)]
    before = conversation.summary.partition(STATE_HEADING)[2]
    parts = [shortened(before, FALLBACK_CHARS), *(text for text in replies[-10:] if text)]
    return "\n".join(filter(None, parts))[-2 * FALLBACK_CHARS :] or "(unknown)"


def _count_chars(message: Message) -> int:
    match message:
        case FromModel():
            return len(message.text) + sum(len(call.arguments) + 40 for call in message.calls)
        case FromTool():
            return len(message.text) + 20 + (IMAGE_CHARS if message.image else 0)
        case FromUser():
            return len(message.text) + 20
