"""Runs programs without a shell for the users of a session: recorded like the commands of a shell."""

import asyncio
import shlex
from collections.abc import Callable

from hutch.agent.session_recorder import Recorder
from hutch.agent.tools.exec_without_shell import check_allowed
from hutch.agent.tools.interface import CommandOutput
from hutch.domain.current_actor_and_author import current_actor
from hutch.domain.events import CommandEnded, CommandStarted
from hutch.jail.interface import Finished
from hutch.sessions import file_and_command_requests as requests
from hutch.sessions.sandbox import Sandbox

SHELL = "exec"  # in events


class ProgramRunner:
    """Runs one program at a time, as a shell would."""

    def __init__(
        self, sandbox: Sandbox, recorder: Recorder, open_output: Callable[[str], CommandOutput]
    ) -> None:
        self._sandbox, self._recorder, self._open_output = sandbox, recorder, open_output
        self._turn = asyncio.Lock()

    async def run(self, request: requests.RunProgram) -> requests.CommandResult:
        check_allowed(request.argv, self._sandbox.allowed_commands)
        jail, by = self._sandbox.jail, current_actor().by
        command = shlex.join(request.argv)
        cwd = request.cwd if request.cwd.startswith("/") else f"{jail.workspace}/{request.cwd}".rstrip("/")
        async with self._turn:
            output, ran = self._open_output(SHELL), None
            self._recorder.report(CommandStarted(shell=SHELL, command=command, cwd=cwd, by=by))
            try:
                await self._recorder.append()
                ran = await jail.run(
                    request.argv,
                    cwd=cwd,
                    stdin=request.stdin,
                    timeout_s=request.timeout_s,
                    on_output=output.add,
                )
            finally:
                output.end(None)
                self._recorder.report(_ended(command, cwd, by, ran))
        await self._recorder.append()
        return await asyncio.to_thread(self._result, ran, cwd)

    def _result(self, ran: Finished, cwd: str) -> requests.CommandResult:
        redact = self._recorder.redactor.redact

        def clean(data: bytes) -> str:
            return redact(data.decode(errors="replace"))

        return requests.CommandResult(
            exit_code=ran.exit_code,
            signal=ran.signal,
            stdout=ran.stdout_output.render(clean),
            stderr=ran.stderr_output.render(clean),
            timed_out=ran.timed_out,
            running=False,
            id=None,
            cwd=redact(cwd),
            truncated=ran.truncated,
            duration_s=round(ran.duration_s, 6),
            note=f"The limit {ran.limit_hit} was hit." if ran.limit_hit else "",
        )


def _ended(command: str, cwd: str, by: str, ran: Finished | None) -> CommandEnded:
    return CommandEnded(
        shell=SHELL,
        command=command,
        cwd=cwd,
        exit_code=ran.exit_code if ran else None,
        signal=ran.signal if ran else None,
        timed_out=ran.timed_out if ran else False,
        duration_s=round(ran.duration_s, 6) if ran else 0.0,
        by=by,
    )
