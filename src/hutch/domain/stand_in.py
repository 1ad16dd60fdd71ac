"""The script that speaks where no model is connected, and says so: what it did is no success."""

SCRIPT = "/hutch/llm/offline.json"


def is_stand_in(model: str) -> bool:
    """Whether a model, by its whole name, is that script, wherever a worker has it."""
    return model.startswith("scripted:") and model.endswith(SCRIPT)
