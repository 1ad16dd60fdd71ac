"""The list of usable models, with real servers on sockets of this machine."""

import os
from pathlib import Path

import pytest

from hutch.app.models import access
from hutch.flows.model_list import ProviderState, list_models
from hutch.settings import load
from tests.flows.test_model_availability import answer, refused, served

pytestmark = pytest.mark.anyio


async def state_of(home: Path, provider: str, url: str) -> ProviderState:
    models = {f"{provider.replace('-', '_')}_base_url": url}
    loaded = load({"models": models}, environ={"HUTCH_HOME": str(home), "PATH": os.defpath})
    listed = await list_models(access(loaded, {}), "scripted:x")
    return next(each for each in listed.providers if each.name == provider)


async def test_an_ollama_is_usable_only_if_it_answers_and_has_a_model(tmp_path: Path) -> None:
    url = await refused()
    reason = f"no Ollama answers at {url}. Start it: ollama serve"
    assert await state_of(tmp_path, "ollama", url) == ProviderState("ollama", False, reason, None)
    async with served(answer("nomic-embed-text:latest")) as url:
        reason = f"the Ollama at {url} has no model. Download one: ollama pull NAME"
        assert await state_of(tmp_path, "ollama", url) == ProviderState("ollama", False, reason, None)
    async with served(answer("qwen3:8b")) as url:
        found = await state_of(tmp_path, "ollama", url)
        assert found == ProviderState("ollama", True, f"asked at {url}", "ollama:qwen3:8b")


async def test_a_compatible_server_is_usable_only_if_it_answers(tmp_path: Path) -> None:
    name, url = "openai-compatible", await refused()
    reason = f"no server answers at {url}. Start it, or change models.openai_compatible_base_url"
    assert await state_of(tmp_path, name, url) == ProviderState(name, False, reason, None)
    async with served(answer(status="404 Not Found")) as url:
        assert await state_of(tmp_path, name, url) == ProviderState(name, True, f"asked at {url}", None)
