"""TAP, as `node --test`, bats, prove and many others write it."""

import re
from collections.abc import Iterable, Iterator
from functools import partial

from hutch.agent.repository_testing.bounded_line_split import lines_of
from hutch.agent.repository_testing.failed_test_message import failure, own_path
from hutch.agent.repository_testing.parsed_result_tally import Tally, parsed_number
from hutch.agent.repository_testing.test_results import Counts, Failure

TAP_LINE = re.compile(r"^([ ]{0,400})(not )?ok\b(?: +\d+)?(?: +-)? *(.*)$")
TAP_DIRECTIVE = re.compile(r"(?:^| )# *(SKIP|TODO)\b", re.IGNORECASE)
PLAN = re.compile(r"^1\.\.(\d{1,9})\b")
SUBTEST = re.compile(r"^([ ]{0,400})# Subtest: (.{1,1000})$")
DURATION = re.compile(r"^ *duration_ms: ([\d.]{1,20})$")
AT_LINE = re.compile(r"(?:\bat|\bfile) ([^\s,]{1,500}),? line (\d{1,7})")  # Test::More, bats
SOURCE = re.compile(r"\.[cm]?[jt]sx?$")
BLOCK_LINES = 60  # of one failure's message
ESCAPED = re.compile(r"\\([\\#])")


def tap(data: bytes) -> Counts | None:
    """Of nested tests, only the innermost count; their names begin with those of the outer ones."""
    lines = lines_of(data)
    if not any(line.startswith("TAP version") or PLAN.match(line) for line in (*lines[:5], *lines[-5:])):
        return None
    tally, above = Tally(), -1
    planned: int | None = None
    seen = 0  # tests of the plan: those that are not nested
    groups: dict[int, str] = {}  # the newest subtest at each depth
    for place, line in enumerate(lines):
        if found := SUBTEST.match(line):
            depth = len(found[1])
            groups = {at: name for at, name in groups.items() if at < depth} | {depth: found[2]}
            continue
        if plan := PLAN.match(line):
            planned = (planned or 0) + int(plan[1])
        if line.startswith("Bail out!"):
            tally.add("failed", "Bail out!", describe=partial(failure, "Bail out!", line[9:].strip()))
        found = TAP_LINE.match(line)
        if found is None:
            continue
        depth = len(found[1])
        seen += not depth
        is_sum, above = above > depth, depth
        if not is_sum:
            outer = [name for at, name in groups.items() if at < depth]
            _add(tally, found, outer, lines, place)
    if planned is not None and planned != seen:
        tally.problem = f"the plan of the report names {planned:,} tests, and it lists {seen:,}"
    return tally.counts()


def _add(tally: Tally, found: re.Match[str], outer: list[str], lines: list[str], place: int) -> None:
    directive = TAP_DIRECTIVE.search(found[3])
    own = ESCAPED.sub(r"\1", found[3][: directive.start()] if directive else found[3]).strip()
    file = next((name for name in outer if SOURCE.search(name)), "")
    name = " > ".join([*(each for each in outer if each != file), own or "?"])
    depth = len(found[1])
    block = [part[depth + 2 :] for part in _indented(lines, place + 1, depth)]
    timed = (DURATION.match(line) for line in block)
    tally.add(
        "skipped" if directive else "failed" if found[2] else "passed",
        name,
        duration_s=next((parsed_number(each[1]) / 1000 for each in timed if each), 0.0),
        file=file,
        selector=own,
        reason=found[3][directive.end() :].strip() if directive else "",
        describe=lambda: _failure(name, block, _diagnostics(lines, place + 1 + len(block), depth)),
    )


def _indented(lines: list[str], start: int, depth: int) -> Iterator[str]:
    for line in lines[start : start + BLOCK_LINES]:
        if line.strip() and len(line) - len(line.lstrip()) <= depth:
            return
        yield line


def _diagnostics(lines: list[str], start: int, depth: int) -> Iterator[str]:
    """The comments after a failed test, in which Test::More, bats and others say why."""
    for line in lines[start : start + BLOCK_LINES]:
        if not line[depth:].startswith("#") or SUBTEST.match(line):
            return
        yield line[depth + 1 :].removeprefix(" ")


def _failure(name: str, block: list[str], comments: Iterable[str]) -> Failure:
    fields = dict(found for line in block if (found := _field(line)))
    inner = dict(found for line in _below(block, "at:") if (found := _field(line)))
    location = fields.get("location", "").strip("'\"")
    if inner.get("file"):
        location = f"{_bare(inner['file'])}:{_bare(inner.get('line', '0'))}:"
    diagnostics = "\n".join(comments)
    if not location and (place := AT_LINE.search(diagnostics)):
        location = f"{place[1]}:{place[2]}:"
    error = "\n".join([*_nested(block, "error:"), *_nested(block, "message:")])
    error = error or _bare(fields.get("error", "")) or _bare(fields.get("message", "")) or diagnostics
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


def _below(block: list[str], name: str) -> Iterator[str]:
    """The lines of the fields under a field."""
    inside = False
    for line in block:
        if inside and not line.startswith("  "):
            return
        if inside:
            yield line[2:]
        inside = inside or line.rstrip() == name


def _bare(value: str) -> str:
    return value.strip().strip("'\"")


def _field(line: str) -> tuple[str, str] | None:
    found = re.match(r"(\w{1,40}): (.*)$", line)
    return (found[1], found[2]) if found else None
