"""Messages about limits that were hit: which limit, and how to avoid it."""

import asyncio
import os

from hutch.jail.interface import Exit, LimitHit
from hutch.jail.jail_startup import Jailed
from hutch.jail.policy import PROFILES, Policy
from hutch.settings import Settings

POLL_INTERVAL_S = 0.5


class Hits:
    """Reports each limit that is hit in a jail, once."""

    def __init__(self, jail: Jailed, chosen: Settings) -> None:
        self._jail = jail
        self._chosen = chosen
        self._mark = jail.mark()
        self._reported: set[LimitHit] = set()

    def since_last(self, ended: Exit | None = None) -> list[str]:
        """A message for each new hit; `ended` is the exit of a program that has just ended."""
        hits = [hit for hit in self._jail.limits_hit(self._mark, ended) if hit not in self._reported]
        self._reported.update(hits)
        return [message(hit, self._jail.policy, self._chosen) for hit in hits]

    @property
    def any(self) -> bool:
        """True if any hit was reported."""
        return bool(self._reported)

    def reset(self) -> None:
        """Forget the reported hits, so that the same limits are reported again."""
        self._mark, self._reported = self._jail.mark(), set()

    async def show(self) -> None:
        """Report hits as they happen, on a terminal in raw mode."""
        while True:
            await asyncio.sleep(POLL_INTERVAL_S)
            for sentence in self.since_last():
                os.write(2, f"\r\nhutch: {sentence}\r\n".encode())


def message(hit: LimitHit, policy: Policy, chosen: Settings) -> str:
    """The limit that was hit, and how to raise it if that is possible."""
    own = getattr(PROFILES[policy.profile].limits, hit.limit, None)
    is_set = hit.limit in type(chosen.jail).model_fields
    if policy.profile != "agent" and own == getattr(policy.limits, hit.limit, None):
        name, hint = hit.limit, f"It comes from --profile {policy.profile}. Use less, or --profile agent."
    elif hit.limit == "file_bytes" and chosen.jail.file_bytes is None:
        name, hint = (
            hit.limit,
            "Write smaller files, or raise jail.workspace_growth_bytes in your settings.",
        )
    elif is_set:
        setting = f"jail.{hit.raise_by or hit.limit}"
        name, hint = f"jail.{hit.limit}", f"Use less, or raise {setting} in your settings."
    else:
        name, hint = hit.limit, "It cannot be raised. Use less."
    return f"The limit {name} ({hit.value}) was hit. {hint}"
