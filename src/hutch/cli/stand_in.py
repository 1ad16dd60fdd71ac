"""Where no model is connected, a script of Hutch's own speaks and says so: that is no success."""

from hutch.domain.stand_in import is_stand_in

__all__ = ["NO_MODEL", "is_stand_in"]

NO_MODEL = (
    "No model is connected, so nothing was done. Set a key with `hutch config set-secret anthropic_api_key`, "
    "start an Ollama, or name a model with --model."
)
