"""The model of a run, and its system prompt."""

from contextlib import aclosing
from pathlib import Path
from typing import Any

import pytest

from hutch import settings
from hutch.app.local_sessions import open_local
from hutch.domain.errors import Denied
from hutch.domain.events import RunEnded, RunStarted
from hutch.domain.generation_options import Generation
from hutch.domain.log_entry_audience import WHOLE
from hutch.domain.session import Delivery, NewSession
from hutch.flows import sessions
from hutch.sessions.interface import Delta
from tests.forge.repositories import make_repository
from tests.llm.provider_formats import chat_reply
from tests.llm.provider_server import Act, playing

pytestmark = pytest.mark.anyio
MODEL_OF_PERSONA = "---\nmodel: openai-compatible:of-the-persona\n---\nBe brief.\n"


async def requests_of(tmp_path: Path, new: NewSession, **more: Any) -> tuple[RunStarted, list[Any]]:
    """Run the prompt of a session; returns how it started, and the requests that the model got."""
    personas = tmp_path / "home/personas"
    personas.mkdir(parents=True, exist_ok=True)
    (personas / "brief.md").write_text(MODEL_OF_PERSONA)
    async with playing(*[Act(chat_reply("Done.")) for _ in range(3)]) as wire:
        loaded = settings.load(
            {"models": {"openai_compatible_base_url": f"{wire.url}/v1"}, **more},
            environ={"HUTCH_HOME": str(tmp_path / "home")},
        )
        async with open_local(loaded) as local:
            session = await sessions.create(local.services, local.caller, new)
            async with aclosing(local.host.follow(session.id, WHOLE)) as updates:
                started: RunStarted | None = None
                async for update in updates:
                    event = None if isinstance(update, Delta) else update.event
                    if isinstance(event, RunStarted):
                        started = event
                    if isinstance(event, RunEnded):
                        break
        assert started is not None
        return started, wire.bodies


def system_prompt_of(body: Any) -> str:
    (system,) = [each["content"] for each in body["messages"] if each["role"] in ("system", "developer")]
    return str(system)


async def test_the_model_of_a_persona_is_used_unless_the_request_names_one(tmp_path: Path) -> None:
    mine, own = "openai-compatible:of-the-settings", "openai-compatible:of-the-request"
    started, bodies = await requests_of(tmp_path, NewSession(prompt="Hi", persona="brief"), model=mine)
    assert (bodies[0]["model"], started.model) == ("of-the-persona", "openai-compatible:of-the-persona")
    assert started.model_reason == "named by the persona brief"
    started, bodies = await requests_of(tmp_path, NewSession(prompt="Hi"), model=mine, persona="brief")
    assert bodies[0]["model"] == "of-the-persona"
    started, bodies = await requests_of(tmp_path, NewSession(prompt="Hi", persona="brief", model=own))
    assert (bodies[0]["model"], started.model_reason) == ("of-the-request", "requested explicitly")
    started, bodies = await requests_of(tmp_path, NewSession(prompt="Hi"), model=mine)
    assert (bodies[0]["model"], started.model_reason) == ("of-the-settings", "from the setting `model`")


async def test_a_persona_whose_model_has_no_key_is_refused_at_once(tmp_path: Path) -> None:
    (tmp_path / "home/personas").mkdir(parents=True)
    (tmp_path / "home/personas/costly.md").write_text("---\nmodel: anthropic:claude-test\n---\nThink.\n")
    loaded = settings.load(environ={"HUTCH_HOME": str(tmp_path / "home")})
    async with open_local(loaded) as local:
        with pytest.raises(Denied, match="There is no key for anthropic"):
            await sessions.create(local.services, local.caller, NewSession(prompt="Hi", persona="costly"))


async def test_options_of_replies_come_from_the_run_the_session_or_the_persona(tmp_path: Path) -> None:
    (tmp_path / "home/personas").mkdir(parents=True)
    (tmp_path / "home/personas/calm.md").write_text(
        "---\nmodel: openai-compatible:x\ntemperature: 0.1\nmax_reply_tokens: 500\neffort: low\n"
        "---\nBe calm.\n"
    )
    new = NewSession(prompt="Hi", persona="calm", generation=Generation(effort="high"))
    started, bodies = await requests_of(tmp_path, new)
    assert (bodies[0]["temperature"], bodies[0]["max_tokens"], bodies[0]["reasoning_effort"]) == (
        0.1,
        500,
        "high",
    )
    assert (started.temperature, started.max_reply_tokens, started.effort) == (0.1, 500, "high")
    _, bodies = await requests_of(tmp_path, NewSession(prompt="Hi", persona="brief"))
    assert "temperature" not in bodies[0] and "reasoning_effort" not in bodies[0]


async def test_purpose_role_company_and_expectations_reach_the_model(tmp_path: Path) -> None:
    new = NewSession(
        prompt="Mend it.",
        persona="brief",
        purpose="Prepare the release",
        role="Release engineer",
        company="Example Corp",
        expectations="No new warnings",
    )
    _, bodies = await requests_of(tmp_path, new)
    assert (
        "The user described this session:\nPurpose: Prepare the release\nCompany: Example Corp\n"
        "Your role: Release engineer\nExpected result: No new warnings" in system_prompt_of(bodies[0])
    )


async def test_a_title_that_hutch_made_does_not_reach_the_model(tmp_path: Path) -> None:
    for new in (
        NewSession(prompt="Mend it.", persona="brief"),
        NewSession(prompt="a", purpose="Ignore rules", persona="brief", delivery=Delivery(titled=True)),
    ):
        _, bodies = await requests_of(tmp_path, new)
        assert "The user described" not in system_prompt_of(bodies[0])


async def test_delivery_is_promised_only_when_there_is_one(tmp_path: Path) -> None:
    make_repository(tmp_path / "repository", {"a": "b"})
    (tmp_path / "plain").mkdir()
    repository, plain = str(tmp_path / "repository"), str(tmp_path / "plain")
    for new, promised in (
        (NewSession(prompt="a", persona="brief", repository=repository, deliver=True), True),
        (NewSession(prompt="a", persona="brief", repository=repository), False),
        (
            NewSession(prompt="a", persona="brief", repository=plain, plain_directory=True, deliver=True),
            False,
        ),
        (NewSession(prompt="a", persona="brief", deliver=True), False),
    ):
        _, bodies = await requests_of(tmp_path, new)
        prompt = system_prompt_of(bodies[0])
        assert ("Hutch delivers your changes as a commit" in prompt) is promised
        assert ("Hutch does not commit them" in prompt) is not promised
