"""Reads counts from the last lines of an output, for commands with an unknown runner.

`make test` may run anything. When its output ends like that of a known runner, the
counts come from there; otherwise only the exit code counts.
"""

import re

from hutch.agent.repository_testing.test_results import Counts
from hutch.agent.text_for_model import strip_escapes

TAIL_BYTES = 64 * 1024
COUNT = re.compile(r"(\d{1,7}) (passed|failed|skipped|errors?|xfailed|xpassed|todo|pending|ignored)\b")
LINES = (
    re.compile(r"^=* ?(?:\d+ \w+, )*\d+ \w+ in [\d.]+s.*$"),  # pytest
    re.compile(r"^ *Tests:? +\d+ \w+(?:(?:, | \| )\d+ \w+)*.*$"),  # Jest, Vitest
    re.compile(r"^test result: \w+\. .*$"),  # cargo
)
NOTHING = re.compile(r"^=* ?no tests ran in [\d.]+s.*$|^No tests? (?:files? )?found\b.*$", re.IGNORECASE)
UNITTEST = re.compile(r"^Ran (\d{1,7}) tests? in [\d.]+s$")
UNITTEST_END = re.compile(r"^(?:OK|FAILED)(?: \((.{1,200})\))?$")
MOCHA = re.compile(r"^\s+(\d{1,7}) (passing|failing|pending)\b")


def summary(data: bytes) -> Counts | None:
    """The counts of all summaries at the end of an output, or None when there is none."""
    found = Counts()
    seen = False
    ran: int | None = None
    for line in strip_escapes(data[-TAIL_BYTES:].decode(errors="replace")).splitlines():
        line = line[:500]
        if any(pattern.match(line) for pattern in LINES) and (counts := COUNT.findall(line)):
            found, seen = found + _counted(counts), True
        elif NOTHING.match(line):
            seen = True
        elif match := UNITTEST.match(line):
            ran, seen = int(match[1]), True
        elif ran is not None and (match := UNITTEST_END.match(line)):
            found, ran = found + _unittest(ran, match[1] or ""), None
        elif match := MOCHA.match(line):
            words = {"passing": "passed", "failing": "failed", "pending": "skipped"}
            found, seen = found + _counted([(match[1], words[match[2]])]), True
    return found if seen else None


def _counted(counts: list[tuple[str, str]]) -> Counts:
    passed = failed = skipped = 0
    for number, word in counts:
        match word:
            case "passed" | "xpassed" | "xfailed":
                passed += int(number)
            case "failed" | "error" | "errors":
                failed += int(number)
            case _:
                skipped += int(number)
    return Counts(passed, failed, skipped)


def _unittest(ran: int, details: str) -> Counts:
    named = {name: int(number) for name, number in re.findall(r"([\w ]+)=(\d{1,7})", details)}
    failed = sum(named.get(name, 0) for name in ("failures", "errors", " errors", " unexpected successes"))
    skipped = named.get("skipped", 0) + named.get(" skipped", 0)
    return Counts(max(ran - failed - skipped, 0), failed, skipped)
