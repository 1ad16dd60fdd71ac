"""The timeout of a command, and its name in the message when it is hit."""

from dataclasses import replace

import pytest

from hutch.jail.interface import LimitHit
from hutch.jail.policy import AGENT
from hutch.jail.shell.effective_timeout import effective_timeout

LIMITS = AGENT.limits
CAPPED = replace(LIMITS, command_timeout_s=5.0, max_command_timeout_s=5.0)
CAP_HIT = LimitHit("members.command_timeout_s", "5 s")
SHORT = replace(LIMITS, command_total_s=60.0)


@pytest.mark.parametrize(
    ("limits", "asked_s", "yield_s", "silence_s", "expected"),
    [
        (LIMITS, None, None, None, (30.0, LimitHit("command_timeout_s", "30 s"))),
        (LIMITS, 5.0, None, None, (5.0, LimitHit("command_timeout_s", "5 s"))),
        (LIMITS, None, 20.0, 30.0, (600.0, LimitHit("command_total_s", "600 s"))),  # the agent's
        (LIMITS, None, 0.0, None, (None, None)),  # a user's, in the background
        (LIMITS, 3600.0, 0.0, None, (3600.0, LimitHit("command_timeout_s", "3600 s"))),
        (SHORT, 300.0, None, None, (60.0, LimitHit("command_total_s", "60 s"))),
        (SHORT, 5.0, None, None, (5.0, LimitHit("command_timeout_s", "5 s"))),
        (SHORT, None, 0.0, None, (60.0, LimitHit("command_total_s", "60 s"))),
        (CAPPED, 300.0, None, None, (5.0, CAP_HIT)),
        (CAPPED, None, None, None, (5.0, CAP_HIT)),
        (CAPPED, 2.0, None, None, (2.0, LimitHit("command_timeout_s", "2 s"))),
        (CAPPED, 300.0, None, 5.0, (300.0, LimitHit("command_timeout_s", "300 s"))),  # the agent's
        (CAPPED, None, 0.0, None, (None, None)),
        (SHORT, 3600.0, 0.0, None, (60.0, LimitHit("command_total_s", "60 s"))),
    ],
)
def test_timeouts(limits, asked_s, yield_s, silence_s, expected) -> None:  # type: ignore[no-untyped-def]
    assert effective_timeout(limits, asked_s, yield_s, silence_s) == expected
