"""What a reply cost: by the user's own prices, or else by the list prices that come with genai-prices.

None when the price is not known: a wrong zero would be worse.
"""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from types import MappingProxyType

from hutch.domain.errors import BadRequest
from hutch.llm.interface import Usage

FREE = ("scripted:", "ollama:")  # nobody is paid
PROVIDERS = {"gemini": "google"}  # by the names that the price list has
MILLION = 1_000_000


@dataclass(frozen=True, slots=True)
class Price:
    """Dollars for a million tokens."""

    input: float
    cached: float
    output: float

    def of(self, usage: Usage) -> float:
        fresh = max(0, usage.input - usage.cached)  # a server may miscount
        return (fresh * self.input + usage.cached * self.cached + usage.output * self.output) / MILLION


Prices = Mapping[str, Price]  # by the names of models
NONE_OF_OUR_OWN: Prices = MappingProxyType({})


def parse_prices(lines: Iterable[str]) -> dict[str, Price]:
    """Prices as they stand in the settings: `provider:name=input/cached/output`."""
    found = {}
    for line in lines:
        model, _, amounts = line.rpartition("=")
        try:
            found[model.strip()] = Price(*map(float, amounts.split("/")))
        except (TypeError, ValueError):
            raise BadRequest(f"'{line}' is no price. Write: provider:name=input/cached/output.") from None
    return found


def cost_usd(model: str, usage: Usage, own: Prices = NONE_OF_OUR_OWN) -> float | None:
    """The price of one reply in dollars."""
    if model in own:
        return own[model].of(usage)
    if model.startswith(FREE):
        return 0.0
    provider, _, name = model.partition(":")
    if provider == "openai-compatible":
        return None
    from genai_prices import Usage as Tokens  # half a second, for those who pay
    from genai_prices import calc_price

    try:
        tokens = Tokens(
            input_tokens=usage.input,
            cache_read_tokens=usage.cached or None,
            cache_write_tokens=usage.cache_written or None,
            output_tokens=usage.output,
        )
        found = calc_price(tokens, model_ref=name, provider_id=PROVIDERS.get(provider, provider))
    except (LookupError, ValueError):  # no such model, or a server that says more was cached than went in
        return None
    return float(found.total_price)


def is_priced(model: str, own: Prices = NONE_OF_OUR_OWN) -> bool:
    """Whether money can be a limit for a model."""
    return cost_usd(model, Usage(input=1, output=1), own) is not None


def unpriced(model: str) -> str:
    """What to say where money cannot be limited, and what to do."""
    return (
        f"The price of {model} is not known, so money cannot be a limit. Give its price in models.prices, or "
        f"limit tokens, turns or time instead."
    )


def listed_models(provider: str) -> list[str]:
    """The models of a provider that have a price: a list of models for when it cannot be asked."""
    from genai_prices import data_snapshot

    wanted = PROVIDERS.get(provider, provider)
    providers = data_snapshot.get_snapshot().providers
    return [model.id for each in providers if each.id == wanted for model in each.models]
