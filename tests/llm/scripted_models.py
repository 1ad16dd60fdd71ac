"""Scripted models for tests, and helpers to ask them."""

from hutch.llm.interface import Delta, FromUser, Message, Model, Request
from hutch.llm.reply_builder import Reply
from hutch.llm.retry import RetryPolicy
from hutch.llm.scripted_model import ScriptedModel
from hutch.llm.scripted_reply_file import parse_cassette
from tests.llm import provider_formats

QUICK = RetryPolicy(attempts=3, first_wait_s=0.001, max_wait_s=1.0, idle_timeout_s=0.05)


def scripted(text: str) -> ScriptedModel:
    return ScriptedModel("scripted:test", parse_cassette(text, "test"))


async def pieces(model: Model, *messages: Message) -> list[Delta]:
    return await provider_formats.pieces(model, Request("", (FromUser("go"), *messages)))


async def reply(model: Model, *messages: Message) -> Reply:
    return await provider_formats.reply(model, Request("", (FromUser("go"), *messages)))
