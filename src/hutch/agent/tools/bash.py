"""bash: commands in one shell that keeps its directory and variables."""

import re
from typing import Any, ClassVar

from pydantic import Field

from hutch.agent.tools.seam import Arguments, Context, ToolResult
from hutch.jail.policy import LONGEST_TIMEOUT_S
from hutch.jail.shell_result import Result

YIELD_S = 20.0
SHOWN_LETTERS = 12_000  # of each stream
ESCAPES = re.compile(
    r"\x1b(?:\[[0-?]*[ -/]*[@-~]"
    r"|\][^\x07\x1b]*(?:\x07|\x1b\\)?|[PX^_][^\x1b]*(?:\x1b\\)?|[@-Z\\-_]|[ -/]+[0-~])"
)
SHELL = "/bin/bash"


class BashArguments(Arguments):
    command: str
    timeout_s: float | None = Field(None, gt=0, le=LONGEST_TIMEOUT_S)
    yield_s: float | None = Field(None, ge=0, le=LONGEST_TIMEOUT_S)


class Bash:
    name: ClassVar[str] = "bash"
    description: ClassVar[str] = (
        "Run a command in bash; directory and variables persist. After yield_s seconds (20) it goes on in "
        "the background with an id; after timeout_s it is killed."
    )
    arguments: ClassVar[type[Arguments]] = BashArguments
    parallel: ClassVar[bool] = False

    async def __call__(self, given: BashArguments, context: Context) -> ToolResult:
        shell = context.shells.shell("agent", program=SHELL)
        if not given.command.strip():
            return ToolResult("(nothing to run)", data={**_data(Result(exit_code=0, cwd=shell.cwd))})
        # A command that is given a time is waited for; one that is not goes on by itself after a while.
        waits = given.timeout_s is not None and given.yield_s is None
        yield_s = None if waits else YIELD_S if given.yield_s is None else given.yield_s
        result = await shell.run(given.command, timeout_s=given.timeout_s, yield_s=yield_s)
        return ToolResult(told(result), ok=not result.timed_out and result.signal is None, data=_data(result))


def told(result: Result) -> str:
    """A result as a model reads it: output first, then what it needs to know."""
    parts = [plain(result.stdout), plain(result.stderr)]
    notes = []
    if result.running:
        notes.append(
            f"It goes on in the background as {result.id}. Look with bash_output, end it with bash_kill."
        )
    elif result.timed_out:
        notes.append(
            "It took too long and was killed. Give a larger timeout_s, or let it run in the background."
        )
    elif result.signal is not None:
        notes.append(f"It was ended by signal {result.signal}.")
    elif result.exit_code:
        notes.append(f"Exit code {result.exit_code}.")
    if result.limit_hit and not result.timed_out:
        notes.append(f"The limit {result.limit_hit} was hit.")
    if result.note:
        notes.append(result.note)
    if result.truncated and result.output_path:
        notes.append("The output was cut; send it to a file and look at parts of it with read_file or grep.")
    text = "\n".join(part.rstrip("\n") for part in parts if part.strip())
    return "\n".join([*([text] if text else []), *(f"[{note}]" for note in notes)]) or "(no output)"


def plain(text: str) -> str:
    """Text without what only drives a terminal; of a line that was written over, what stood last."""
    text = ESCAPES.sub("", text)
    text = "\n".join(line.rstrip("\r").rpartition("\r")[2] for line in text.split("\n"))
    text = "".join(letter for letter in text if letter >= " " or letter in "\n\t")
    if len(text) <= SHOWN_LETTERS:
        return text
    half = SHOWN_LETTERS // 2
    return f"{text[:half]}\n[... {len(text) - 2 * half} letters left out ...]\n{text[-half:]}"


def _data(result: Result) -> dict[str, Any]:
    return {
        "exit_code": result.exit_code,
        "stdout": plain(result.stdout),
        "stderr": plain(result.stderr),
        "timed_out": result.timed_out,
        "running": result.running,
        "id": result.id,
        "cwd": result.cwd,
        "truncated": result.truncated,
        "output_path": str(result.output_path) if result.output_path else None,
    }
