"""comment: what a reviewer has to say about a line of the change under review."""

from typing import ClassVar

from pydantic import Field

from hutch.agent.tools.interface import Arguments, Context, ToolResult
from hutch.agent.tools.paths import existing
from hutch.domain.errors import BadRequest, Conflict, LimitReached, NotFound
from hutch.domain.patch import Patch
from hutch.domain.review import Severity
from hutch.workspace.files.partial_read import Binary

MAX_COMMENTS = 100
SHOWN_PATHS = 20


class CommentArguments(Arguments):
    path: str
    line: int = Field(ge=1, le=100_000_000)
    severity: Severity
    body: str = Field(min_length=1, max_length=4000)

    def touched(self) -> tuple[str, ...]:
        return (self.path,)


class Comment:
    """Only a review has it, and it knows the patch; it changes nothing. What was said is in the log."""

    name: ClassVar[str] = "comment"
    description: ClassVar[str] = (
        "Leave a comment on a line of the change under review, by the line's number in the file as it is "
        "now. severity: blocker must not be merged, should is to be mended, could is worth a thought."
    )
    arguments: ClassVar[type[Arguments]] = CommentArguments
    parallel: ClassVar[bool] = True

    def __init__(self, patch: Patch, made: int = 0) -> None:
        self._patch = patch
        self._made = made

    async def __call__(self, given: CommentArguments, context: Context) -> ToolResult:
        if self._made >= MAX_COMMENTS:
            raise LimitReached(
                f"There are {MAX_COMMENTS} comments already. Say the rest in the summary of finish.",
                limit="comments",
            )
        if not given.body.strip():
            raise BadRequest("body says nothing. Say what happens, and what would mend it.")
        path = await existing(given.path, context)
        if not self._patch.shows(path, "new", given.line):
            await self._check(path, given.line, context)
        self._made += 1
        said = {"path": path, "line": given.line, "severity": given.severity, "body": given.body}
        return ToolResult(f"Noted on {path}:{given.line}.", data=said)

    async def _check(self, path: str, line: int, context: Context) -> None:
        """Refuse a place that nobody could find, and say which there are."""
        known = self._patch.files.get(path)
        if known is not None and known.deleted:
            raise Conflict(f"The change deletes '{path}'. Say it in the summary of finish instead.")
        try:
            found = await context.workspace.read(path, line, line)
        except NotFound:
            paths = list(self._patch.files)
            more = f" and {len(paths) - SHOWN_PATHS} more" if len(paths) > SHOWN_PATHS else ""
            raise NotFound(
                f"There is no file '{path}'. The change touches: {', '.join(paths[:SHOWN_PATHS])}{more}."
            ) from None
        if isinstance(found, Binary):
            raise BadRequest(f"'{path}' is not text and has no lines. Say it in the summary of finish.")
        if found.last_line < line:
            raise BadRequest(f"'{path}' is empty: it has no line {line}. Say it in the summary of finish.")
