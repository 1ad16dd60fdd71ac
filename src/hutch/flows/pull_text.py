"""What a pull request says: what was done, what the tests say, what it took, and where to look."""

import html
import re
from collections.abc import Sequence
from dataclasses import dataclass

from hutch.domain.events import Entry, RanTests, RunStarted, SnapshotTaken

# A model's text shall call nobody, and close no issue. What Markdown makes of it counts: emphasis may stand
# in between, and an entity for a letter.
MENTION = re.compile(r"(?<![A-Za-z0-9])@(?=[A-Za-z0-9])")
CLOSING = re.compile(
    r"\b(clos(?:e[sd]?|ing)|fix(?:e[sd]|ing)?|resolv(?:e[sd]?|ing))((?:[^\w\u2060]|_){1,20}?)"
    r"(?=(?:[\w.-]+/[\w.-]+)?#\d|GH-\d|https?://)",
    re.IGNORECASE,
)
ENTITY = re.compile(r"&(?:#[0-9]{1,8}|#[xX][0-9a-fA-F]{1,8}|commat|num);")
NOTHING = "\u2060"  # takes no room, and is no letter of a name


@dataclass(frozen=True, slots=True, kw_only=True)
class About:
    """What is known of a run besides what it said."""

    session_id: str
    run_id: str
    link: str = ""  # to the session
    tests: str = ""
    tests_before: str = ""
    tests_note: str = ""
    cost_usd: float | None = None
    turns: int = 0
    duration_s: float = 0.0
    issue: str = ""


def pull_text(summary: str, about: About) -> str:
    """The text, in Markdown."""
    session = f"[{about.session_id}]({about.link})" if about.link else f"`{about.session_id}`"
    tests = "; ".join(filter(None, [about.tests or "none were run", _before(about), about.tests_note]))
    rows = {
        "Tests": _inert(tests),
        "Cost": _cost(about),
        "Session": session,
        "Asked for in": about.issue,
    }
    lines = [f"- **{name}:** {value}" for name, value in rows.items() if value]
    marks = f"<!-- Hutch-Session: {about.session_id} Hutch-Run: {about.run_id} -->"
    return "\n\n".join(filter(None, [harmless(summary), "\n".join(lines), marks])) + "\n"


def harmless(text: str) -> str:
    """A text that names nobody in a way that calls them, and nothing in a way that closes it."""
    text = ENTITY.sub(_plain, text).replace("<!--", f"<!{NOTHING}--")
    return CLOSING.sub(rf"\1{NOTHING}\2{NOTHING}", MENTION.sub(f"@{NOTHING}", text))


def _inert(text: str) -> str:
    """A line that tests may have printed: harmless, and neither HTML, a link nor an image."""
    return harmless(" ".join(text.split())).replace("<", "&lt;").replace("[", "&#91;")


def _plain(entity: re.Match[str]) -> str:
    """The letter that an entity stands for, where it is one that does something."""
    letter = html.unescape(entity[0])
    return letter if letter in ("@", "#") else entity[0]


def ran_before(entries: Sequence[Entry], run_id: str) -> RanTests | None:
    """The last run of the tests in a run before it changed anything."""
    found, running, first = None, False, None
    for entry in entries:
        match entry.event:
            case RunStarted(run_id=id):
                running, found = id == run_id, None
            case SnapshotTaken(tree=tree):
                if running and first is not None and tree != first:
                    return found
                first = tree
            case RanTests() as ran if running:
                found = ran
    return None  # it changed nothing: then all of them are of before, and there is nothing to compare


def _before(about: About) -> str:
    return f"before: {about.tests_before}" if about.tests_before else ""


def _cost(about: About) -> str:
    parts = [f"${about.cost_usd:.2f}"] if about.cost_usd else []
    parts += [f"{about.turns} turn{'s' if about.turns != 1 else ''}"] if about.turns else []
    parts += [f"{about.duration_s:.0f} s"] if about.duration_s >= 1 else []
    return ", ".join(parts)
