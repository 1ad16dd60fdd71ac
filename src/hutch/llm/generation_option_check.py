"""Refuses generation options that a provider would refuse in the middle of a run."""

from hutch.domain.errors import BadRequest
from hutch.domain.generation_options import Generation
from hutch.llm.model_and_key_names import parse_model_name

MAX_TEMPERATURES = {"anthropic": 1.0}  # others: 2
EXCLUSIVE = ("anthropic", "openai")  # their models think only at their own temperature


def check_generation(model: str, options: Generation) -> None:
    """Refuse options that the model's provider does not accept. A script has no use for them and ignores
    them."""
    provider = parse_model_name(model).provider
    temperature = options.temperature
    max_temperature = MAX_TEMPERATURES.get(provider)
    if temperature is not None and max_temperature is not None and temperature > max_temperature:
        raise BadRequest(
            f"The temperature is {temperature:g}; {provider} accepts at most {max_temperature:g}. Lower it."
        )
    if temperature is not None and options.effort is not None and provider in EXCLUSIVE:
        raise BadRequest(
            f"{provider} accepts either a temperature or an effort, not both (temperature {temperature:g}, "
            f"effort {options.effort}). Omit one."
        )
