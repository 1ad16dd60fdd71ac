"""Six marks for how a candidate works with the AI, each from 0 to 2 and with the events that show it.

The marks are found by simple rules that an assessor can read, check at the linked events and override.
They are hints for a person: no mark rejects anyone, and there is no sum.
"""

import re
from collections.abc import Iterable, Sequence
from typing import Literal

from hutch.domain.events import Entry, FileChanged, MessageSent, RanTests, RunQueued
from hutch.system.lazy_dataclass import dataclass

MarkName = Literal["goal", "context", "constraint", "understanding", "verification", "pushback"]
MEANINGS: dict[MarkName, str] = {
    "goal": "says what should come out",
    "context": "gives the file, the error or the test it is about",
    "constraint": "sets limits, such as complexity, style or what must not change",
    "understanding": "asks to understand before asking for a solution",
    "verification": "runs tests or edits the code soon after the AI has changed it",
    "pushback": "questions or corrects an answer",
}
VERIFIED_WITHIN_MS = 180_000
FULL_SHARE = 0.5  # of the prompts, for 2 points


def _any_of(*patterns: str) -> re.Pattern[str]:
    """Any of these words."""
    return re.compile(rf"(?<!\w)({'|'.join(patterns)})(?!\w)", re.IGNORECASE)


_BY_TEXT: dict[MarkName, re.Pattern[str]] = {
    "goal": _any_of(
        r"should|must|needs? to|want|expect|goal|so that|returns?|returning|output",
        r"write|implement|add|fix|make|find|explain",
    ),
    "context": _any_of(
        r"[\w/-]+\.(py|js|ts|go|md|toml|json)|test_\w+|line \d+|`[^`]+`",
        r"\w*(Error|Exception)|traceback|panic|expected|got|fails?|failing|failed",
    ),
    "constraint": _any_of(
        r"O\([^)]{1,20}\)|linear|constant|memory|in place|standard library|edge cases?",
        r"without|only|at most|at least|no more than|don't|do not|must not|never|keep|instead of",
    ),
    "understanding": _any_of(
        r"why|how|what (does|is|are|happens)|explain|understand|difference between",
        r"means?|meaning|hints?|trade-?offs?",
    ),
}
_PUSHBACK = _any_of(
    r"that('s| is) (not|wrong)|isn't right|are you sure|not what i|does(n't| not) work|still fails?",
    r"wrong|incorrect|but (what|why|this|that|it)|i disagree|undo|revert|instead",
    r"too (slow|complex|complicated|long)",
)


@dataclass(frozen=True, slots=True)
class Mark:
    """One mark. None: there was nothing to judge."""

    name: MarkName
    points: int | None
    evidence: tuple[int, ...]  # sequence numbers of the events that show it
    reason: str


def prompt_marks(entries: Iterable[Entry], candidate: str) -> list[Mark]:
    """The marks for one question. `candidate` is the user's id."""
    entries = list(entries)
    prompts = _prompts(entries, candidate)
    marks = [_text_mark(name, pattern, prompts) for name, pattern in _BY_TEXT.items()]
    return [*marks, _verification(entries, candidate), _pushback(prompts)]


def _prompts(entries: Sequence[Entry], candidate: str) -> list[tuple[int, str]]:
    """Number and text of what the candidate wrote to the AI. Each prompt counts once."""
    found: list[tuple[int, str]] = []
    for entry in entries:
        event = entry.event
        if isinstance(event, RunQueued) and event.by == candidate:
            found.append((entry.seq, event.prompt))
        elif isinstance(event, MessageSent) and event.author == "user" and event.by == candidate:
            found.append((entry.seq, event.text))
    return found


def _text_mark(name: MarkName, pattern: re.Pattern[str], prompts: Sequence[tuple[int, str]]) -> Mark:
    if not prompts:
        return Mark(name, None, (), "The candidate wrote no prompts.")
    matching = tuple(seq for seq, text in prompts if pattern.search(text))
    return _share_mark(name, matching, len(prompts), "prompts")


def _share_mark(name: MarkName, matching: tuple[int, ...], total: int, of: str) -> Mark:
    points = 0 if not matching else 2 if len(matching) >= FULL_SHARE * total else 1
    return Mark(name, points, matching, f"{len(matching)} of {total} {of}.")


def _pushback(prompts: Sequence[tuple[int, str]]) -> Mark:
    """Two points from two prompts on: nobody needs to contradict half of the time."""
    if len(prompts) < 2:
        return Mark("pushback", None, (), "There was no answer to question before another prompt.")
    matching = tuple(seq for seq, text in prompts[1:] if _PUSHBACK.search(text))
    return Mark(
        "pushback", min(2, len(matching)), matching, f"{len(matching)} of {len(prompts) - 1} later prompts."
    )


def _verification(entries: Sequence[Entry], candidate: str) -> Mark:
    """The mark for changes of the AI that a test run, or an edit of the same file, followed."""
    open_: dict[str, tuple[int, int]] = {}  # path -> number and time of the AI's newest change
    total, shown = 0, list[int]()
    for entry in entries:
        event = entry.event
        if isinstance(event, FileChanged) and event.by == "agent":
            total += event.path not in open_
            open_[event.path] = (entry.seq, entry.at_ms)
            continue
        paths: list[str] = []
        if isinstance(event, RanTests) and event.by == candidate:
            paths = list(open_)
        elif isinstance(event, FileChanged) and event.by == candidate:
            paths = [event.path] if event.path in open_ else []
        for path in paths:
            if entry.at_ms - open_.pop(path)[1] <= VERIFIED_WITHIN_MS:
                shown.append(entry.seq)
    if not total:
        return Mark("verification", None, (), "The AI changed no file.")
    mark = _share_mark("verification", tuple(shown), total, "changes of the AI")
    return Mark("verification", mark.points, tuple(dict.fromkeys(shown)), mark.reason)
