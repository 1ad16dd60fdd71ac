"""Reads results from the output of runners: the events of `go test`, Jest's JSON, cargo's lines.

The output was written inside the jail and is hostile. It is read in one pass, with
bounds, and only for its tests and their counts.
"""

import io
import json
import re
from collections import defaultdict
from collections.abc import Callable, Iterable, Iterator
from functools import partial
from typing import Any, get_args

from hutch.agent.repository_testing.bounded_line_split import MAX_PARTS, lines_of
from hutch.agent.repository_testing.failed_test_message import failure, own_path
from hutch.agent.repository_testing.junit_xml_parser import junit, pytest_junit
from hutch.agent.repository_testing.parsed_result_tally import Tally, parsed_line, parsed_number
from hutch.agent.repository_testing.tap_output_parser import tap
from hutch.agent.repository_testing.test_results import Counts, Failure
from hutch.agent.repository_testing.unknown_runner_counts import summary
from hutch.domain.test_run_events import Outcome

MAX_BYTES = 32 * 1024 * 1024
GO_OUTCOMES: dict[str, Outcome] = {"pass": "passed", "fail": "failed", "skip": "skipped"}
JEST_OUTCOMES: dict[str, Outcome] = {"passed": "passed", "failed": "failed"}
GO_LINE = re.compile(rb'^\{[^\n]{0,300}"Action":', re.MULTILINE)
MAX_SNIFFED_BYTES = 64 * 1024
BLOCK_LINES = 60  # of one failure's message
GO_NOISE = ("=== ", "--- ", "FAIL", "ok  \t", "PASS", "exit status")


def go_events(data: bytes) -> Counts | None:
    """`go test -json`: one event per line. A test with subtests counts only if it failed and they did not."""
    ends: dict[tuple[str, str], tuple[Outcome, float]] = {}
    outputs: defaultdict[tuple[str, str], list[str]] = defaultdict(list)
    broken: list[str] = []
    for event in _json_lines(data):
        # Output of a build has a package name of its own: "example.com/x [example.com/x.test]".
        package = str(event.get("Package") or event.get("ImportPath") or "").partition(" ")[0]
        key = package, str(event.get("Test") or "")
        match event.get("Action"):
            case "output" | "build-output":
                outputs[key].append(str(event.get("Output", "")))
            case "pass" | "fail" | "skip" as end if key[1]:
                ends[key] = GO_OUTCOMES[end], parsed_number(event.get("Elapsed", 0))
            case "fail":
                broken.append(package)
    if not ends and not broken:
        return Counts() if data.strip().startswith(b"{") else None
    failed = [key for key, (outcome, _) in ends.items() if outcome == "failed"]
    parents, with_failed_subtests = _with_subtests(ends), _with_subtests(failed)
    failing = {package for package, _ in failed}
    tally = Tally()
    for key, (outcome, took) in ends.items():
        if key not in parents or (outcome == "failed" and key not in with_failed_subtests):
            describe = partial(_go_failure, ".".join(key), outputs[key])
            tally.add(outcome, ".".join(key), duration_s=took, selector=" ".join(key), describe=describe)
    for package in broken:
        if package not in failing:  # it did not build, or quit in the middle
            tally.add("failed", package, describe=partial(_go_failure, package, outputs[package, ""]))
    return tally.counts()


def _with_subtests(tests: Iterable[tuple[str, str]]) -> set[tuple[str, str]]:
    """Those that one of these tests is a subtest of."""
    return {(package, test.rpartition("/")[0]) for package, test in tests if "/" in test}


def _go_failure(name: str, parts: list[str]) -> Failure:
    return failure(name, "".join(part for part in parts if not part.lstrip().startswith(GO_NOISE)))


def jest(data: bytes) -> Counts | None:
    """`jest --json`."""
    try:
        suites = _parsed(data)["testResults"]
    except (ValueError, KeyError, TypeError, RecursionError):
        return None
    tally = Tally()
    for suite in _objects(suites):
        cases = list(_objects(suite.get("assertionResults")))
        for case in cases:
            _jest_case(case, str(suite.get("name", "")), tally)
        if suite.get("status") == "failed" and not cases:  # it could not be loaded
            name = str(suite.get("name", "?"))
            described = partial(failure, name, str(suite.get("message", "")))
            tally.add("failed", own_path(name), file=name, describe=described)
    return tally.counts()


def _jest_case(case: dict[str, Any], file: str, tally: Tally) -> None:
    name, place = str(case.get("fullName", "?")), case.get("location")
    messages = case.get("failureMessages")
    text = "\n".join(map(str, messages)) if isinstance(messages, list) else ""
    tally.add(
        JEST_OUTCOMES.get(str(case.get("status")), "skipped"),
        name,
        duration_s=parsed_number(case.get("duration") or 0) / 1000,
        file=file,
        line=parsed_line(place.get("line")) if isinstance(place, dict) else 0,
        selector=name,
        describe=partial(failure, name, text, location=own_path(file)),
    )


CARGO_END = re.compile(r"^test result: \w+\. (\d+) passed; (\d+) failed; (\d+) ignored")
CARGO_TEST = re.compile(r"^test (\S.{0,500}?)(?: - should panic)? \.\.\. (ok|FAILED|ignored)\b")
CARGO_OUTCOMES: dict[str, Outcome] = {"ok": "passed", "FAILED": "failed", "ignored": "skipped"}
CARGO_BLOCK = re.compile(r"^---- (.{1,500}) stdout ----$")


def cargo(data: bytes) -> Counts | None:
    """The lines of `cargo test`: the tests, the totals of each part, and the output of failing tests."""
    tally, has_totals = Tally(), False
    blocks: dict[str, list[str]] = {}
    ends: dict[str, Outcome] = {}
    block: list[str] | None = None
    for line in lines_of(data):
        if found := CARGO_END.match(line):
            has_totals, block = True, None
            _cargo_part(tally, ends, blocks, [int(found[at]) for at in (1, 2, 3)])
            blocks, ends = {}, {}
        elif found := CARGO_TEST.match(line):
            ends[found[1]] = CARGO_OUTCOMES[found[2]]
        elif found := CARGO_BLOCK.match(line):
            block = blocks.setdefault(found[1], [])
        elif line == "failures:":
            block = None
        elif block is not None and len(block) < BLOCK_LINES:
            block.append(line)
    return tally.counts() if has_totals else None


def _cargo_part(
    tally: Tally, ends: dict[str, Outcome], blocks: dict[str, list[str]], totals: list[int]
) -> None:
    """Count one part by its totals. Some tests may have no line of their own, or no output."""
    for outcome, total in zip(get_args(Outcome), totals, strict=True):
        known = [name for name, end in ends.items() if end == outcome]
        known += [name for name in blocks if outcome == "failed" and name not in ends]
        for name in known[:total]:
            lines = blocks.get(name, [])
            tally.add(outcome, name, selector=name, describe=partial(failure, name, "\n".join(lines)))
        for _ in range(min(total - len(known), 100_000)):
            tally.count(outcome, partial(failure, "?", ""))


def any_format(data: bytes) -> Counts | None:
    """A report in any known format, recognised by its content: JUnit XML, `go test -json`, TAP."""
    start = data[:2000].lstrip(b"\xef\xbb\xbf \t\r\n")
    if start.startswith(b"<"):
        return junit(data)
    if GO_LINE.search(data[:MAX_SNIFFED_BYTES]):
        return go_events(data)
    return tap(data)


def command_output(data: bytes) -> Counts | None:
    """The output of any command: a report in a known format, or the last lines of a known runner."""
    counts = any_format(data)
    return counts if counts is not None and counts.total else summary(data)


READERS: dict[str, Callable[[bytes], Counts | None]] = {
    "any": any_format,
    "junit": junit,
    "pytest": pytest_junit,
    "go": go_events,
    "jest": jest,
    "tap": tap,
    "cargo": cargo,
    "summary": command_output,
}


def _objects(value: object) -> Iterator[dict[str, Any]]:
    if isinstance(value, list):
        yield from (each for each in value if isinstance(each, dict))


def _parsed(data: bytes) -> Any:
    """A JSON document; ValueError when it has more parts than a runner writes."""
    if sum(map(data.count, (b"{", b"[", b","))) > MAX_PARTS:
        raise ValueError
    return json.loads(data)


def _json_lines(data: bytes) -> Iterator[dict[str, Any]]:
    for line in io.BytesIO(data):
        if line.startswith(b"{"):
            try:
                value = _parsed(line)
            except (ValueError, RecursionError):
                continue
            if isinstance(value, dict):
                yield value
