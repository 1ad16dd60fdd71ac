"""ask_user and finish: the agent's questions to the user, and the end of its work."""

from typing import Annotated, ClassVar

from pydantic import Field

from hutch.agent.tools.interface import Arguments, Context, ToolResult

ASK_USER = "ask_user"


class AskUserArguments(Arguments):
    question: str = Field(min_length=1)
    choices: list[Annotated[str, Field(min_length=1, max_length=200)]] = Field(
        default=[], max_length=10, description="Short answers to choose from; the user may give another."
    )


class AskUser:
    name: ClassVar[str] = ASK_USER
    description: ClassVar[str] = "Ask the user what you must know and cannot find out."
    arguments: ClassVar[type[Arguments]] = AskUserArguments
    parallel: ClassVar[bool] = False

    async def __call__(self, args: AskUserArguments, context: Context) -> ToolResult:
        if context.ask is None:
            return ToolResult(
                "No user is here to answer. Decide for yourself, and say in the summary what you decided.",
                ok=False,
            )
        return answer_result(await context.ask(args.question, "", args.choices))


def answer_result(answer: str) -> ToolResult:
    return ToolResult(f"The user answers: {answer}", data={"answer": answer})


class FinishArguments(Arguments):
    title: str = Field(min_length=1, max_length=200)
    summary: str = ""


class Finish:
    name: ClassVar[str] = "finish"
    description: ClassVar[str] = "Report that the task is done, with a one-line title and a short summary."
    arguments: ClassVar[type[Arguments]] = FinishArguments
    parallel: ClassVar[bool] = False

    async def __call__(self, args: FinishArguments, context: Context) -> ToolResult:
        title = " ".join(args.title.split())
        return ToolResult("Done.", data={"title": title, "summary": args.summary})
