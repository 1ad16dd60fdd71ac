"""Runs tests in the jail and reads their results."""

import asyncio
import re
import secrets
import time
from collections.abc import Callable
from dataclasses import replace

from hutch.agent.long_output_files import save_output
from hutch.agent.repository_testing.junit_xml_parser import explain_unreadable
from hutch.agent.repository_testing.runner_definition import Runner
from hutch.agent.repository_testing.runner_output_parsers import MAX_BYTES, READERS
from hutch.agent.repository_testing.test_process_watcher import OnLine, ProcessWatch, Stop
from hutch.agent.repository_testing.test_results import TAIL_CHARS, Case, Counts, Report, UnreadableReport
from hutch.agent.text_for_model import strip_escapes
from hutch.domain.byte_size_formatting import readable_size
from hutch.domain.errors import NotFound
from hutch.jail.interface import Finished, Jail, LimitHit, StreamName
from hutch.jail.limits.limit_errors_in_output import OUT_OF_MEMORY
from hutch.jail.policy import Limits, profile

OUTPUT = "/tmp/hutch-tests.txt"
NOT_RECOGNISED = "it is neither JUnit XML nor TAP nor the output of `go test -json`"
TOO_LARGE = f"it is larger than {MAX_BYTES >> 20} MiB"
MARK = "/tmp/hutch-tests.begin"
READ = 'test -f "$1" && test ! -L "$1" && head -c "$2" -- "$1"'  # no pipe or device, which could block
# Every file of a pattern that is not older than the run, each after a line that the files cannot contain.
READ_ALL = """shopt -s globstar nullglob dotglob
found=()
for file in $1; do
    [ -f "$file" ] && [ ! -L "$file" ] && [ ! "$3" -nt "$file" ] && found+=("$file")
done
[ "${#found[@]}" -le "$5" ] || exit 3
for file in "${found[@]}"; do
    printf '\\n%s\\n' "$4"
    head -c "$2" -- "$file"
done"""
MAX_REPORTS, TOO_MANY = 5000, 3
REPORTED = ("open_files", "file_bytes")  # by the output, which in tests may be about anything
READ_TIMEOUT_S, READ_ALL_TIMEOUT_S = 10.0, 60.0  # in case the file is replaced by a pipe meanwhile
# Python buffers what it prints into a pipe; its progress would be seen at the end only.
ENVIRONMENT = {"PYTHONUNBUFFERED": "1"}


async def run_tests(
    jail: Jail,
    runner: Runner,
    *,
    cwd: str = "",
    timeout_s: float | None = None,
    silence_s: float | None = None,
    memory_bytes: int | None = None,
    clean: Callable[[str], str] = str,
    on_line: OnLine | None = None,
    stop: Stop | None = None,
) -> Report:
    """Run tests once under the limits of the `test` profile, inside those of the jail.

    `clean` removes secrets from the output and the report, before anything is cut. Tests that print nothing
    for `silence_s` are stopped, as those that `stop` stops: what they reported until then counts. A runner
    that builds in silence is stopped for it only after its first output.
    """
    began, printed, stop = time.monotonic(), _Printed(), Stop() if stop is None else stop
    await _prepare(jail, runner)
    known = _limits(memory_bytes)
    reads, is_silent = None if runner.report else printed.add, runner.builds_silently
    watch = ProcessWatch(stop, silence_s, reads, on_line, builds_silently=is_silent)
    try:
        async with watch:
            ran = await jail.run(
                runner.words,
                cwd="/".join(filter(None, [cwd, runner.directory])),
                env=ENVIRONMENT,
                timeout_s=timeout_s or known.command_timeout_s,
                limits=known,
                on_output=watch.add,
                on_start=watch.begin,
            )
    except NotFound as error:
        raise NotFound(f"{runner.argv[0]} is needed to run these tests. {error}") from None
    duration_s = time.monotonic() - began
    output = await asyncio.to_thread(_cleaned, ran, clean)
    hit = None if watch.stopped else _limit_of(ran)
    memory = _memory_limit(jail, known, hit, output if ran.exit_code != 0 else "")
    limit = memory or (str(hit) if hit else "")
    counts, unreadable = await _counts_or_reason(jail, runner, printed, ran, clean, cwd)
    report = Report(
        runner=runner.name,
        command=str(runner),
        counts=counts,
        unreadable=unreadable,
        exit_code=ran.exit_code if ran.exit_code is not None else 128 + (ran.signal or 0),
        always_counts=runner.always_counts,
        timed_out=ran.timed_out,
        limit="" if memory and ran.exit_code != 0 else limit,
        memory=memory if ran.exit_code != 0 else "",
        output=output,
        duration_s=duration_s,
        suite=runner.suite,
        stopped=watch.stopped,
    )
    if report.ok or len(output) <= TAIL_CHARS:
        return report
    return report.with_output_path(await save_output(jail, OUTPUT, output))


async def _prepare(jail: Jail, runner: Runner) -> None:
    """Make sure that an old report does not count for a run that writes none."""
    if runner.report:
        await jail.run(["rm", "-rf", runner.report])
    if runner.reports:
        await jail.run(["/bin/sh", "-c", 'rm -rf -- "$1" && : > "$1"', "begin", MARK])


def _limits(memory_bytes: int | None) -> Limits:
    """The limits of the `test` profile, with another limit of memory."""
    known = profile("test").limits
    if memory_bytes is None:
        return known
    # The sizes of each tmpfs are those of the jail: here they only must be smaller than the memory.
    return replace(known, memory_bytes=memory_bytes, tmp_bytes=0, shm_bytes=0, home_bytes=0)


def _limit_of(ran: Finished) -> LimitHit | None:
    """The limit that stopped the tests, besides their timeout."""
    hit = ran.limit_hit
    is_claim = hit is not None and hit.limit in REPORTED and ran.signal is None
    return None if ran.timed_out or is_claim else hit


def _memory_limit(jail: Jail, limits: Limits, hit: LimitHit | None, output: str) -> str:
    """The limit of memory that was hit. If memory was only refused, the output of the program says so."""
    whole = jail.policy.limits.memory_bytes
    used = readable_size(min(whole, limits.memory_bytes))
    if hit is not None and hit.limit == "memory_bytes":
        used = hit.value
    elif hit is not None or not re.search(OUT_OF_MEMORY, output):
        return ""
    is_own = limits.memory_bytes < whole and used == readable_size(limits.memory_bytes)
    setting = "tests" if is_own else "jail"
    return f"{setting}.memory_bytes ({used} for all processes together)"


def _cleaned(ran: Finished, clean: Callable[[str], str]) -> str:
    def cleaned(data: bytes) -> str:
        return clean(strip_escapes(data.decode(errors="replace")))

    return f"{ran.stdout_output.render(cleaned)}\n{ran.stderr_output.render(cleaned)}"


async def _counts_or_reason(
    jail: Jail, runner: Runner, printed: "_Printed", ran: Finished, clean: Callable[[str], str], cwd: str
) -> tuple[Counts | None, str]:
    """The counts, or why the report was not read."""
    try:
        counts = await _counts(jail, runner, printed, ran, clean, cwd)
    except UnreadableReport as error:
        return None, str(error)
    return (counts.only(runner.only) if runner.only and counts is not None else counts), ""


async def _counts(
    jail: Jail, runner: Runner, printed: "_Printed", ran: Finished, clean: Callable[[str], str], cwd: str
) -> Counts | None:
    if runner.reports:
        return await _read_all(jail, runner, clean, cwd)
    if runner.report:
        printed = _Printed()
        await jail.run(
            ["/bin/sh", "-c", READ, "read", runner.report, str(MAX_BYTES + 1)],
            timeout_s=READ_TIMEOUT_S,
            on_output=printed.add,
        )
    if runner.reader == "summary":
        stdout = ran.stdout if printed.cut else printed.data
        return await asyncio.to_thread(read_report, "summary", stdout + b"\n" + ran.stderr, clean)
    if printed.cut:  # no real runner writes that much, and half a report is useless
        raise UnreadableReport(TOO_LARGE)
    counts = await asyncio.to_thread(read_report, runner.reader, printed.data, clean)
    if counts is None and runner.reader in ("junit", "pytest") and printed.data:
        await asyncio.to_thread(_read_checked, runner.reader, printed.data, clean)  # says why
    return counts


async def _read_all(jail: Jail, runner: Runner, clean: Callable[[str], str], cwd: str) -> Counts:
    """Read every report of a pattern."""
    printed, line = _Printed(), secrets.token_hex(16)
    words = (runner.reports, str(MAX_BYTES + 1), MARK, line, str(MAX_REPORTS))
    done = await jail.run(
        ["/bin/bash", "-c", READ_ALL, "read", *words],
        cwd="/".join(filter(None, [cwd, runner.directory])),
        timeout_s=READ_ALL_TIMEOUT_S,
        on_output=printed.add,
    )
    if done.exit_code == TOO_MANY:
        raise UnreadableReport(f"more than {MAX_REPORTS:,} files match {runner.reports}")
    if printed.cut or done.timed_out:
        raise UnreadableReport(TOO_LARGE if printed.cut else "reading it took too long")
    _, *reports = printed.data.split(f"\n{line}\n".encode())
    if not reports:
        raise UnreadableReport(f"no file that the tests have written matches {runner.reports}")

    def read() -> Counts:
        return sum((_read_checked(runner.reader, data, clean) for data in reports), Counts())

    return await asyncio.to_thread(read)


def _read_checked(reader: str, data: bytes, clean: Callable[[str], str]) -> Counts:
    """The results in a report that a runner has written for sure."""
    counts = read_report(reader, data, clean)
    if counts is None:
        is_xml = data[:2000].lstrip(b"\xef\xbb\xbf \t\r\n").startswith(b"<")
        raise UnreadableReport(explain_unreadable(data) if is_xml else NOT_RECOGNISED)
    return counts


def read_report(reader: str, data: bytes, clean: Callable[[str], str]) -> Counts | None:
    """The results in a report, without secrets."""
    text = data.decode("utf-8", "surrogateescape")
    counts = READERS[reader](clean(text).encode("utf-8", "surrogateescape"))
    return counts and replace(counts, cases=_without_secrets(counts.cases, clean))


def _without_secrets(cases: tuple[Case, ...], clean: Callable[[str], str]) -> tuple[Case, ...]:
    """Tests whose texts hold no secret. A report can encode one, so that it appears only when it is read."""
    texts = "\n".join(text for case in cases for text in (case.name, case.message, case.file, case.selector))
    if clean(texts) == texts:
        return cases
    return tuple(
        case._replace(
            name=clean(case.name),
            message=clean(case.message),
            file=clean(case.file),
            selector=case.selector if clean(case.selector) == case.selector else "",
        )
        for case in cases
    )


class _Printed:
    """The output of a command, up to a maximum size."""

    def __init__(self) -> None:
        self._parts: list[bytes] = []
        self._remaining = MAX_BYTES

    def add(self, stream: StreamName, data: bytes) -> None:
        if stream == "stdout" and self._remaining >= 0:
            self._parts.append(data[: self._remaining])
            self._remaining -= len(data)

    @property
    def cut(self) -> bool:
        return self._remaining < 0

    @property
    def data(self) -> bytes:
        return b"".join(self._parts)
