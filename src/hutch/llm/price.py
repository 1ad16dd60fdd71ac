"""What a reply cost, by the list prices that come with genai-prices; None when the price is not known."""

from hutch.llm.seam import Usage

FREE = ("scripted:", "ollama:")  # nobody is paid
PROVIDERS = {"gemini": "google"}  # by the names that the price list has


def cost_usd(model: str, usage: Usage) -> float | None:
    """The price of one reply in dollars. A wrong zero would be worse than none."""
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


def listed_models(provider: str) -> list[str]:
    """The models of a provider that have a price: a list of models for when it cannot be asked."""
    from genai_prices import data_snapshot

    wanted = PROVIDERS.get(provider, provider)
    providers = data_snapshot.get_snapshot().providers
    return [model.id for each in providers if each.id == wanted for model in each.models]
