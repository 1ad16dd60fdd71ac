"""What runners write, read into counts: JUnit XML, the events of `go test`, Jest's JSON, TAP, cargo's lines.

All of it was written inside the jail, by whatever the tests are: it is read with
care and never believed beyond its numbers.
"""

import json
import re
from collections.abc import Callable, Iterator
from typing import Any
from xml.etree import ElementTree

from hutch.agent.testing.report import Counts, Failure

LARGEST_BYTES = 32 * 1024 * 1024
MOST_FAILURES = 500
LOCATION = re.compile(r"((?:[\w.@+-]+/)*[\w.@+-]+\.[A-Za-z]{1,5}):(\d+)")
OWN_LOCATION = re.compile(r'File "([^"]+)", line (\d+)')


def junit(data: bytes) -> Counts | None:
    """Counts of `<testcase>` elements; the totals that the file claims are not looked at."""
    if b"<!DOCTYPE" in data[:4096] or b"<!ENTITY" in data:
        return None  # no runner writes one, and it can be made to blow up
    try:
        root = ElementTree.fromstring(data)
    except ElementTree.ParseError:
        return None
    passed = failed = skipped = 0
    failures: list[Failure] = []
    for case in root.iter("testcase"):
        fault = case.find("failure") if case.find("failure") is not None else case.find("error")
        if fault is not None:
            failed += 1
            failures.append(_junit_failure(case, fault))
        elif case.find("skipped") is not None:
            skipped += 1
        else:
            passed += 1
    return Counts(passed, failed, skipped, tuple(failures[:MOST_FAILURES]))


def _junit_failure(case: ElementTree.Element, fault: ElementTree.Element) -> Failure:
    owner, name = case.get("classname") or "", case.get("name") or "?"
    message, text = fault.get("message") or "", fault.text or ""
    body = text if message.strip() in text else f"{message}\n{text}"
    location = f"{case.get('file')}:{case.get('line')}" if case.get("file") and case.get("line") else ""
    return Failure(f"{owner}.{name}" if owner else name, body, _location(body) or location)


def go_events(data: bytes) -> Counts | None:
    """`go test -json`: one event a line; a test is one that names itself."""
    ends: dict[tuple[str, str], str] = {}
    said: dict[tuple[str, str], list[str]] = {}
    packages: list[tuple[str, str]] = []
    for event in _json_lines(data):
        key = str(event.get("Package", "")), str(event.get("Test", ""))
        match event.get("Action"):
            case "output" | "build-output":
                said.setdefault(key, []).append(str(event.get("Output", "")))
            case "pass" | "fail" | "skip" as end:
                if key[1]:
                    ends[key] = end
                elif end == "fail":
                    packages.append(key)
    parents = {(package, test.rpartition("/")[0]) for package, test in ends if "/" in test}
    leaves = {key: end for key, end in ends.items() if key not in parents}
    failures = [
        Failure(f"{package}.{test}", _trimmed(said.get((package, test), [])), "")
        for (package, test), end in leaves.items()
        if end == "fail"
    ]
    broken = [
        key
        for key in packages
        if not any(package == key[0] and end == "fail" for (package, _), end in ends.items())
    ]
    failures += [Failure(package, _trimmed(said.get((package, ""), [])), "") for package, _ in broken]
    located = [Failure(each.name, each.message, _location(each.message)) for each in failures]
    if not ends and not broken:
        return Counts() if data.strip().startswith(b"{") else None
    values = list(leaves.values())
    return Counts(
        values.count("pass"),
        values.count("fail") + len(broken),
        values.count("skip"),
        tuple(located[:MOST_FAILURES]),
    )


def jest(data: bytes) -> Counts | None:
    """`jest --json`."""
    try:
        report = json.loads(data)
        suites = report["testResults"]
    except (ValueError, KeyError, TypeError, RecursionError):
        return None
    counts = Counts()
    for suite in suites:
        for case in suite.get("assertionResults", ()):
            counts += _jest_case(case)
        if suite.get("status") == "failed" and not suite.get("assertionResults"):
            message = str(suite.get("message", ""))
            counts += Counts(
                failed=1, failures=(Failure(str(suite.get("name", "?")), message, _location(message)),)
            )
    return counts


def _jest_case(case: dict[str, Any]) -> Counts:
    match case.get("status"):
        case "passed":
            return Counts(passed=1)
        case "failed":
            message = "\n".join(map(str, case.get("failureMessages", ())))
            return Counts(
                failed=1, failures=(Failure(str(case.get("fullName", "?")), message, _location(message)),)
            )
    return Counts(skipped=1)


TAP_LINE = re.compile(
    r"^(\s*)(not )?ok\b(?:\s+\d+)?(?:\s+-)?\s*(.*?)(?:\s+#\s*(SKIP|TODO)\b.*)?$", re.IGNORECASE
)


def tap(data: bytes) -> Counts | None:
    """TAP, as `node --test` writes it: a test with tests inside is counted by these."""
    lines = data.decode(errors="replace").splitlines()
    if not any(line.startswith("TAP version") for line in lines[:5]):
        return None
    counts, deeper = Counts(), False
    depth_seen = -1
    for place, line in enumerate(lines):
        found = TAP_LINE.match(line)
        if found is None:
            continue
        depth = len(found[1])
        deeper, depth_seen = depth_seen > depth, depth
        if deeper:
            continue  # the sum of what stood above it
        if found[4]:
            counts += Counts(skipped=1)
        elif found[2]:
            message = "\n".join(_indented(lines, place + 1, depth))
            counts += Counts(failed=1, failures=(Failure(found[3] or "?", message, _location(message)),))
        else:
            counts += Counts(passed=1)
    return counts


def _indented(lines: list[str], start: int, depth: int) -> Iterator[str]:
    for line in lines[start : start + 40]:
        if line.strip() and len(line) - len(line.lstrip()) <= depth:
            return
        yield line[depth:]


CARGO_LINE = re.compile(r"^test (.+?) \.\.\. (ok|FAILED|ignored)", re.MULTILINE)
CARGO_END = re.compile(r"^test result: ", re.MULTILINE)


def cargo(data: bytes) -> Counts | None:
    """The lines that `cargo test` prints."""
    text = data.decode(errors="replace")
    if not CARGO_END.search(text):
        return None
    ends = [found[1] for found in CARGO_LINE.findall(text)]
    failures = []
    for name, end in CARGO_LINE.findall(text):
        if end == "FAILED":
            body = re.search(
                rf"^---- {re.escape(name)} stdout ----\n(.*?)(?=^----|\Z|^failures:)", text, re.M | re.S
            )
            message = body[1] if body else ""
            failures.append(Failure(name, message, _location(message)))
    return Counts(
        ends.count("ok"), ends.count("FAILED"), ends.count("ignored"), tuple(failures[:MOST_FAILURES])
    )


READERS: dict[str, Callable[[bytes], Counts | None]] = {
    "junit": junit,
    "go": go_events,
    "jest": jest,
    "tap": tap,
    "cargo": cargo,
}


def _location(text: str) -> str:
    """The last place of the project that a message names: the innermost frame."""
    frames = OWN_LOCATION.findall(text) or LOCATION.findall(text)
    ours = [frame for frame in frames if not frame[0].startswith(("/usr", "<", "node:"))]
    return f"{ours[-1][0].removeprefix('/workspace/')}:{ours[-1][1]}" if ours else ""


def _trimmed(parts: list[str]) -> str:
    skip = ("=== ", "--- ", "FAIL", "ok  \t")
    return "".join(part for part in parts if not part.lstrip().startswith(skip))


def _json_lines(data: bytes) -> Iterator[dict[str, Any]]:
    for line in data.splitlines():
        if line.startswith(b"{"):
            try:
                value = json.loads(line)
            except (ValueError, RecursionError):
                continue
            if isinstance(value, dict):
                yield value
