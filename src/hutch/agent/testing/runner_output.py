"""Reads counts from the output of runners: the events of `go test`, Jest's JSON, TAP, cargo's lines.

The output was written inside the jail and is hostile. It is read in one pass, with
bounds, and only for its counts and failures.
"""

import io
import json
import re
from collections import defaultdict
from collections.abc import Callable, Iterator
from functools import partial
from typing import Any

from hutch.agent.testing.failure_message import failure, own_path
from hutch.agent.testing.junit import junit
from hutch.agent.testing.report import Counts, Failure
from hutch.agent.testing.tally import Tally
from hutch.agent.testing.unknown_runner_output import summary

MAX_BYTES = 32 * 1024 * 1024
MAX_PARTS = 1_000_000  # of one JSON document, or lines: each takes far more memory than its bytes
GO_NOISE = ("=== ", "--- ", "FAIL", "ok  \t", "PASS", "exit status")


def go_events(data: bytes) -> Counts | None:
    """`go test -json`: one event per line; only tests without subtests count."""
    ends: dict[tuple[str, str], str] = {}
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
                ends[key] = end
            case "fail":
                broken.append(package)
    if not ends and not broken:
        return Counts() if data.strip().startswith(b"{") else None
    parents = {(package, test.rpartition("/")[0]) for package, test in ends if "/" in test}
    failing = {package for (package, _), end in ends.items() if end == "fail"}
    tally = Tally()
    for key, end in ends.items():
        if key in parents:
            continue
        if end == "fail":
            tally.fail(partial(_go_failure, ".".join(key), outputs[key]))
        elif end == "skip":
            tally.skipped += 1
        else:
            tally.passed += 1
    for package in broken:
        if package not in failing:  # it did not build, or quit in the middle
            tally.fail(partial(_go_failure, package, outputs[package, ""]))
    return tally.counts()


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
            tally.fail(partial(failure, str(suite.get("name", "?")), str(suite.get("message", ""))))
    return tally.counts()


def _jest_case(case: dict[str, Any], file: str, tally: Tally) -> None:
    match case.get("status"):
        case "passed":
            tally.passed += 1
        case "failed":
            messages = case.get("failureMessages")
            text = "\n".join(map(str, messages)) if isinstance(messages, list) else ""
            tally.fail(partial(failure, str(case.get("fullName", "?")), text, location=own_path(file)))
        case _:
            tally.skipped += 1


TAP_LINE = re.compile(r"^([ ]{0,400})(not )?ok\b(?: +\d+)?(?: +-)? *(.*)$")
TAP_DIRECTIVE = re.compile(r"(?:^| )# *(SKIP|TODO)\b", re.IGNORECASE)
BLOCK_LINES = 60  # of one failure's message


def tap(data: bytes) -> Counts | None:
    """TAP, as `node --test` writes it: of nested tests, only the innermost count."""
    lines = _lines(data)
    if not any(line.startswith("TAP version") for line in lines[:5]):
        return None
    tally, above = Tally(), -1
    for place, line in enumerate(lines):
        found = TAP_LINE.match(line)
        if found is None:
            continue
        depth = len(found[1])
        is_sum, above = above > depth, depth
        if is_sum:
            continue
        directive = TAP_DIRECTIVE.search(found[3])
        name = found[3][: directive.start()] if directive else found[3]
        if directive:
            tally.skipped += 1
        elif found[2]:
            block = [part[depth + 2 :] for part in _indented(lines, place + 1, depth)]
            tally.fail(partial(_tap_failure, name, block))
        else:
            tally.passed += 1
    return tally.counts()


def _indented(lines: list[str], start: int, depth: int) -> Iterator[str]:
    for line in lines[start : start + BLOCK_LINES]:
        if line.strip() and len(line) - len(line.lstrip()) <= depth:
            return
        yield line


def _tap_failure(name: str, block: list[str]) -> Failure:
    fields = dict(found for line in block if (found := _field(line)))
    location = fields.get("location", "").strip("'")
    error = "\n".join(_nested(block, "error:")) or fields.get("error", "").strip("'")
    compared = [
        f"{name}: {fields[name]}"
        for name in ("expected", "actual")
        if fields.get(name) and fields[name] not in ("|-", "") and fields[name] not in error
    ]
    return failure(
        name,
        "\n".join(_nested(block, "stack:")),
        message="\n".join([error.strip(), *compared]),
        location=own_path(location.rpartition(":")[0]),
    )


def _nested(block: list[str], name: str) -> Iterator[str]:
    """The lines of a text under a field."""
    inside = False
    for line in block:
        if inside and line.strip() and not line.startswith("  "):
            return
        if inside:
            yield line[2:]
        elif line.startswith(f"{name} |"):
            inside = True


def _field(line: str) -> tuple[str, str] | None:
    found = re.match(r"(\w{1,40}): (.*)$", line)
    return (found[1], found[2]) if found else None


CARGO_END = re.compile(r"^test result: \w+\. (\d+) passed; (\d+) failed; (\d+) ignored")
CARGO_BLOCK = re.compile(r"^---- (.{1,500}) stdout ----$")


def cargo(data: bytes) -> Counts | None:
    """The lines of `cargo test`: the totals at the end of each part, and the output of failing tests."""
    tally, has_totals = Tally(), False
    blocks: list[tuple[str, list[str]]] = []
    inside = False
    for line in _lines(data):
        if found := CARGO_END.match(line):
            has_totals = True
            tally.passed += int(found[1])
            tally.skipped += int(found[3])
            # A failure without output counts too.
            for at in range(min(int(found[2]), 100_000)):
                name, lines = blocks[at] if at < len(blocks) else ("?", [])
                tally.fail(partial(failure, name, "\n".join(lines)))
            inside, blocks = False, []
        elif found := CARGO_BLOCK.match(line):
            inside = True
            blocks.append((found[1], []))
        elif line == "failures:":
            inside = False
        elif inside and len(blocks[-1][1]) < BLOCK_LINES:
            blocks[-1][1].append(line)
    return tally.counts() if has_totals else None


READERS: dict[str, Callable[[bytes], Counts | None]] = {
    "junit": junit,
    "go": go_events,
    "jest": jest,
    "tap": tap,
    "cargo": cargo,
    "summary": summary,
}


def _objects(value: object) -> Iterator[dict[str, Any]]:
    if isinstance(value, list):
        yield from (each for each in value if isinstance(each, dict))


def _parsed(data: bytes) -> Any:
    """A JSON document; ValueError when it has more parts than a runner writes."""
    if sum(map(data.count, (b"{", b"[", b","))) > MAX_PARTS:
        raise ValueError
    return json.loads(data)


def _lines(data: bytes) -> list[str]:
    """The lines of a text, none when there are more than a runner prints."""
    if data.count(b"\n") > MAX_PARTS:
        return []
    return [line.rstrip("\r\n") for line in io.StringIO(data.decode(errors="replace"), newline="\n")]


def _json_lines(data: bytes) -> Iterator[dict[str, Any]]:
    for line in io.BytesIO(data):
        if line.startswith(b"{"):
            try:
                value = _parsed(line)
            except (ValueError, RecursionError):
                continue
            if isinstance(value, dict):
                yield value
