"""The text of a pull request: the summary, the test results, the cost and a link to the session."""

from collections.abc import Sequence

from hutch.domain.dollar_amount_formatting import dollars
from hutch.domain.events import Entry, RanTests, RunStarted, SnapshotTaken
from hutch.forge.posted_text_escaping import escape_references
from hutch.system.lazy_dataclass import dataclass

MAX_REASON_CHARS = 500  # why tests could not be run


@dataclass(frozen=True, slots=True, kw_only=True)
class About:
    """The facts about a run besides its own summary."""

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
    return "\n\n".join(filter(None, [escape_references(summary), "\n".join(lines), marks])) + "\n"


def _inert(text: str) -> str:
    """Escape a line that tests may have printed: no mentions, HTML, links or images."""
    return escape_references(" ".join(text.split())).replace("<", "&lt;").replace("[", "&#91;")


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
            case RanTests() as ran if running and ran.run_id == run_id:
                found = ran
    return None  # it changed nothing, so there is nothing to compare


def _before(about: About) -> str:
    return f"before: {about.tests_before}" if about.tests_before else ""


def _cost(about: About) -> str:
    parts = [dollars(about.cost_usd)] if about.cost_usd else []
    parts += [f"{about.turns} turn{'s' if about.turns != 1 else ''}"] if about.turns else []
    parts += [f"{about.duration_s:.0f} s"] if about.duration_s >= 1 else []
    return ", ".join(parts)


def describe_tests(tests: RanTests | None) -> str:
    """The last test result in one line; the reason, if the tests failed as a whole."""
    if tests is None:
        return ""
    counts = count_tests(tests.failed, tests.passed, tests.skipped)
    if tests.ok and not (tests.failed or tests.passed or tests.skipped):
        counts = "passed, without counts"
    if tests.ok or tests.failed:
        missing = ", ".join(suite.name for suite in tests.suites if not suite.ok) if tests.ok else ""
        return f"{counts}; not run, since the runner is missing: {missing}" if missing else counts
    # A removed character is replaced by a space: otherwise two parts could join to a secret.
    why = " ".join("".join(sign if sign.isprintable() else " " for sign in tests.reason).split())
    why = why if len(why) <= MAX_REASON_CHARS else f"{why[: MAX_REASON_CHARS - 1]}…"
    return f"failed as a whole: {why.rstrip('.')}" if why else f"failed as a whole, {counts}"


def count_tests(failed: int, passed: int, skipped: int) -> str:
    counts = {"failed": failed, "passed": passed, "skipped": skipped}
    return ", ".join(f"{count} {word}" for word, count in counts.items() if count) or "none were found"
