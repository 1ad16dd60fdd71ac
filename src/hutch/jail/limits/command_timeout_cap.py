"""The timeout that a command gets: the one that it asks for, or a lower one of its jail or of members."""

import math

from hutch.jail.interface import LimitHit
from hutch.jail.policy import Limits

MEMBERS_TIMEOUT = "members.command_timeout_s"


def capped_timeout(asked_s: float, limits: Limits) -> tuple[float, LimitHit]:
    """The timeout of a command that asks for this one, and the limit that it is: its own, or a lower one of
    the jail or of members."""
    own = (asked_s, "command_timeout_s")
    total = (limits.command_total_s, "command_total_s")
    cap = (limits.max_command_timeout_s or math.inf, MEMBERS_TIMEOUT)
    timeout_s, name = min(cap, own, total, key=lambda each: each[0])  # the first of equal ones
    return timeout_s, LimitHit(name, f"{timeout_s:g} s")
