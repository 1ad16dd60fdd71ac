"""The result of a test run as lines of text. Does no input or output."""

from collections.abc import Iterator, Mapping
from typing import Any

from hutch.system.terminal_safe_text import one_line, visible

MAX_FAILURES = 20
MAX_LINES = 15  # of one failure
MAX_LINE_CHARS = 300
MAX_NAME_CHARS = 200


def result_lines(event: Mapping[str, Any]) -> Iterator[str]:
    """A `tests.run` in full: the failures, each suite, and the summary last."""
    failed = failed_cases(event)
    for case in failed[:MAX_FAILURES]:
        yield f"FAILED {one_line(str(case.get('name')), MAX_NAME_CHARS)}{place_of(case)}"
        yield from _indented(str(case.get("message") or ""))
        yield ""
    more = int(event.get("failed") or 0) - min(len(failed), MAX_FAILURES)
    if more > 0:
        yield f"{more:,} more failed; --json lists more of them"
    if not failed and not event.get("ok") and not event.get("cancelled") and event.get("output"):
        yield from _indented(str(event["output"]), last=True)
        yield ""
    suites = event.get("suites") or ()
    if len(suites) > 1:
        for suite in suites:
            yield f"{one_line(str(suite.get('name')), MAX_NAME_CHARS)}: {counts_of(suite)}{_why(suite)}"
    yield summary_line(event)
    yield from _indented(str(event.get("reason") or "").partition("\n")[2])  # the end of a log, for example
    if compared := comparison_of(event):
        yield compared


def failed_cases(event: Mapping[str, Any]) -> list[Mapping[str, Any]]:
    """The tests that failed, as far as the event lists them."""
    return [case for case in event.get("cases") or () if case.get("outcome") == "failed"]


def summary_line(event: Mapping[str, Any]) -> str:
    """The outcome of a test run in one line."""
    took = f" in {float(event.get('duration_s') or 0):.1f} s" if event.get("duration_s") else ""
    if event.get("cancelled"):
        return f"cancelled: {counts_of(event)}{took}"
    why = "" if len(event.get("suites") or ()) > 1 else _why(event)  # each suite has its own
    return f"{counts_of(event)}{took}{why}{missing_of(event)}"


def counts_of(event: Mapping[str, Any]) -> str:
    """Numbers of tests: `1 failed, 11 passed`."""
    counts = [f"{event[word]:,} {word}" for word in ("failed", "passed", "skipped") if event.get(word)]
    if counts:
        return ", ".join(counts)
    return "passed, without counts" if event.get("ok") else "no test ran"


def missing_of(event: Mapping[str, Any]) -> str:
    """The suites that were not run, although the tests passed: their runner is not installed."""
    suites = event.get("suites") or () if event.get("ok") else ()
    names = [one_line(str(suite.get("name")), MAX_NAME_CHARS) for suite in suites if not suite.get("ok")]
    return f"; not run, since the runner is missing: {', '.join(names)}" if names else ""


def comparison_of(event: Mapping[str, Any]) -> str:
    """The changes since the run before: `fixed 2, broke 1, 40 unchanged`."""
    if not event.get("compared_with"):
        return ""
    words = [f"{word} {event[word]:,}" for word in ("fixed", "broke") if event.get(word)]
    return ", ".join([*words, f"{event.get('unchanged') or 0:,} unchanged"]) + " since the last run"


def place_of(case: Mapping[str, Any]) -> str:
    """Where a test is: ` at tests/test_a.py:7`."""
    if not case.get("file"):
        return ""
    line = f":{case['line']}" if case.get("line") else ""
    return f" at {one_line(str(case['file']), MAX_NAME_CHARS)}{line}"


def _why(event: Mapping[str, Any]) -> str:
    reason = visible(str(event.get("reason") or "").partition("\n")[0])
    return f": {reason}" if reason else ""


def _indented(text: str, *, last: bool = False) -> Iterator[str]:
    lines = [line for line in text.splitlines() if line.strip()]
    shown = lines[-MAX_LINES:] if last else lines[:MAX_LINES]
    for line in shown:
        cut = line if len(line) <= MAX_LINE_CHARS else f"{line[:MAX_LINE_CHARS]}…"
        yield f"  {visible(cut)}"
    if len(lines) > len(shown):
        yield f"  … {len(lines) - len(shown)} more lines"
