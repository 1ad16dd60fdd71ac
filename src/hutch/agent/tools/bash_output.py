"""bash_output: what a background command has printed since the last look."""

from typing import ClassVar

from pydantic import Field

from hutch.agent.plain import plain, shortened
from hutch.agent.tools.bash import SHOWN_LETTERS
from hutch.agent.tools.seam import Arguments, Context, ToolResult
from hutch.domain.redaction import excerpt


class BashOutputArguments(Arguments):
    id: str
    wait_s: float = Field(0, ge=0, le=600)


class BashOutput:
    name: ClassVar[str] = "bash_output"
    description: ClassVar[str] = "New output of a background command; wait_s waits up to so long for its end."
    arguments: ClassVar[type[Arguments]] = BashOutputArguments
    parallel: ClassVar[bool] = True

    async def __call__(self, given: BashOutputArguments, context: Context) -> ToolResult:
        command = context.shells.background.get(given.id)
        if given.wait_s and command.running:
            await command.wait(given.wait_s)
        tape = command.read()
        missed = tape.start - tape.asked

        def told(part: bytes) -> str:
            return context.redactor.clean(plain(part.decode(errors="replace")))

        def told_running(part: bytes) -> str:  # the rest of a secret may be about to come
            return context.redactor.clean(context.redactor.settled(plain(part.decode(errors="replace"))))

        whole, start = tape.before + tape.data, len(tape.before)
        now = told_running if tape.running else told
        printed = excerpt(whole, start, len(whole), now, by_line=True, told_before=told_running)
        text = shortened(printed.rstrip("\n"), SHOWN_LETTERS, head=0.2)
        if missed:
            text = f"[... {missed:,} bytes were printed before this and are not kept ...]\n{text}"
        result = command.result()
        if command.running:
            state = "still running"
        elif result.timed_out:
            state = "took too long and was killed"
        elif result.signal is not None:
            state = f"ended by signal {result.signal}"
        else:
            state = f"ended with exit code {result.exit_code}"
        data = {
            "id": given.id,
            "output": text,
            "truncated": bool(missed) or len(printed.rstrip("\n")) > SHOWN_LETTERS,
            "running": command.running,
            "exit_code": result.exit_code,
            "signal": result.signal,
            "timed_out": result.timed_out,
        }
        return ToolResult(f"{text}\n[{state}]" if text else f"[{state}, nothing new]", data=data)
