"""The stand-in is known by its name, and everybody is told of it in their own words."""

import pytest

from hutch.domain.no_model import (
    BY_FIELD,
    BY_OPTION,
    is_offline_script,
    no_model_message,
    no_model_on_server_message,
)
from hutch.llm.scripted import OFFLINE


def test_the_script_that_is_used_where_no_model_is_connected() -> None:
    assert is_offline_script(f"scripted:{OFFLINE}")


@pytest.mark.parametrize(
    "model", ["", "scripted:offline.json", f"anthropic:{OFFLINE}", "scripted:/x/offline.json"]
)
def test_others(model: str) -> None:
    assert not is_offline_script(model)


def test_the_script_names_no_option_since_it_does_not_know_who_reads_it() -> None:
    said = OFFLINE.read_text()
    assert "hutch config set-secret" in said and "--model" not in said


def test_who_asked_a_server_is_not_told_to_set_a_key_on_their_own_machine() -> None:
    assert "--model" in no_model_message() and "server" not in no_model_message()
    for by, other in ((BY_FIELD, "--model"), (BY_OPTION, "`model`")):
        told = no_model_on_server_message(by)
        assert by in told and other not in told and "sets a key there" in told
