"""Limits that were hit, told to the person at the terminal: which, and what would help."""

import asyncio
import os

from hutch.jail.interface import Exit, LimitHit
from hutch.jail.jail import Jailed
from hutch.jail.policy import PROFILES, Policy
from hutch.settings import Settings

POLL_INTERVAL_S = 0.5


class Hits:
    """Each limit that is hit in a jail, told once."""

    def __init__(self, jail: Jailed, chosen: Settings) -> None:
        self._jail = jail
        self._chosen = chosen
        self._mark = jail.mark()
        self._told: set[LimitHit] = set()

    def since_last(self, ended: Exit | None = None) -> list[str]:
        """A sentence for each that was hit and is not told yet; `ended` is how a program ended just now."""
        hits = [hit for hit in self._jail.limits_hit(self._mark, ended) if hit not in self._told]
        self._told.update(hits)
        return [in_words(hit, self._jail.policy, self._chosen) for hit in hits]

    @property
    def any(self) -> bool:
        """Whether any was told."""
        return bool(self._told)

    def begin_anew(self) -> None:
        """What was hit until now may be hit and told again."""
        self._mark, self._told = self._jail.mark(), set()

    async def show(self) -> None:
        """Tell them while they happen, on a terminal that is in raw mode."""
        while True:
            await asyncio.sleep(POLL_INTERVAL_S)
            for sentence in self.since_last():
                os.write(2, f"\r\nhutch: {sentence}\r\n".encode())


def in_words(hit: LimitHit, policy: Policy, chosen: Settings) -> str:
    """What was hit, and how to have more of it, if one can."""
    own = getattr(PROFILES[policy.profile].limits, hit.limit, None)
    is_set = hit.limit in type(chosen.jail).model_fields
    if policy.profile != "agent" and own == getattr(policy.limits, hit.limit, None):
        name, way_out = hit.limit, f"It is that of --profile {policy.profile}; use less, or --profile agent."
    elif hit.limit == "file_bytes":
        name, way_out = (
            hit.limit,
            "Make smaller files, or raise jail.workspace_growth_bytes in your settings.",
        )
    elif is_set:
        name, way_out = f"jail.{hit.limit}", f"Use less, or raise jail.{hit.limit} in your settings."
    else:
        name, way_out = hit.limit, "It cannot be raised: use less."
    return f"The limit {name} ({hit.value}) was hit. {way_out}"
