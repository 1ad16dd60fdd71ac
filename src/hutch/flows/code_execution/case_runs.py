"""Runs the cases of one execution: compiles the code once, then starts each case in a jail of its own."""

import asyncio
import json
import secrets
from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import Any

from hutch.domain.errors import HutchError
from hutch.domain.given_code_test_case import CodeCase, Language
from hutch.flows.code_execution.case_comparison import find_difference, find_output_difference
from hutch.flows.code_execution.case_programs import CaseProgram
from hutch.flows.code_execution.execution_limits_and_results import (
    CaseResult,
    Execution,
    ExecutionLimits,
    Status,
)
from hutch.flows.code_execution.jail_policies import ExecutionPlace, build_policy, case_policy
from hutch.jail.interface import Finished, Jail
from hutch.jail.jail_directory_and_namespaces import JailLocation
from hutch.jail.jail_startup import Jailed, open_jail, start_jail
from hutch.jail.output_buffer import StreamOutput
from hutch.jail.policy import Policy

MAX_RESULT_BYTES = 512 * 1024  # of the report of one case, behind what it printed
CLAIMED_LIMITS = ("open_files", "file_bytes")  # by the output only, which may say anything
OnCase = Callable[[CaseResult], None]


async def compile_code(
    place: ExecutionPlace, program: CaseProgram, limits: ExecutionLimits
) -> Execution | None:
    """Compile the code; returns the execution that failed for it."""
    if not program.builds:
        return None
    async with open_jail(place.location, build_policy(limits, place)) as jail:
        for words in program.builds:
            ran = await jail.run(words, timeout_s=limits.timeout_s)
            if ran.exit_code != 0:
                why = "took too long" if ran.timed_out else f"was stopped by the limit {ran.limit_hit}"
                is_fault = not (ran.timed_out or ran.limit_hit)
                stderr = to_text(ran.stderr_output, limits)
                lines = [line for line in stderr.splitlines() if line and not line.startswith("#")]
                first = f"The code does not compile: {lines[0] if lines else 'unknown reason'}"
                return Execution(
                    language=program.language,
                    problem=first[:2000] if is_fault else f"Compiling {why}.",
                    stdout=to_text(ran.stdout_output, limits),
                    stderr=stderr,
                )
    return None


async def run_each_case(
    place: ExecutionPlace,
    program: CaseProgram,
    cases: Sequence[CodeCase],
    limits: ExecutionLimits,
    on_case: OnCase | None,
) -> list[CaseResult]:
    """The results of all cases, in order."""
    policy = case_policy(limits, place, writable=False, output_bytes=_buffer_bytes(limits))
    results: list[CaseResult] = []
    left_s = limits.timeout_s
    following = _NextJail(place.location, policy)
    try:
        for number, case in enumerate(cases, start=1):
            timeout_s = min(left_s, case.timeout_s or limits.case_timeout_s)
            if timeout_s <= 0:
                message = f"Not run: the {limits.timeout_s:g} s of all cases together are used up."
                result = CaseResult(name=case.name, status="skipped", message=message)
            else:
                jail = await following.take()
                try:
                    if number < len(cases):
                        following.begin()
                    result = await _run_case(jail, program, case, limits, timeout_s)
                finally:
                    await asyncio.shield(asyncio.ensure_future(jail.close()))
                left_s -= result.time_s
            results.append(result)
            if on_case is not None:
                on_case(result)
    finally:
        await asyncio.shield(asyncio.ensure_future(following.close()))
    return results


class _NextJail:
    """A jail that starts while the case before it runs."""

    def __init__(self, location: JailLocation, policy: Policy) -> None:
        self._location, self._policy = location, policy
        self._starting: asyncio.Task[Jailed] | None = None

    def begin(self) -> None:
        self._starting = asyncio.ensure_future(start_jail(self._location, self._policy))

    async def take(self) -> Jailed:
        if self._starting is None:
            self.begin()
        starting, self._starting = self._starting, None
        assert starting is not None
        return await starting

    async def close(self) -> None:
        """Close the jail that nobody took."""
        if self._starting is None:
            return
        try:
            jail = await self._starting
        except HutchError:  # it could not be started, and is not needed
            return
        await jail.close()


async def _run_case(
    jail: Jail, program: CaseProgram, case: CodeCase, limits: ExecutionLimits, timeout_s: float
) -> CaseResult:
    mark = secrets.token_hex(16)
    ran = await jail.run(program.argv(case), stdin=program.standard_input(case, mark), timeout_s=timeout_s)
    printed, report = _split_report(ran.stdout_output, mark)
    result = CaseResult(
        name=case.name,
        status="passed",
        stdout=to_text(printed, limits),
        stderr=to_text(ran.stderr_output, limits),
        time_s=ran.duration_s,
        cpu_s=ran.cpu_s,
        memory_bytes=ran.peak_bytes,
        is_output_cut=max(printed.total_bytes, ran.stderr_output.total_bytes) > limits.output_bytes,
    )
    if ran.timed_out:
        return replace(result, status="timeout", message=f"Stopped after {timeout_s:g} s.")
    if ran.limit_hit is not None and ran.limit_hit.limit not in CLAIMED_LIMITS:
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
    status: Status = "error" if error and not expects_failure else "failed"
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


def to_text(output: StreamOutput, limits: ExecutionLimits) -> str:
    return bytes(output.shortened(limits.output_bytes)).decode(errors="replace")
