"""Runs given code in throw-away jails: against cases, or with the test runner of its language.

Each case gets a jail of its own, with the code read-only: it finds neither files nor processes of another
case. The expected results stay outside and are compared here. The time and memory of a case are those that
the kernel has counted.
"""

import asyncio
import json
import secrets
import shutil
import time
from collections.abc import AsyncIterator, Callable, Sequence
from contextlib import asynccontextmanager
from dataclasses import replace
from pathlib import Path
from typing import Any

from hutch.domain.code_case import CodeCase, Language
from hutch.domain.errors import BadRequest, LimitReached
from hutch.domain.starter_files import StarterFiles, check_starter_files
from hutch.flows.code_execution.case_comparison import find_difference, find_output_difference
from hutch.flows.code_execution.case_programs import (
    DEFAULT_MODULE,
    GO_VARIABLES,
    CaseProgram,
    build_program,
    check_reserved,
    with_go_module,
)
from hutch.flows.code_execution.execution_results import (
    DEFAULT_LIMITS,
    CaseResult,
    Execution,
    ExecutionLimits,
)
from hutch.flows.code_execution.go_build_cache import GoBuildCache
from hutch.flows.code_execution.jail_policies import build_policy, case_policy
from hutch.flows.code_execution.language_toolchains import (
    LanguageToolchain,
    LanguageToolchains,
    find_language_toolchains,
)
from hutch.flows.code_execution.test_file_run import run_test_files
from hutch.jail.interface import Finished, Jail
from hutch.jail.jail_location import JailLocation
from hutch.jail.jail_startup import open_jail
from hutch.jail.output_buffer import StreamOutput
from hutch.jail.pid_stamped_names import make_directory
from hutch.jail.policy import Policy

MAX_WAITING = 50  # executions
MAX_RESULT_BYTES = 512 * 1024  # of the report of one case, behind what it printed
OnCase = Callable[[CaseResult], None]


class CodeExecutor:
    """Runs executions, a bounded number at a time. `app/` builds one for each process."""

    def __init__(self, cache: Path, *, concurrency: int, named_toolchains: Sequence[str] = ()) -> None:
        self._cache = cache
        self._slots = asyncio.Semaphore(concurrency)
        self._waiting = 0
        self._named = tuple(named_toolchains)
        self._toolchains: LanguageToolchains | None = None

    async def toolchains(self) -> LanguageToolchains:
        """The toolchains of this machine. Looked for again while any is missing."""
        if self._toolchains is None or self._toolchains.missing:
            self._toolchains = await asyncio.to_thread(find_language_toolchains, self._named)
        return self._toolchains

    async def prepare(self, languages: Sequence[Language]) -> None:
        """Do now what the first execution would otherwise wait for: compile Go's standard library. Raises
        an error that names a missing toolchain."""
        for language in languages:
            await self._shown((await self.toolchains()).get(language))

    async def run_cases(
        self,
        language: Language,
        files: StarterFiles,
        cases: Sequence[CodeCase],
        *,
        limits: ExecutionLimits = DEFAULT_LIMITS,
        module: str = DEFAULT_MODULE,
        on_case: OnCase | None = None,
    ) -> Execution:
        """Run the files against the cases, each in a process and a jail of its own, in order.

        `module` is the file that cases call, without its extension. Code that fails is a result; an error is
        raised only for a request that cannot be run, or if a toolchain is missing.
        """
        if not cases:
            raise BadRequest("There are no cases to run. Give at least one.")
        toolchain = (await self.toolchains()).get(language)
        program = build_program(toolchain, language, check_starter_files(files.items()), cases, module)
        async with self._place(toolchain, program.files) as place:
            began = time.monotonic()
            if failed := await _compile(place, program, limits):
                return replace(failed, build_s=time.monotonic() - began)
            build_s, began = time.monotonic() - began, time.monotonic()
            results = [result async for result in _run_each(place, program, cases, limits, on_case)]
            return Execution(
                language=language, cases=tuple(results), build_s=build_s, time_s=time.monotonic() - began
            )

    async def run_tests(
        self,
        language: Language,
        files: StarterFiles,
        *,
        limits: ExecutionLimits = DEFAULT_LIMITS,
        tests: Sequence[str] = (),
    ) -> Execution:
        """Run the test files among the files with the language's own runner: unittest, node:test, go test.

        `tests` are the paths of test files to run; by default all. Tests share a process with the code that
        they test, so the code can read them and can influence what is reported.
        """
        toolchain = (await self.toolchains()).get(language)
        checked = check_starter_files(files.items())
        check_reserved(checked)
        if language == "go":
            checked = with_go_module(checked)
        async with self._place(toolchain, checked) as place:
            return await _run_test_files(place, toolchain, language, checked, limits, tests)

    @asynccontextmanager
    async def _place(self, toolchain: LanguageToolchain, files: StarterFiles) -> AsyncIterator["_Place"]:
        """A slot, and a directory with the files that is removed in the end."""
        async with self._slot():
            shown, variables = await self._shown(toolchain)
            directory = await asyncio.to_thread(make_directory, "hutch-execution")
            try:
                await asyncio.to_thread(_write_files, directory, files)
                yield _Place(JailLocation(directory, directory, beside=shown), variables)
            finally:
                await asyncio.shield(asyncio.to_thread(_remove, directory))

    @asynccontextmanager
    async def _slot(self) -> AsyncIterator[None]:
        if self._waiting >= MAX_WAITING:
            raise LimitReached(
                f"{self._waiting} executions wait already, the maximum. Try again later.",
                limit="execution.concurrency",
            )
        self._waiting += 1
        try:
            await self._slots.acquire()
        finally:
            self._waiting -= 1
        try:
            yield
        finally:
            self._slots.release()

    async def _shown(self, toolchain: LanguageToolchain) -> tuple[tuple[Path, ...], dict[str, str]]:
        """The directories that a jail must be shown for a toolchain, and its variables."""
        variables = {**toolchain.variables, "PATH": toolchain.path}
        if toolchain.name != "go":
            return toolchain.shown, variables
        cache = await GoBuildCache(self._cache, toolchain).prepare()
        return (*toolchain.shown, cache), {**GO_VARIABLES, **variables, "GOCACHE": str(cache)}


class _Place:
    """The directory of one execution."""

    def __init__(self, location: JailLocation, variables: dict[str, str]) -> None:
        self.location = location
        self.variables = variables


async def _compile(place: _Place, program: CaseProgram, limits: ExecutionLimits) -> Execution | None:
    """Compile the code; returns the execution that failed for it."""
    if not program.builds:
        return None
    async with open_jail(place.location, build_policy(limits, place.variables)) as jail:
        for words in program.builds:
            ran = await jail.run(words, timeout_s=limits.timeout_s)
            if ran.exit_code != 0:
                why = "took too long" if ran.timed_out else f"was stopped by the limit {ran.limit_hit}"
                is_fault = not (ran.timed_out or ran.limit_hit)
                stderr = _text(ran.stderr_output, limits)
                lines = [line for line in stderr.splitlines() if line and not line.startswith("#")]
                first = f"The code does not compile: {lines[0] if lines else 'unknown reason'}"
                return Execution(
                    language=program.language,
                    problem=first[:2000] if is_fault else f"Compiling {why}.",
                    stdout=_text(ran.stdout_output, limits),
                    stderr=stderr,
                )
    return None


async def _run_test_files(
    place: _Place,
    toolchain: LanguageToolchain,
    language: Language,
    files: StarterFiles,
    limits: ExecutionLimits,
    tests: Sequence[str],
) -> Execution:
    policy = case_policy(limits, place.variables, writable=True)
    async with open_jail(place.location, policy) as jail:
        return await run_test_files(jail, toolchain, language, files, limits, tests)


async def _run_each(
    place: _Place,
    program: CaseProgram,
    cases: Sequence[CodeCase],
    limits: ExecutionLimits,
    on_case: OnCase | None,
) -> AsyncIterator[CaseResult]:
    policy = case_policy(limits, place.variables, writable=False, output_bytes=_buffer_bytes(limits))
    left_s = limits.timeout_s
    async for case, jail in _jails(place.location, policy, cases):
        timeout_s = min(left_s, case.timeout_s or limits.case_timeout_s)
        if timeout_s <= 0:
            message = f"Not run: the {limits.timeout_s:g} s of all cases together are used up."
            result = CaseResult(name=case.name, status="skipped", message=message)
        else:
            result = await _run_case(jail, program, case, limits, timeout_s)
            left_s -= result.time_s
        if on_case is not None:
            on_case(result)
        yield result


async def _jails(
    location: JailLocation, policy: Policy, cases: Sequence[CodeCase]
) -> AsyncIterator[tuple[CodeCase, Jail]]:
    """A new jail for each case. The next one starts while a case runs."""

    async def start(stack: list[Any]) -> Jail:
        opening = open_jail(location, policy)
        jail = await opening.__aenter__()
        stack.append(opening)
        return jail

    opened: list[Any] = []
    following: asyncio.Task[Jail] | None = asyncio.ensure_future(start(opened))
    try:
        for number, case in enumerate(cases, start=1):
            assert following is not None
            jail, following = await following, None
            if number < len(cases):
                following = asyncio.ensure_future(start(opened))
            yield case, jail
            await opened.pop(0).__aexit__(None, None, None)
    finally:
        if following is not None:
            await asyncio.wait([following])
        for opening in opened:
            await opening.__aexit__(None, None, None)


async def _run_case(
    jail: Jail, program: CaseProgram, case: CodeCase, limits: ExecutionLimits, timeout_s: float
) -> CaseResult:
    mark = secrets.token_hex(16)
    ran = await jail.run(program.argv(case), stdin=program.standard_input(case, mark), timeout_s=timeout_s)
    printed, report = _split_report(ran.stdout_output, mark)
    result = CaseResult(
        name=case.name,
        status="passed",
        stdout=_text(printed, limits),
        stderr=_text(ran.stderr_output, limits),
        time_s=ran.duration_s,
        cpu_s=ran.cpu_s,
        memory_bytes=ran.peak_bytes,
        is_output_cut=max(printed.total_bytes, ran.stderr_output.total_bytes) > limits.output_bytes,
    )
    if ran.timed_out:
        return replace(result, status="timeout", message=f"Stopped after {timeout_s:g} s.")
    if ran.limit_hit is not None and ran.limit_hit.limit not in ("open_files", "file_bytes"):
        return replace(result, status="limit", message=f"Stopped by the limit {ran.limit_hit}.")
    if case.stdin is not None:
        return _judge_program(result, case, ran)
    return _judge_call(result, case, program.language, report, ran)


def _judge_program(result: CaseResult, case: CodeCase, ran: Finished) -> CaseResult:
    if ran.exit_code != 0:
        return replace(result, status="error", message=f"The program ended with {_end(ran)}.")
    if case.stdout is not None and (why := find_output_difference(case.stdout, result.stdout)):
        return replace(result, status="failed", message=why)
    return result


def _judge_call(
    result: CaseResult, case: CodeCase, language: Language, report: dict[str, Any] | None, ran: Finished
) -> CaseResult:
    if report is None:
        return replace(result, status="error", message=f"The code ended without a result, with {_end(ran)}.")
    results, error = report["results"], report["error"]
    actual = results[0] if case.call and results else (results if case.create else None)
    why = find_difference(case, language, results, error)
    if not why:
        return replace(result, actual=actual)
    expects_failure = case.expected is not None and case.expected.fails
    status = "error" if error and not expects_failure else "failed"
    return replace(result, actual=actual, status=status, message=why)


def _end(ran: Finished) -> str:
    return f"exit code {ran.exit_code}" if ran.exit_code is not None else f"signal {ran.signal}"


def _split_report(output: StreamOutput, mark: str) -> tuple[StreamOutput, dict[str, Any] | None]:
    """The output without the last report of the driver, and the report. Both come from the jail."""
    last = output.tail if output.omitted_bytes else output.head
    before, found, after = last.rpartition(f"\n{mark} ".encode())
    if not found:
        return output, None
    line, _, rest = after.partition(b"\n")
    kept = before + rest
    printed = replace(output, tail=kept) if output.omitted_bytes else StreamOutput(kept)
    try:
        report = json.loads(line)
    except (ValueError, RecursionError):
        return printed, None
    if not isinstance(report, dict) or not isinstance(report.get("results"), list):
        return printed, None
    return printed, {"results": report["results"], "error": str(report.get("error") or "")[:2000]}


def _buffer_bytes(limits: ExecutionLimits) -> int:
    """Half of the buffer holds the end of the output, where the report is."""
    return max(limits.output_bytes, 2 * MAX_RESULT_BYTES)


def _text(output: StreamOutput, limits: ExecutionLimits) -> str:
    return bytes(output.shortened(limits.output_bytes)).decode(errors="replace")


def _write_files(directory: Path, files: StarterFiles) -> None:
    for path, file in files.items():
        target = directory / path
        target.parent.mkdir(parents=True, exist_ok=True)
        target.write_bytes(file.content)
        target.chmod(0o755 if file.executable else 0o644)


def _remove(directory: Path) -> None:
    shutil.rmtree(directory, ignore_errors=True)
