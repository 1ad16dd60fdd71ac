"""exec: run one program with an argument list, without a shell, if `jail.allowed_commands` has it."""

import asyncio
import shlex
from collections.abc import Sequence
from typing import ClassVar

from pydantic import Field

from hutch.agent.text_for_model import shortened, strip_escapes
from hutch.agent.tools.bash import SHOWN_CHARS, Printed, describe_total
from hutch.agent.tools.interface import Arguments, Context, ToolResult
from hutch.domain.current_actor_and_author import current_actor
from hutch.domain.errors import Denied
from hutch.domain.signal_names import signal_name
from hutch.jail.interface import Finished
from hutch.jail.policy import MAX_TIMEOUT_S

MAX_WORDS = 1000
SHOWN_NAME_CHARS = 200
MAX_STDIN_CHARS = 1_000_000


class ExecArguments(Arguments):
    argv: list[str] = Field(min_length=1, max_length=MAX_WORDS)
    cwd: str = ""
    stdin: str = Field("", max_length=MAX_STDIN_CHARS)
    timeout_s: float | None = Field(None, gt=0, le=MAX_TIMEOUT_S)

    @property
    def command(self) -> str:
        """The words as a line of shell, for rules and for people."""
        return shlex.join(self.argv)


class Exec:
    name: ClassVar[str] = "exec"
    description: ClassVar[str] = (
        "Run one program without a shell: argv is passed as it is. For pipes or a lasting directory use bash."
    )
    arguments: ClassVar[type[Arguments]] = ExecArguments
    parallel: ClassVar[bool] = False

    async def __call__(self, args: ExecArguments, context: Context) -> ToolResult:
        check_allowed(args.argv, context.allowed_commands)
        with context.working(current_actor()):
            ran = await context.jail.run(
                args.argv,
                cwd=f"{context.jail.workspace}/{args.cwd}" if not args.cwd.startswith("/") else args.cwd,
                stdin=args.stdin.encode(errors="replace"),
                timeout_s=args.timeout_s,
            )
        printed = await asyncio.to_thread(_printed, ran, context)
        data = {
            "exit_code": ran.exit_code,
            "signal": ran.signal,
            "stdout": shortened(printed.stdout, SHOWN_CHARS),
            "stderr": shortened(printed.stderr, SHOWN_CHARS),
            "timed_out": ran.timed_out,
            "truncated": ran.truncated or len(printed.both) > SHOWN_CHARS,
        }
        ok = not ran.timed_out and ran.signal is None
        return ToolResult(_text(ran, printed), ok=ok, data=data)


def check_allowed(argv: Sequence[str], allowed: Sequence[str]) -> None:
    """Refuse a program that is not in the list, compared as it is written; an empty list allows all."""
    if allowed and argv and argv[0] not in allowed:
        raise Denied(
            f"'{argv[0][:SHOWN_NAME_CHARS]}' is not among the allowed commands: {', '.join(allowed)}. Use "
            "one of these, or change jail.allowed_commands."
        )


def _printed(ran: Finished, context: Context) -> Printed:
    def clean(data: bytes) -> str:
        return context.redactor.redact(strip_escapes(data.decode(errors="replace")))

    return Printed(ran.stdout_output.render(clean), ran.stderr_output.render(clean))


def _text(ran: Finished, printed: Printed) -> str:
    lines = [shortened(printed.both, SHOWN_CHARS, rest="redirect it to a file to see all")]
    if ran.timed_out:
        advice = describe_total(ran.limit_hit) or "took too long and was killed. Give a larger timeout_s."
        lines.append(f"[It {advice}]")
    elif ran.signal is not None:
        lines.append(f"[It was ended by signal {signal_name(ran.signal)}.]")
    elif ran.exit_code:
        lines.append(f"[Exit code {ran.exit_code}.]")
    if ran.limit_hit and not ran.timed_out:
        lines.append(f"[The limit {ran.limit_hit} was hit.]")
    return "\n".join(filter(None, lines)) or "(no output)"
