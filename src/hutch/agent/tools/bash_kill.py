"""bash_kill: a signal to a background command, or the end of it."""

import signal
from typing import ClassVar, Literal

from hutch.agent.tools.seam import Arguments, Context, ToolResult

END_S = 1.0  # for it to end after a signal


class BashKillArguments(Arguments):
    id: str
    signal: Literal["KILL", "TERM", "INT", "HUP"] = "KILL"


class BashKill:
    name: ClassVar[str] = "bash_kill"
    description: ClassVar[str] = "End a background command and all it started, or send it a signal."
    arguments: ClassVar[type[Arguments]] = BashKillArguments
    parallel: ClassVar[bool] = False

    async def __call__(self, given: BashKillArguments, context: Context) -> ToolResult:
        command = context.shells.background.get(given.id)
        if not command.running:
            return ToolResult(f"{given.id} has ended already.", data={"id": given.id, "running": False})
        if given.signal == "KILL":
            await command.kill()
            return ToolResult(f"{given.id} was ended.", data={"id": given.id, "running": False})
        await command.signal(signal.Signals[f"SIG{given.signal}"])
        running = (await command.wait(END_S)).running
        state = "still runs; KILL ends it" if running else "has ended"
        return ToolResult(
            f"SIG{given.signal} was sent to {given.id}, which {state}.",
            data={"id": given.id, "running": running},
        )
