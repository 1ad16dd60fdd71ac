"""A model that goes in circles is told so, and stopped when it goes on.

What counts is the very same call with the very same result, again and again,
while nothing else changes. Running the tests after each edit is no circle, nor
is asking a background command how it is getting on.
"""

import hashlib
import json
from collections import Counter
from dataclasses import dataclass, field

POLLING = frozenset({"bash_output"})
FAILING_TOLD, FAILING_STOPPED = 3, 6
SAME_TOLD, SAME_STOPPED = 6, 12


@dataclass(slots=True)
class LoopGuard:
    """Counts calls that led to the same result since anything changed."""

    _seen: Counter[bytes] = field(default_factory=Counter)

    def changed(self) -> None:
        """Something is different now: a file was changed, or a person spoke."""
        self._seen.clear()

    def seen(self, tool: str, arguments: str, text: str, *, ok: bool) -> tuple[str, bool]:
        """Note a call and its result: a word to the model, if one is due, and whether to stop."""
        if tool in POLLING:
            return "", False
        key = hashlib.sha256(
            f"{tool}\0{_canonical(arguments)}\0{ok}\0{text}".encode(errors="replace")
        ).digest()
        self._seen[key] += 1
        times = self._seen[key]
        told, stopped = (SAME_TOLD, SAME_STOPPED) if ok else (FAILING_TOLD, FAILING_STOPPED)
        if times < told:
            return "", False
        outcome = "gave the same result" if ok else "failed in the same way"
        return (
            f"This very call has now {outcome} {times} times. Doing it again will not help: "
            f"try something else, or say what is in the way and finish."
        ), times >= stopped


def _canonical(arguments: str) -> str:
    try:
        return json.dumps(json.loads(arguments), sort_keys=True)
    except (ValueError, RecursionError):
        return arguments
