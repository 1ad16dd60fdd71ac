"""ask_user and finish: what the agent says to whoever gave the task."""

from typing import ClassVar

from pydantic import Field

from hutch.agent.tools.interface import Arguments, Context, ToolResult

ASK_USER = "ask_user"


class AskUserArguments(Arguments):
    question: str = Field(min_length=1)


class AskUser:
    name: ClassVar[str] = ASK_USER
    description: ClassVar[str] = "Ask the user, only for what you cannot find out and must know."
    arguments: ClassVar[type[Arguments]] = AskUserArguments
    parallel: ClassVar[bool] = False

    async def __call__(self, given: AskUserArguments, context: Context) -> ToolResult:
        if context.ask is None:
            return ToolResult(
                "Nobody is there to answer. Decide for yourself, and say in the summary what you decided.",
                ok=False,
            )
        return answered(await context.ask(given.question, ""))


def answered(answer: str) -> ToolResult:
    return ToolResult(f"The user answers: {answer}", data={"answer": answer})


class FinishArguments(Arguments):
    title: str = Field(min_length=1, max_length=200)
    summary: str = ""


class Finish:
    name: ClassVar[str] = "finish"
    description: ClassVar[str] = "Say that the task is done: a title of one line, and a short summary."
    arguments: ClassVar[type[Arguments]] = FinishArguments
    parallel: ClassVar[bool] = False

    async def __call__(self, given: FinishArguments, context: Context) -> ToolResult:
        title = " ".join(given.title.split())
        return ToolResult("Done.", data={"title": title, "summary": given.summary})
