"""A long conversation made short: the task, what was decided, and which files were changed, stay."""

from contextlib import aclosing

from hutch.agent.conversation import Conversation
from hutch.domain.errors import HutchError
from hutch.domain.events import ContextCompacted
from hutch.llm.reply import Gathering
from hutch.llm.seam import FromModel, FromTool, FromUser, Message, Model, Request

SHARE = 0.75  # of what a model can take
UNKNOWN_CONTEXT_TOKENS = 160_000
LETTERS_PER_TOKEN = 3.5
LAST_LETTERS = 2000  # of what was said last, when the model cannot summarise
SUMMARY_TOKENS = 4096
WANTED = (
    "The conversation is getting too long, and only your next message will be kept of it. Write down what "
    "somebody needs who goes on from here and has seen nothing of it: decisions and why, what was found out, "
    "what was tried and did not work, the state of the tests, and the next steps. Name files and lines. "
    "Do not call tools."
)


def tokens(messages: list[Message]) -> int:
    """About how many tokens messages take."""
    return int(sum(map(_letters, messages)) / LETTERS_PER_TOKEN)


def due(conversation: Conversation, model: Model) -> bool:
    """Whether the next request could be too long; never while a call waits for its result."""
    most = SHARE * (model.context_tokens or UNKNOWN_CONTEXT_TOKENS)
    return (
        not conversation.waiting and len(conversation.messages) > 2 and tokens(conversation.messages) > most
    )


async def compacted(conversation: Conversation, model: Model, system: str, run_id: str) -> ContextCompacted:
    """The event that stands for all that was said so far."""
    files = "\n".join(f"- {path} ({kind})" for path, kind in sorted(conversation.files.items()))
    summary = (
        f"{conversation.task}\n\n[The conversation so far was made short by Hutch.]\n\n"
        f"Files changed so far:\n{files or '- none'}\n\nWhere things stand:\n"
        f"{await _asked(conversation, model, system)}"
    )
    after = tokens([FromUser(summary)])
    return ContextCompacted(
        run_id=run_id,
        upto_seq=conversation.seq,
        summary=summary,
        tokens_before=tokens(conversation.messages),
        tokens_after=after,
    )


async def _asked(conversation: Conversation, model: Model, system: str) -> str:
    request = Request(system, (*conversation.messages, FromUser(WANTED)), most_tokens=SUMMARY_TOKENS)
    gathering = Gathering()
    try:
        async with aclosing(model.stream(request)) as pieces:
            async for piece in pieces:
                gathering.add(piece)
    except HutchError:
        return _last_words(conversation)  # too long even for that, or out of order: go on with what there is
    return gathering.reply().text.strip() or _last_words(conversation)


def _last_words(conversation: Conversation) -> str:
    said = [message.text for message in conversation.messages if isinstance(message, FromModel)]
    return "\n".join(text for text in said[-10:] if text)[-LAST_LETTERS:] or "(nothing was said)"


def _letters(message: Message) -> int:
    match message:
        case FromModel():
            return len(message.text) + sum(len(call.arguments) + 40 for call in message.calls)
        case FromUser() | FromTool():
            return len(message.text) + 20
