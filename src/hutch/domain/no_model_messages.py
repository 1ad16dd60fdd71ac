"""Messages for runs without a model. The offline script replies to these, and such a run is not a success.

The script does not know its reader, so it names no option. These messages name the option
or field of each kind of caller.
"""

SCRIPT = "/hutch/llm/offline.json"
BY_OPTION = "with --model"  # how command-line users name a model
BY_FIELD = "in the field `model`"  # how HTTP clients name a model
NOTHING_DONE = "No model is connected, so nothing was done."
_KEY = "`hutch config set-secret anthropic_api_key`"


def is_offline_script(model: str) -> bool:
    """True if a full model name is the offline script, wherever it is installed."""
    return model.startswith("scripted:") and model.endswith(SCRIPT)


def no_model_reason() -> str:
    """The reason of a failed run with the offline script, for all kinds of callers."""
    return f"{NOTHING_DONE} Where Hutch runs, set a key with {_KEY}, or start an Ollama."


def no_model_message() -> str:
    """For a user who runs the agent on their own machine."""
    return f"{NOTHING_DONE} Set a key with {_KEY}, start an Ollama, or name a model {BY_OPTION}."


def no_model_on_server_message(by: str) -> str:
    """For a client of a server; `by` says how the client names a model."""
    return (
        "No model is connected to the server, so nothing was done. Its operator can set a key with "
        f"{_KEY}, or start an Ollama; or name a model {by} that it has a key for."
    )
