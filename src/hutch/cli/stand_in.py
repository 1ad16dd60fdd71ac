"""Where no model is connected, a script of Hutch's own speaks and says so: that is no success."""

NO_MODEL = (
    "No model is connected, so nothing was done. Set a key with `hutch config set-secret anthropic_api_key`, "
    "start an Ollama, or name a model with --model."
)
SCRIPT = "/hutch/llm/offline.json"


def is_stand_in(model: str) -> bool:
    """Whether a model, by its whole name, is that script."""
    return model.startswith("scripted:") and model.endswith(SCRIPT)
