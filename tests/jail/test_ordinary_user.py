"""All that a jail and its shells promise, once more as somebody who is not root."""

import os

import pytest

from tests.ordinary import pytest_as

UID = 54399
SUITES = (
    "contracts/test_jail_contract.py",
    *(
        f"jail/test_{name}.py"
        for name in (
            *("control", "walls", "warden", "limits", "limits_hidden", "launch", "oom", "place"),
            *("seccomp", "shell", "background", "members", "usage", "nameless", "watch"),
        )
    ),
)


@pytest.mark.skipif(os.geteuid() != 0, reason="is an ordinary user already")
@pytest.mark.parametrize("suite", SUITES)
def test_as_an_ordinary_user(suite: str) -> None:
    pytest_as(UID, suite)
