"""Google's models, against a server with the Gemini protocol."""

import base64
from contextlib import aclosing

import pytest

from hutch.domain.errors import Denied, LimitReached
from hutch.llm.interface import (
    Again,
    Call,
    CallArguments,
    CallEnded,
    CallStarted,
    Finish,
    FromModel,
    FromTool,
    FromUser,
    Request,
    Text,
    Thinking,
    ToolSpec,
    Usage,
)
from tests.llm.provider_formats import GEMINI, GO, KEY, as_message, gemini_chunk, gemini_error, pieces, reply
from tests.llm.provider_server import Act, answer, event, playing

pytestmark = pytest.mark.anyio

SCHEMA = {"type": "object", "properties": {"command": {"type": "string"}}}
BASH = ToolSpec("bash", "Run a command.", SCHEMA)
SIGNED, ALSO = base64.b64encode(b"\xfa\xfb signed").decode(), base64.b64encode(b"\xff also").decode()


def thoughtful() -> list[bytes]:
    """A reply on the wire: a thought, text, calls with and without ids, a signature after the end."""
    return [
        gemini_chunk([{"text": "Look first.", "thought": True}], promptTokenCount=1000),
        gemini_chunk([{"text": "I will "}], promptTokenCount=1000, cachedContentTokenCount=800),
        gemini_chunk([{"text": "look."}]),
        gemini_chunk(
            [
                {
                    "functionCall": {"id": "fc-1", "name": "bash", "args": {"command": "ls é"}},
                    "thoughtSignature": SIGNED,
                },
                {"functionCall": {"name": "bash", "args": {}}},
            ]
        ),
        gemini_chunk(
            [{"text": "", "thoughtSignature": ALSO}],
            "STOP",
            promptTokenCount=1000,
            cachedContentTokenCount=800,
            candidatesTokenCount=30,
            thoughtsTokenCount=12,
            totalTokenCount=1042,
        ),
    ]


async def test_a_reply_is_streamed() -> None:
    async with playing(Act(thoughtful())) as wire:
        got = await pieces(GEMINI.open(wire))
    assert got == [
        Usage(input=1000),
        Thinking("Look first."),
        Usage(cached=800),
        Text("I will "),
        Text("look."),
        CallStarted("fc-1", "bash"),
        CallArguments("fc-1", '{"command": "ls é"}'),
        CallEnded("fc-1"),
        CallStarted("call_1", "bash"),
        CallArguments("call_1", "{}"),
        CallEnded("call_1"),
        Usage(output=42),
        Finish(
            "calls",
            {
                "gemini": {
                    "parts": [
                        {"text": 12},
                        {"call": "fc-1", "mark": {"signature": SIGNED}},
                        {"call": "call_1"},
                        {"text": 0, "mark": {"signature": ALSO}},
                    ]
                }
            },
        ),
    ]


async def test_the_first_request() -> None:
    async with playing(Act(thoughtful())) as wire:
        request = Request("Be good.", (FromUser("go"),), (BASH,), max_tokens=99, temperature=0.5)
        await pieces(GEMINI.open(wire), request)
    [asked] = wire.requests
    assert (asked.method, asked.path) == ("POST", "/v1beta/models/gemini-test:streamGenerateContent?alt=sse")
    assert asked.headers["x-goog-api-key"] == KEY
    assert asked.body == {
        "systemInstruction": {"parts": [{"text": "Be good."}]},
        "contents": [{"role": "user", "parts": [{"text": "go"}]}],
        "generationConfig": {"maxOutputTokens": 99, "temperature": 0.5},
        "tools": [
            {
                "functionDeclarations": [
                    {"name": "bash", "description": "Run a command.", "parametersJsonSchema": SCHEMA}
                ]
            }
        ],
    }


async def test_replies_are_sent_back_with_unchanged_signatures() -> None:
    async with playing(Act(thoughtful()), Act(GEMINI.reply("Done.", ()))) as wire:
        first = await reply(GEMINI.open(wire))
        messages = (
            FromUser("go"),
            as_message(first),
            FromTool("fc-1", "bash", "a.py"),
            FromTool("call_1", "bash", "no command", ok=False),
            FromUser("and now?"),
            FromModel("", (Call("x", "bash", "{oops"),)),
        )
        assert (await reply(GEMINI.open(wire), Request("", messages))).text == "Done."

    def answer(id_: str, **result: str) -> dict[str, object]:
        return {"functionResponse": {"id": id_, "name": "bash", "response": result}}

    assert wire.bodies[1] == {
        "generationConfig": {"maxOutputTokens": 16384},
        "contents": [
            {"role": "user", "parts": [{"text": "go"}]},
            {
                "role": "model",
                "parts": [
                    {"text": "I will look."},
                    {
                        "functionCall": {"id": "fc-1", "name": "bash", "args": {"command": "ls é"}},
                        "thoughtSignature": SIGNED,
                    },
                    {"functionCall": {"id": "call_1", "name": "bash", "args": {}}},
                    {"text": "", "thoughtSignature": ALSO},
                ],
            },
            {
                "role": "user",
                "parts": [
                    answer("fc-1", output="a.py"),
                    answer("call_1", error="no command"),
                    {"text": "and now?"},
                ],
            },
            {
                "role": "model",
                "parts": [{"functionCall": {"id": "x", "name": "bash", "args": {"invalid": "{oops"}}}],
            },
        ],
    }


@pytest.mark.parametrize(
    ("chunks", "finish"),
    [
        ([gemini_chunk([{"text": "x"}], "MAX_TOKENS")], "length"),
        ([gemini_chunk([{"text": "x"}], "SAFETY")], "refused"),
        ([gemini_chunk([{"text": "x"}], "OTHER")], "other"),
        ([event({"promptFeedback": {"blockReason": "PROHIBITED_CONTENT"}})], "refused"),
    ],
)
async def test_ends(chunks: list[bytes], finish: str) -> None:
    async with playing(Act(chunks)) as wire:
        assert (await reply(GEMINI.open(wire))).finish == finish


async def test_a_malformed_call_is_retried() -> None:
    broken = Act([gemini_chunk([], "MALFORMED_FUNCTION_CALL")])
    async with playing(broken, Act(GEMINI.reply("Done.", ()))) as wire:
        got = await reply(GEMINI.open(wire))
    assert (got.text, got.attempts) == ("Done.", 2)


def _with_details(status: int, kind: str, message: str, detail: dict[str, object]) -> dict[str, object]:
    return {"error": {**gemini_error(status, kind, message)["error"], "details": [detail]}}


async def test_a_bad_key_with_status_400_is_recognised() -> None:
    detail = {"@type": "type.googleapis.com/google.rpc.ErrorInfo", "reason": "API_KEY_INVALID"}
    body = _with_details(400, "INVALID_ARGUMENT", "API key not valid.", detail)
    async with playing(answer(400, body)) as wire:
        with pytest.raises(Denied, match=r"GEMINI_API_KEY or GOOGLE_API_KEY"):
            await pieces(GEMINI.open(wire))


async def test_the_body_says_when_to_retry() -> None:
    detail = {"@type": "type.googleapis.com/google.rpc.RetryInfo", "retryDelay": "7.5s"}
    body = _with_details(429, "RESOURCE_EXHAUSTED", "You exceeded your current quota.", detail)
    async with playing(answer(429, body)) as wire:
        model = GEMINI.open(wire)
        async with aclosing(model.stream(GO)) as stream:
            again = await anext(stream)
            assert isinstance(again, Again)
            assert (again.attempt, again.wait_s, again.reason) == (2, 7.5, "You exceeded your current quota.")
        await model.close()


async def test_a_used_up_daily_quota_is_not_retried() -> None:
    violation = {"violations": [{"quotaId": "GenerateRequestsPerDayPerProjectPerModel-FreeTier"}]}
    body = _with_details(429, "RESOURCE_EXHAUSTED", "You exceeded your current quota.", violation)
    async with playing(answer(429, body)) as wire:
        with pytest.raises(LimitReached, match="no credit left"):
            await pieces(GEMINI.open(wire))


async def test_implausible_token_counts_are_ignored() -> None:
    end = gemini_chunk([{"text": "Hi."}], "STOP", promptTokenCount=-5, candidatesTokenCount=10**30)
    async with playing(Act([end])) as wire:
        assert (await reply(GEMINI.open(wire))).usage == Usage()
