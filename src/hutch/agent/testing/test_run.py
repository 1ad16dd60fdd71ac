"""Runs tests in the jail and reads their results."""

import asyncio
import re
import time
from collections.abc import Callable
from dataclasses import replace

from hutch.agent.long_output_files import save_output
from hutch.agent.testing.report import TAIL_CHARS, Counts, Report
from hutch.agent.testing.runner_detection import Runner
from hutch.agent.testing.runner_output import MAX_BYTES, READERS
from hutch.agent.text_for_model import strip_escapes
from hutch.domain.errors import NotFound
from hutch.jail.interface import Finished, Jail, StreamName
from hutch.jail.limits.limit_hits import size
from hutch.jail.policy import Limits, profile

OUTPUT = "/tmp/hutch-tests.txt"
READ = 'test -f "$1" && test ! -L "$1" && head -c "$2" -- "$1"'  # no pipe or device, which could block
# Messages of runtimes and of the C library.
OUT_OF_MEMORY = re.compile(
    r"\bMemoryError\b|\b[Cc]annot allocate memory|std::bad_alloc|\bOutOfMemoryError\b|heap out of memory"
    r"|\bNoMemoryError\b|memory allocation of \d+ bytes failed|runtime: out of memory"
)
READ_TIMEOUT_S = 10.0  # in case the file is replaced by a pipe meanwhile


async def run_tests(
    jail: Jail,
    runner: Runner,
    *,
    cwd: str = "",
    timeout_s: float | None = None,
    memory_bytes: int | None = None,
    clean: Callable[[str], str] = str,
) -> Report:
    """Run tests once under the limits of the `test` profile, inside those of the jail.

    `clean` removes secrets from the output and the report, before anything is cut.
    """
    began, printed = time.monotonic(), _Printed()
    if runner.report:
        await jail.run(["rm", "-rf", runner.report])  # an old report would count for a run that wrote none
    known = _limits(memory_bytes)
    try:
        ran = await jail.run(
            runner.words,
            cwd=cwd,
            timeout_s=timeout_s or known.command_timeout_s,
            limits=known,
            on_output=None if runner.report else printed.add,
        )
    except NotFound as error:
        raise NotFound(f"{runner.argv[0]} is needed to run these tests. {error}") from None
    duration_s = time.monotonic() - began
    output = await asyncio.to_thread(_cleaned, ran, clean)
    report = Report(
        runner=runner.name,
        command=str(runner),
        counts=await _counts(jail, runner, printed, ran.stdout + b"\n" + ran.stderr, clean),
        exit_code=ran.exit_code if ran.exit_code is not None else 128 + (ran.signal or 0),
        always_counts=runner.always_counts,
        timed_out=ran.timed_out,
        limit=str(ran.limit_hit) if ran.limit_hit and not ran.timed_out else "",
        memory=_memory_hint(jail, known, output) if ran.exit_code != 0 and not ran.limit_hit else "",
        output=output,
        duration_s=duration_s,
    )
    if report.ok or len(output) <= TAIL_CHARS:
        return report
    return report.with_output_path(await save_output(jail, OUTPUT, output))


def _limits(memory_bytes: int | None) -> Limits:
    """The limits of the `test` profile, with another limit of memory."""
    known = profile("test").limits
    if memory_bytes is None:
        return known
    # The sizes of each tmpfs are those of the jail: here they only must be smaller than the memory.
    return replace(known, memory_bytes=memory_bytes, tmp_bytes=0, shm_bytes=0, home_bytes=0)


def _memory_hint(jail: Jail, limits: Limits, output: str) -> str:
    """The limit of memory, if the output says that memory ran out: the kernel refuses it without a note."""
    if not OUT_OF_MEMORY.search(output):
        return ""
    whole = jail.policy.limits.memory_bytes
    if limits.memory_bytes < whole:
        return f"tests.memory_bytes ({size(limits.memory_bytes)} for each process)"
    return f"jail.memory_bytes ({size(whole)} for all processes)"


def _cleaned(ran: Finished, clean: Callable[[str], str]) -> str:
    def cleaned(data: bytes) -> str:
        return clean(strip_escapes(data.decode(errors="replace")))

    return f"{ran.stdout_output.render(cleaned)}\n{ran.stderr_output.render(cleaned)}"


def _read(reader: str, data: bytes, clean: Callable[[str], str]) -> Counts | None:
    text = data.decode("utf-8", "surrogateescape")
    return READERS[reader](clean(text).encode("utf-8", "surrogateescape"))


async def _counts(
    jail: Jail, runner: Runner, printed: "_Printed", output: bytes, clean: Callable[[str], str]
) -> Counts | None:
    if runner.reader == "summary":
        return READERS["summary"](output)
    if runner.report:
        printed = _Printed()
        await jail.run(
            ["/bin/sh", "-c", READ, "read", runner.report, str(MAX_BYTES + 1)],
            timeout_s=READ_TIMEOUT_S,
            on_output=printed.add,
        )
    if printed.cut:
        return None  # no real runner writes that much, and half a report is useless
    return await asyncio.to_thread(_read, runner.reader, printed.data, clean)


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
