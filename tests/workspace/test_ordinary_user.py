"""All that preparing and layers promise, once more as somebody who is not root."""

import os

import pytest

from tests.ordinary import pytest_as

UID = 54398
# A few together: to load Hutch and pytest anew takes longer than most of them.
SUITES = (
    ("prepare", "source", "uncommitted"),
    ("base", "copy", "fill", "local", "overlay", "quota", "removal"),
)


@pytest.mark.soak  # `make fresh` runs all tests as an ordinary user
@pytest.mark.skipif(os.geteuid() != 0, reason="is an ordinary user already")
@pytest.mark.parametrize("suites", SUITES, ids=lambda suites: suites[0])
def test_as_an_ordinary_user(suites: tuple[str, ...]) -> None:
    pytest_as(UID, *(f"workspace/test_{suite}.py" for suite in suites))
