"""comment: a reviewer's remark on a line of the change under review."""

from typing import ClassVar

from pydantic import Field

from hutch.agent.tools.interface import Arguments, Context, ToolResult
from hutch.agent.tools.model_written_paths import existing
from hutch.domain.errors import BadRequest, Conflict, LimitReached, NotFound
from hutch.domain.git_patch import Patch
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
    """Only reviews have this tool. It changes no file; the comments are in the log."""

    name: ClassVar[str] = "comment"
    description: ClassVar[str] = (
        "Leave a comment on a line of the change under review, by the line's number in the file as it is "
        "now. severity: blocker must not be merged, should is to be fixed, could is optional."
    )
    arguments: ClassVar[type[Arguments]] = CommentArguments
    parallel: ClassVar[bool] = True

    def __init__(self, patch: Patch, made: int = 0) -> None:
        self._patch = patch
        self._made = made

    async def __call__(self, args: CommentArguments, context: Context) -> ToolResult:
        if self._made >= MAX_COMMENTS:
            raise LimitReached(
                f"There are already {MAX_COMMENTS} comments. Put the rest into the summary of finish.",
                limit="comments",
            )
        if not args.body.strip():
            raise BadRequest("body is blank. Describe the problem and the fix.")
        path = await existing(args.path, context)
        if not self._patch.shows(path, "new", args.line):
            await self._check(path, args.line, context)
        self._made += 1
        comment = {"path": path, "line": args.line, "severity": args.severity, "body": args.body}
        return ToolResult(f"Noted on {path}:{args.line}.", data=comment)

    async def _check(self, path: str, line: int, context: Context) -> None:
        """Refuse a line that does not exist, with a hint."""
        known = self._patch.files.get(path)
        if known is not None and known.deleted:
            raise Conflict(
                f"The change deletes '{path}'. Put the comment into the summary of finish instead."
            )
        try:
            found = await context.workspace.read(path, line, line)
        except NotFound:
            paths = list(self._patch.files)
            more = f" and {len(paths) - SHOWN_PATHS} more" if len(paths) > SHOWN_PATHS else ""
            raise NotFound(
                f"There is no file '{path}'. The change touches: {', '.join(paths[:SHOWN_PATHS])}{more}."
            ) from None
        if isinstance(found, Binary):
            raise BadRequest(
                f"'{path}' is not text and has no lines. Put the comment into the summary of finish."
            )
        if found.last_line < line:
            raise BadRequest(
                f"'{path}' is empty: it has no line {line}. Put the comment into the summary of finish."
            )
