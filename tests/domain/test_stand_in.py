"""The stand-in is known by its name."""

import pytest

from hutch.app.models import OFFLINE
from hutch.domain.stand_in import is_stand_in


def test_the_script_that_is_used_where_no_model_is_connected() -> None:
    assert is_stand_in(f"scripted:{OFFLINE}")


@pytest.mark.parametrize(
    "model", ["", "scripted:offline.json", f"anthropic:{OFFLINE}", "scripted:/x/offline.json"]
)
def test_others(model: str) -> None:
    assert not is_stand_in(model)
