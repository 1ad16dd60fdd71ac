"""The cost of a reply: by the user's own prices, or else by the price list of genai-prices.

It is None when the price is unknown: a wrong zero would be worse.
"""

from collections.abc import Iterable, Mapping
from types import MappingProxyType

from hutch.domain.errors import BadRequest
from hutch.llm.interface import Usage
from hutch.system.lazy_dataclass import dataclass

FREE = ("scripted:", "ollama:")
PROVIDERS = {"gemini": "google"}  # names in the price list
MILLION = 1_000_000


@dataclass(frozen=True, slots=True)
class Price:
    """Dollars per million tokens."""

    input: float
    cached: float
    output: float

    def of(self, usage: Usage) -> float:
        fresh = max(0, usage.input - usage.cached)  # a server may miscount
        return (fresh * self.input + usage.cached * self.cached + usage.output * self.output) / MILLION


Prices = Mapping[str, Price]  # by the names of models
NO_OWN_PRICES: Prices = MappingProxyType({})


def parse_prices(lines: Iterable[str]) -> dict[str, Price]:
    """Read prices from the settings: `provider:name=input/cached/output`."""
    found = {}
    for line in lines:
        model, _, amounts = line.rpartition("=")
        try:
            found[model.strip()] = Price(*map(float, amounts.split("/")))
        except (TypeError, ValueError):
            raise BadRequest(f"'{line}' is not a price. Write: provider:name=input/cached/output.") from None
    return found


def cost_usd(model: str, usage: Usage, own: Prices = NO_OWN_PRICES) -> float | None:
    """The cost of one reply in dollars, or None when the price is unknown."""
    if model in own:
        return own[model].of(usage)
    if model.startswith(FREE):
        return 0.0
    provider, _, name = model.partition(":")
    if provider == "openai-compatible":
        return None
    from genai_prices import Usage as Tokens  # takes half a second to load
    from genai_prices import calc_price

    try:
        tokens = Tokens(
            input_tokens=usage.input,
            cache_read_tokens=usage.cached or None,
            cache_write_tokens=usage.cache_written or None,
            output_tokens=usage.output,
        )
        found = calc_price(tokens, model_ref=name, provider_id=PROVIDERS.get(provider, provider))
    except (LookupError, ValueError):  # an unknown model, or more cached than input tokens
        return None
    return float(found.total_price)


def is_priced(model: str, own: Prices = NO_OWN_PRICES) -> bool:
    """True if the cost of a model can be limited."""
    return cost_usd(model, Usage(input=1, output=1), own) is not None


def unpriced(model: str) -> str:
    """The message for a cost limit on a model without a known price."""
    return (
        f"The price of {model} is unknown, so its cost cannot be limited. Set its price in models.prices, or "
        f"limit tokens, turns or time instead."
    )


def listed_models(provider: str) -> list[str]:
    """The models of a provider in the price list, for when the provider itself does not answer."""
    from genai_prices import data_snapshot

    listed = PROVIDERS.get(provider, provider)
    providers = data_snapshot.get_snapshot().providers
    return [model.id for each in providers if each.id == listed for model in each.models]
