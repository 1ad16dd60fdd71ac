"""Checks that a test runner starts in a jail by asking for its version. No test is run."""

import re
import shlex
from collections.abc import Callable

from hutch.agent.repository_testing.error_summary_line import error_line
from hutch.agent.repository_testing.runner_definition import Runner
from hutch.agent.repository_testing.test_results import (
    NO_PYTEST,
    NO_RUNNER,
    NOT_IN_NODE,
    NOT_INSTALLED,
    NOT_STARTED,
    NOT_THERE,
)
from hutch.agent.text_for_model import strip_escapes
from hutch.domain.errors import HutchError, NotFound
from hutch.jail.interface import Jail
from hutch.system.lazy_dataclass import dataclass

MAX_LINE_CHARS = 200
MAX_OUTPUT_CHARS = 16_384
PLAIN_WORD = re.compile(r"[A-Za-z0-9_./+-]+")
VERSION = re.compile(r"\b(?:go|v)?(\d{1,9}(?:\.\d{1,9}){1,5})")


@dataclass(frozen=True, slots=True)
class Probed:
    """The result of starting a runner."""

    works: bool
    found: str  # its version, or the error
    fix: str = ""


async def probe(
    jail: Jail, runner: Runner, *, cwd: str, timeout_s: float, clean: Callable[[str], str] = str
) -> Probed:
    """Ask a runner for its version, inside the jail. Its output is untrusted.

    `clean` removes secrets from the output, before it is cut.
    """
    if not runner.version:
        return await _probe_command(jail, runner, cwd, timeout_s)
    try:
        ran = await jail.run(runner.version, cwd=cwd, timeout_s=timeout_s)
    except NotFound:
        return Probed(False, f"there is no program {runner.version[0]} in the jail", NOT_THERE)
    except HutchError as error:
        return Probed(False, str(error))

    def readable(data: bytes) -> str:
        return clean(strip_escapes(data.decode(errors="replace")))

    output = f"{ran.stdout_output.render(readable)}\n{ran.stderr_output.render(readable)}"[:MAX_OUTPUT_CHARS]
    if ran.timed_out:
        return Probed(False, f"no answer within {timeout_s:g} s")
    if ran.exit_code == 0:
        version = VERSION.search(output)
        return Probed(True, version[1] if version else "its version is unknown")
    if missing := NOT_IN_NODE.search(output):
        return Probed(False, missing[0].rstrip("."), NO_RUNNER.format(**missing.groupdict()))
    line = (error_line(output) or f"it ended with {ran.exit_code or f'signal {ran.signal}'}")[:MAX_LINE_CHARS]
    if NOT_INSTALLED in output:
        return Probed(False, line, NO_PYTEST)
    return Probed(False, line, NOT_THERE if ran.exit_code in NOT_STARTED else "")


async def _probe_command(jail: Jail, runner: Runner, cwd: str, timeout_s: float) -> Probed:
    """Check that the first word of a configured command is a program; the command itself may do anything."""
    unknown = Probed(True, "not tried, as it may run anything")
    try:
        first = shlex.split(str(runner))[0]
    except (ValueError, IndexError):
        return unknown
    if not PLAIN_WORD.fullmatch(first):
        return unknown
    script = 'command -v -- "$1" >/dev/null'
    ran = await jail.run(["/bin/bash", "-c", script, "find", first], cwd=cwd, timeout_s=timeout_s)
    return (
        unknown
        if ran.exit_code == 0
        else Probed(False, f"there is no program {first} in the jail", NOT_THERE)
    )
