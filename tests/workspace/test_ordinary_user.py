"""All that preparing and layers promise, once more as somebody who is not root."""

import os

import pytest

from tests.ordinary import pytest_as

UID = 54398
SUITES = ("base", "copy", "fill", "local", "overlay", "prepare", "quota", "removal", "source", "uncommitted")


@pytest.mark.skipif(os.geteuid() != 0, reason="is an ordinary user already")
@pytest.mark.parametrize("suite", SUITES)
def test_as_an_ordinary_user(suite: str) -> None:
    pytest_as(UID, f"workspace/test_{suite}.py")
