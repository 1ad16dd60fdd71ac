"""Which models get images: those of Anthropic, OpenAI and Google, except some older ones.

Servers of other models reject a request with an image, or ignore it, and there is no way to ask them. Their
models read that there is an image instead.
"""

from dataclasses import replace

from hutch.llm.interface import FromTool, Message, Request
from hutch.llm.provider_account import Account

PROVIDERS = frozenset({"anthropic", "openai", "gemini"})
BLIND_PREFIXES = ("gpt-3", "gpt-4-0", "gpt-4-32k", "o1-mini", "o1-preview", "o3-mini", "claude-2")
BLIND = frozenset({"gpt-4"})
NOTE = "(You cannot see it: this model gets no images. Use bash to inspect it.)"


def sees_images(account: Account) -> bool:
    model = account.model
    return account.provider in PROVIDERS and model not in BLIND and not model.startswith(BLIND_PREFIXES)


def for_account(request: Request, account: Account) -> Request:
    """The request without images, if the model does not see them."""
    has_images = any(isinstance(each, FromTool) and each.image for each in request.messages)
    if not has_images or sees_images(account):
        return request
    return replace(request, messages=tuple(_without_image(each) for each in request.messages))


def _without_image(message: Message) -> Message:
    if not isinstance(message, FromTool) or message.image is None:
        return message
    return replace(message, text=f"{message.text}\n{NOTE}", image=None)
