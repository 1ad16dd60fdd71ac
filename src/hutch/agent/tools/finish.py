"""finish: the task is done; what was done, for whoever reads the change."""

from typing import ClassVar

from pydantic import Field

from hutch.agent.tools.seam import Arguments, Context, ToolResult


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
