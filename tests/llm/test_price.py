"""What a reply cost."""

import pytest

from hutch.llm.names import WITH_KEY
from hutch.llm.price import cost_usd, listed_models
from hutch.llm.seam import Usage


@pytest.mark.parametrize("name", ["scripted:a.yaml", "ollama:qwen3:8b"])
def test_who_is_not_paid(name: str) -> None:
    assert cost_usd(name, Usage(1000, 0, 0, 1000)) == 0.0


@pytest.mark.parametrize("name", ["openai-compatible:gpt-4o", "anthropic:nobody-knows-it", "openai:x"])
def test_an_unknown_price_is_not_zero(name: str) -> None:
    assert cost_usd(name, Usage(1000, 0, 0, 1000)) is None


def test_a_use_that_cannot_be_has_no_price() -> None:
    model = f"anthropic:{WITH_KEY['anthropic']}"
    assert [cost_usd(model, use) for use in (Usage(1, 2, 2, 1), Usage(-1, 0, 0, 1))] == [None, None]


@pytest.mark.parametrize(("provider", "model"), WITH_KEY.items())
def test_the_models_that_are_taken_when_none_is_named_have_a_price(provider: str, model: str) -> None:
    whole = cost_usd(f"{provider}:{model}", Usage(1_000_000, 0, 0, 1000))
    cached = cost_usd(f"{provider}:{model}", Usage(1_000_000, 900_000, 0, 1000))
    assert whole and cached
    assert 0 < cached < whole
    assert model in listed_models(provider)
