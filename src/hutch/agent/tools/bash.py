"""bash runs commands in one shell that keeps its directory and variables; bash_output and bash_kill control
those that continue in the background.

A line `[stderr]` precedes the text that a command printed to standard error.
"""

import asyncio
import signal
from collections.abc import Callable
from typing import Annotated, Any, ClassVar, NamedTuple

from pydantic import Field, WithJsonSchema

from hutch.agent.long_output_files import save_output
from hutch.agent.text_for_model import shortened, strip_escapes, without_partial_end
from hutch.agent.tools.interface import Arguments, Context, ToolResult
from hutch.domain.redaction import redacted_excerpt
from hutch.domain.signal_names import SignalNumber, signal_name
from hutch.jail.interface import LimitHit
from hutch.jail.limits.command_timeout_cap import MEMBERS_TIMEOUT
from hutch.jail.output_buffer import INLINE_REDACTION_BYTES
from hutch.jail.policy import MAX_TIMEOUT_S, Limits
from hutch.jail.shell.command_results_and_events import Result
from hutch.jail.shell.shared_jails_and_shells import Shells
from hutch.jail.shell.shell import Shell

YIELD_S = 20.0
SHOWN_CHARS = 10_000  # of all output
MAX_SAVED_OUTPUTS = 16  # files with outputs that were too long to show
SHELL = "/bin/bash"
STDERR = "[stderr]"  # before what was printed to standard error


def agent_shell(shells: Shells) -> Shell:
    """The shell that the agent's commands run in."""
    return shells.shell("agent", program=SHELL)


class BashArguments(Arguments):
    command: str
    timeout_s: float | None = Field(None, gt=0, le=MAX_TIMEOUT_S)
    yield_s: float | None = Field(None, ge=0, le=MAX_TIMEOUT_S)


class Bash:
    name: ClassVar[str] = "bash"
    description: ClassVar[str] = (
        "Run a command in bash; directory and variables persist. After yield_s seconds (20) it continues in "
        "the background with an id. It is killed after timeout_s; without it, when it prints nothing for "
        "long (30 s by default): start servers with &."
    )
    arguments: ClassVar[type[Arguments]] = BashArguments
    parallel: ClassVar[bool] = False

    async def __call__(self, args: BashArguments, context: Context) -> ToolResult:
        shell = agent_shell(context.shells)
        if not args.command.strip():
            nothing = Result(exit_code=0, cwd=shell.cwd)
            return ToolResult("(nothing to run)", data=_data(nothing, Printed("", "")))
        # With a timeout, wait for the command; without one, let it continue in the background after YIELD_S.
        waits = args.timeout_s is not None and args.yield_s is None
        yield_s = None if waits else YIELD_S if args.yield_s is None else args.yield_s
        output = context.open_output(shell.name) if context.open_output else None
        result = await shell.run(
            args.command,
            timeout_s=args.timeout_s,
            yield_s=yield_s,
            silence_s=_max_silence(args.timeout_s, context.jail.policy.limits),
            on_output=output.add if output else None,
            on_end=output.end if output else None,
        )
        saved = await self._save(
            Printed(strip_escapes(result.stdout), strip_escapes(result.stderr)).both, context
        )
        if len(result.stdout_output) + len(result.stderr_output) <= INLINE_REDACTION_BYTES:
            printed = _printed(result, context)
        else:
            printed = await asyncio.to_thread(_printed, result, context)
        ok = not result.timed_out and result.signal is None
        return ToolResult(render_result(result, printed, saved), ok=ok, data=_data(result, printed))

    async def _save(self, output: str, context: Context) -> str:
        """Save an output that is too long to show, unredacted, to a file in the jail; return its path."""
        if len(output) <= SHOWN_CHARS:
            return ""
        number = next(context.outputs) % MAX_SAVED_OUTPUTS
        return await save_output(context.jail, f"/tmp/hutch-output-{number}.txt", output)


def _max_silence(timeout_s: float | None, limits: Limits) -> float | None:
    """For how long a command may print nothing; None: as long as it runs."""
    if timeout_s is None:
        return limits.command_timeout_s
    most_s = limits.max_command_timeout_s
    return most_s if most_s is not None and timeout_s > most_s else None


class Printed(NamedTuple):
    """The readable output of a command."""

    stdout: str
    stderr: str

    @property
    def both(self) -> str:
        parts = [self.stdout, f"{STDERR}\n{self.stderr}" if self.stderr.strip() else ""]
        return "\n".join(part.rstrip("\n") for part in parts if part.strip())


def _printed(result: Result, context: Context) -> Printed:
    """The output without secrets. It is cut only afterwards, since half of a secret is not recognised."""
    clean, clean_end = _clean(context), _clean(context, running=result.running)
    return Printed(
        result.stdout_output.render(clean, clean_end=clean_end),
        result.stderr_output.render(clean, clean_end=clean_end),
    )


def _clean(context: Context, *, running: bool = False) -> Callable[[bytes], str]:
    """A function that makes output readable. While the command runs, the rest of a secret, of a character or
    of an escape may still come: their beginnings are held back."""

    def clean(data: bytes) -> str:
        if not running:
            return context.redactor.redact(strip_escapes(data.decode(errors="replace")))
        text = strip_escapes(without_partial_end(data).decode(errors="replace"))
        return context.redactor.redact(context.redactor.drop_partial_secret(text))

    return clean


def render_result(result: Result, printed: Printed, saved: str = "") -> str:
    """A result as a model reads it: the output, then notes about how the command ended."""
    where = (
        f"all of it is in {saved}, read parts with sed or grep"
        if saved
        else "redirect it to a file to see all"
    )
    text = shortened(printed.both, SHOWN_CHARS, rest=where)
    notes = []
    if result.running:
        notes.append(f"It continues in the background as {result.id}. See bash_output and bash_kill.")
    elif result.timed_out:
        notes.append(f"It {_describe_timeout(result)}")
    elif result.signal is not None:
        notes.append(f"It was ended by signal {signal_name(result.signal)}.")
    elif result.exit_code:
        notes.append(f"Exit code {result.exit_code}.")
    if result.limit_hit and not result.timed_out:
        notes.append(f"The limit {result.limit_hit} was hit.")
    if result.note:
        notes.append(result.note)
    if result.truncated:
        notes.append(
            "There was more output than Hutch stores. Redirect it to a file, and read parts of that."
        )
    return "\n".join([*([text] if text else []), *(f"[{note}]" for note in notes)]) or "(no output)"


def _describe_timeout(result: Result) -> str:
    if at_most := describe_total(result.limit_hit):
        return at_most
    if result.was_silent and result.limit_hit:
        return (
            f"was killed after {result.limit_hit.value} (the setting jail.command_timeout_s). "
            "Give a timeout_s, or start a server with &."
        )
    return "took too long and was killed. Give a larger timeout_s, or let it run in the background."


def describe_total(hit: LimitHit | None) -> str:
    """The advice for a command that took as long as any may; empty if another limit stopped it."""
    advice = "A larger timeout_s does not help. Work in smaller steps, or tell the user that it is too low."
    match hit:
        case LimitHit(limit="command_total_s"):
            setting = "the most that any command may take (jail.command_total_s)"
        case LimitHit(limit=limit) if limit == MEMBERS_TIMEOUT:
            setting = f"the most that an owner allows to members ({MEMBERS_TIMEOUT})"
        case _:
            return ""
    return f"was killed after {hit.value}, {setting}. {advice}"


def _data(result: Result, printed: Printed) -> dict[str, Any]:
    return {
        "exit_code": result.exit_code,
        "signal": result.signal,
        "stdout": shortened(printed.stdout, SHOWN_CHARS),
        "stderr": shortened(printed.stderr, SHOWN_CHARS),
        "timed_out": result.timed_out,
        "running": result.running,
        "id": result.id,
        "cwd": result.cwd,
        "truncated": result.truncated or max(len(printed.both), *map(len, printed)) > SHOWN_CHARS,
        "output_path": str(result.output_path) if result.output_path else None,
    }


class BashOutputArguments(Arguments):
    id: str
    wait_s: float = Field(0, ge=0, le=600)


class BashOutput:
    name: ClassVar[str] = "bash_output"
    description: ClassVar[str] = "New output of a background command; waits up to wait_s for its end."
    arguments: ClassVar[type[Arguments]] = BashOutputArguments
    parallel: ClassVar[bool] = True

    async def __call__(self, args: BashOutputArguments, context: Context) -> ToolResult:
        command = context.shells.background.get(args.id)
        if args.wait_s and command.running:
            await command.wait(args.wait_s)
        tape = command.read()
        missed = tape.start - tape.requested

        whole, start = tape.before + tape.data, len(tape.before)
        before, now = _clean(context, running=True), _clean(context, running=tape.running)
        # A line that was overwritten is new as a whole; else nothing is repeated.
        is_redrawn = b"\r" in whole[whole.rfind(b"\n", 0, start) + 1 :]
        printed = redacted_excerpt(whole, start, len(whole), now, by_line=is_redrawn, redact_before=before)
        text = shortened(printed.rstrip("\n"), SHOWN_CHARS, head=0.2)
        if missed:
            text = f"[... {missed:,} earlier bytes are no longer available ...]\n{text}"
        result = command.result()
        if command.running:
            state = "still running"
        elif result.timed_out:
            state = _describe_timeout(result).rstrip(".")
        elif result.signal is not None:
            state = f"ended by signal {signal_name(result.signal)}"
        else:
            state = f"ended with exit code {result.exit_code}"
        data = {
            "id": args.id,
            "output": text,
            "truncated": bool(missed) or len(printed.rstrip("\n")) > SHOWN_CHARS,
            "running": command.running,
            "exit_code": result.exit_code,
            "signal": result.signal,
            "timed_out": result.timed_out,
        }
        return ToolResult(f"{text}\n[{state}]" if text else f"[{state}, nothing new]", data=data)


END_TIMEOUT_S = 1.0  # for a command to end after a signal


class BashKillArguments(Arguments):
    id: str
    signal: Annotated[SignalNumber, WithJsonSchema({"type": "string"})] = int(signal.SIGKILL)


class BashKill:
    name: ClassVar[str] = "bash_kill"
    description: ClassVar[str] = (
        "Kill a background command and its processes, or send it a signal such as INT."
    )
    arguments: ClassVar[type[Arguments]] = BashKillArguments
    parallel: ClassVar[bool] = False

    async def __call__(self, args: BashKillArguments, context: Context) -> ToolResult:
        command = context.shells.background.get(args.id)
        if not command.running:
            was_left = await command.signal(args.signal)
            sent = f"{signal_name(args.signal)} was sent to the processes that {args.id} left running."
            text = sent if was_left else f"{args.id} has already ended."
            return ToolResult(text, data={"id": args.id, "running": False})
        if args.signal == signal.SIGKILL:
            await command.kill()
            return ToolResult(f"{args.id} was killed.", data={"id": args.id, "running": False})
        await command.signal(args.signal)
        running = (await command.wait(END_TIMEOUT_S)).running
        state = "still runs; use KILL to end it" if running else "has ended"
        return ToolResult(
            f"{signal_name(args.signal)} was sent to {args.id}, which {state}.",
            data={"id": args.id, "running": running},
        )
