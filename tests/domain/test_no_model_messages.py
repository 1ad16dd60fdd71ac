"""The offline script is recognised by its name, and each kind of caller gets its own message."""

import pytest

from hutch.domain.no_model_messages import (
    BY_FIELD,
    BY_OPTION,
    is_offline_script,
    no_model_message,
    no_model_on_server_message,
)
from hutch.llm.scripted_model import OFFLINE


def test_the_script_that_is_used_where_no_model_is_connected() -> None:
    assert is_offline_script(f"scripted:{OFFLINE}")


@pytest.mark.parametrize(
    "model", ["", "scripted:offline.json", f"anthropic:{OFFLINE}", "scripted:/x/offline.json"]
)
def test_others(model: str) -> None:
    assert not is_offline_script(model)


def test_the_script_names_no_option_because_its_reader_is_unknown() -> None:
    script = OFFLINE.read_text()
    assert "hutch config set-secret" in script and "--model" not in script


def test_clients_of_a_server_are_not_asked_to_set_a_key_on_their_own_machine() -> None:
    assert "--model" in no_model_message() and "server" not in no_model_message()
    for by, other in ((BY_FIELD, "--model"), (BY_OPTION, "`model`")):
        message = no_model_on_server_message(by)
        assert by in message and other not in message and "Its operator can set a key" in message
