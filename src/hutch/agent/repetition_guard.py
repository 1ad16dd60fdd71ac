"""Warns a model that repeats itself, and stops it when it continues.

Only the same call with the same result counts, while nothing else changes.
Running the tests after each edit is no repetition, nor is polling a background
command.
"""

import hashlib
import json
from collections import Counter
from dataclasses import field

from hutch.system.lazy_dataclass import dataclass

POLLING = frozenset({"bash_output"})
FAILING_WARNED, FAILING_STOPPED = 3, 6
SAME_WARNED, SAME_STOPPED = 6, 12


@dataclass(slots=True)
class LoopGuard:
    """Counts calls with the same result since the last change."""

    _seen: Counter[bytes] = field(default_factory=Counter)

    def reset(self) -> None:
        """Start counting anew: a file was changed, or a user sent a message."""
        self._seen.clear()

    def record(self, tool: str, arguments: str, text: str, *, ok: bool) -> tuple[str, bool]:
        """Count a call and its result; return a warning for the model, if it is due, and whether to stop."""
        if tool in POLLING:
            return "", False
        key = hashlib.sha256(
            f"{tool}\0{_canonical(arguments)}\0{ok}\0{text}".encode(errors="replace")
        ).digest()
        self._seen[key] += 1
        times = self._seen[key]
        warned, stopped = (SAME_WARNED, SAME_STOPPED) if ok else (FAILING_WARNED, FAILING_STOPPED)
        if times < warned:
            return "", False
        outcome = "given the same result" if ok else "failed in the same way"
        return (
            f"This exact call has now {outcome} {times} times. Repeating it will not help: "
            f"try something else, or finish and say what blocks you."
        ), times >= stopped


def _canonical(arguments: str) -> str:
    try:
        return json.dumps(json.loads(arguments), sort_keys=True)
    except (ValueError, RecursionError):
        return arguments
