"""The cost of a reply."""

import pytest

from hutch.domain.errors import BadRequest
from hutch.llm.interface import Usage
from hutch.llm.model_and_key_names import WITH_KEY
from hutch.llm.reply_cost import Price, cost_usd, is_priced, listed_models, parse_prices


@pytest.mark.parametrize("name", ["scripted:a.yaml", "ollama:qwen3:8b"])
def test_local_models_are_free(name: str) -> None:
    assert cost_usd(name, Usage(1000, 0, 0, 1000)) == 0.0


@pytest.mark.parametrize("name", ["openai-compatible:gpt-4o", "anthropic:nobody-knows-it", "openai:x"])
def test_an_unknown_price_is_not_zero(name: str) -> None:
    assert cost_usd(name, Usage(1000, 0, 0, 1000)) is None


def test_an_impossible_usage_has_no_price() -> None:
    model = f"anthropic:{WITH_KEY['anthropic']}"
    assert [cost_usd(model, use) for use in (Usage(1, 2, 2, 1), Usage(-1, 0, 0, 1))] == [None, None]


@pytest.mark.parametrize(("provider", "model"), WITH_KEY.items())
def test_the_default_models_have_a_price(provider: str, model: str) -> None:
    whole = cost_usd(f"{provider}:{model}", Usage(1_000_000, 0, 0, 1000))
    cached = cost_usd(f"{provider}:{model}", Usage(1_000_000, 900_000, 0, 1000))
    assert whole and cached
    assert 0 < cached < whole
    assert model in listed_models(provider)


def test_the_users_own_prices_win() -> None:
    own = parse_prices(["openai-compatible:a/b:c=2/0.5/10", "ollama:qwen3:8b=1/1/1"])
    assert own["openai-compatible:a/b:c"] == Price(2, 0.5, 10)
    usage = Usage(input=1_000_000, cached=400_000, output=100_000)
    assert cost_usd("openai-compatible:a/b:c", usage, own) == pytest.approx(1.2 + 0.2 + 1.0)
    assert cost_usd("ollama:qwen3:8b", usage, own) == pytest.approx(1.1)
    assert cost_usd("openai-compatible:other", usage, own) is None
    assert [is_priced(name, own) for name in (*own, "openai-compatible:other")] == [True, True, False]


@pytest.mark.parametrize("line", ["", "a:b", "a:b=1/2", "a:b=1/2/x", "a:b=1/2/3/4"])
def test_an_invalid_price_is_refused(line: str) -> None:
    with pytest.raises(BadRequest, match="is not a price"):
        parse_prices([line])
