"""The timeout of a command in a shell, from the request and the limits of the jail."""

import math
from dataclasses import replace

from hutch.jail.interface import LimitHit
from hutch.jail.jail_request_validation import check_timeout
from hutch.jail.limits.command_timeout_cap import capped_timeout
from hutch.jail.policy import MAX_TIMEOUT_S, Limits

MAX_BACKGROUND_S = 7 * 24 * 3600.0


def effective_timeout(
    limits: Limits, asked_s: float | None, yield_s: float | None, silence_s: float | None
) -> tuple[float | None, LimitHit | None]:
    """The timeout of a command, and the limit that it is. A user's command in the background has none,
    unless the jail's total is lower than the default. With `silence_s`, the cap on members limits the
    silence, not the time in all."""
    if asked_s is not None:
        check_timeout(asked_s, MAX_TIMEOUT_S if yield_s is None else MAX_BACKGROUND_S)
    elif yield_s is None and silence_s is None:
        asked_s = limits.command_timeout_s
    if silence_s is not None:
        limits = replace(limits, max_command_timeout_s=None)
    is_capped = asked_s is not None and limits.max_command_timeout_s is not None
    is_bound = limits.command_total_s < MAX_TIMEOUT_S
    if asked_s is None and (silence_s is not None or is_bound):
        asked_s, limits = math.inf, replace(limits, max_command_timeout_s=None)
    if asked_s is None:
        return None, None
    if asked_s == math.inf or is_bound or is_capped:
        return capped_timeout(asked_s, limits)
    return asked_s, LimitHit("command_timeout_s", f"{asked_s:g} s")
