"""The script that speaks where no model is connected, and says so: what it did is no success.

The script itself does not know who reads it, so it names no option of anybody's. Who
asked is told in their own words what to do.
"""

SCRIPT = "/hutch/llm/offline.json"
BY_OPTION = "with --model"  # how a person at a terminal names a model
BY_FIELD = "in the field `model`"  # and a program over HTTP
_KEY = "`hutch config set-secret anthropic_api_key`"


def is_offline_script(model: str) -> bool:
    """Whether a model, by its whole name, is that script, wherever a worker has it."""
    return model.startswith("scripted:") and model.endswith(SCRIPT)


def no_model_message() -> str:
    """For who works on their own machine."""
    nothing = "No model is connected, so nothing was done."
    return f"{nothing} Set a key with {_KEY}, start an Ollama, or name a model {BY_OPTION}."


def no_model_on_server_message(by: str) -> str:
    """For who asked a server, and names models by something."""
    return (
        "No model is connected to the server, so nothing was done. Whoever runs it sets a key there with "
        f"{_KEY}, or starts an Ollama; or name a model {by} that it has a key for."
    )
