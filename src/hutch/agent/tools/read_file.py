"""read_file: the numbered lines of a text file, an image for models that see, or the kind of another file."""

import asyncio
import base64
import hashlib
from collections.abc import Callable
from typing import ClassVar

from pydantic import Field

from hutch.agent.tools.interface import Arguments, Context, ImageResult, ToolResult
from hutch.agent.tools.model_written_paths import existing
from hutch.domain.image_header import MAX_SIDE, SUFFIXES, read_image_header
from hutch.domain.redaction import mask_across
from hutch.edit.encoded_file_text import split_lines, without_ending
from hutch.workspace.files.partial_read import Binary, Lines

MAX_LINES = 1000
LINE_CHARS = 2000
MAX_CHARS = 20_000  # at once
MAX_IMAGE_BYTES = 768 * 1024  # in a request and in the log it takes a third more


class ReadFileArguments(Arguments):
    path: str
    start_line: int | None = Field(None, ge=1)
    end_line: int | None = Field(None, ge=1)

    def touched(self) -> tuple[str, ...]:
        return (self.path,)


class ReadFile:
    name: ClassVar[str] = "read_file"
    description: ClassVar[str] = (
        f"Read a text file with line numbers, up to {MAX_LINES} lines from start_line on; or see an image."
    )
    arguments: ClassVar[type[Arguments]] = ReadFileArguments
    parallel: ClassVar[bool] = True

    async def __call__(self, args: ReadFileArguments, context: Context) -> ToolResult:
        path = await existing(args.path, context)
        first = args.start_line or 1
        last = min(args.end_line or first + MAX_LINES - 1, first + MAX_LINES - 1)
        found = await context.workspace.read(path, first, last)
        if isinstance(found, Binary) and path.lower().endswith(SUFFIXES):
            return await _read_image(found, context)
        if isinstance(found, Binary):
            head = f", begins with {found.head}" if context.mask is None else ""
            return ToolResult(
                f"'{path}' is not text: {found.kind}, {found.size:,} bytes{head}. "
                f"Inspect it with bash (file, xxd, strings).",
                data={"path": path, "binary": True, "size": found.size, "kind": found.kind},
            )
        if found.sha256:
            context.read[path] = found.sha256
        data = {
            "path": path,
            "text": found.text,
            "first_line": found.first_line,
            "last_line": found.last_line,
            "total_lines": found.total_lines,
            "sha256": found.sha256 if context.mask is None else None,
        }
        if found.last_line < found.first_line:
            return ToolResult("(the file is empty)", data=data)
        shown = await asyncio.to_thread(_shown, found, context)
        last = found.first_line + len(shown) - 1
        data |= {"last_line": last, "text": "".join(shown)}
        numbered = enumerate(map(without_ending, shown), start=found.first_line)
        lines = [f"{number:>6}\t{line}" for number, line in numbered]
        if found.total_lines is None or last < found.total_lines:
            of = f" of {found.total_lines:,}" if found.total_lines else ""
            lines.append(f"(lines {found.first_line} to {last}{of}; continue with start_line {last + 1})")
        return ToolResult("\n".join(lines), data=data)


async def _read_image(found: Binary, context: Context) -> ToolResult:
    """The image as it is in the file: nothing is decoded or converted."""
    path, data = found.path, (await context.workspace.read_range(found.path)).data
    header = read_image_header(data)
    facts = {"path": path, "binary": True, "size": found.size, "kind": found.kind}
    if header is None:
        return ToolResult(f"'{path}' is no PNG, JPEG, GIF or WebP, whatever its name says.", data=facts)
    facts |= {"media_type": header.media_type, "width": header.width, "height": header.height}
    what = f"'{path}' is an image: {header.media_type}, {header.width}x{header.height}, {found.size:,} bytes."
    if found.size > MAX_IMAGE_BYTES or not header.fits:
        limit = f"{MAX_IMAGE_BYTES:,} bytes and {MAX_SIDE:,} pixels on a side"
        return ToolResult(f"{what} It is too large to be shown: make it smaller, up to {limit}.", data=facts)
    encoded = base64.b64encode(data).decode()
    mask, redact = context.redactor.mask, context.redactor.redact
    if await asyncio.to_thread(lambda: mask(data) != data or redact(encoded) != encoded):
        return ToolResult(f"{what} It holds a secret, so it is not shown.", data=facts)
    digest = hashlib.sha256(data).hexdigest()
    image = ImageResult(path, header, found.size, digest, encoded)
    hashed = {"sha256": digest if context.mask is None else None}
    return ToolResult(what, data=facts | hashed, image=image)


def _shown(found: Lines, context: Context) -> list[str]:
    """As many lines as MAX_CHARS allows, and at least one."""
    lines = split_lines(found.text)
    count = _fitting(lines)
    text, rest = "".join(lines[:count]), "".join(lines[count:])
    text = _hidden(found.before, text, rest + found.after, context)
    return [_shortened(line, context.redactor.redact) for line in split_lines(text)]


def _fitting(lines: list[str]) -> int:
    remaining = MAX_CHARS
    for count, line in enumerate(lines):
        remaining -= min(len(line), LINE_CHARS) + 8
        if remaining < 0 and count:
            return count
    return len(lines)


def _shortened(line: str, clean: Callable[[str], str]) -> str:
    text = without_ending(line)
    if len(text) <= LINE_CHARS:
        return line
    text, end = clean(text), line[len(text) :]  # half of a secret would not be recognised
    more = len(text) - LINE_CHARS
    if more <= 0:
        return text + end
    return f"{text[:LINE_CHARS]}… ({more:,} more characters; read them with bash){end}"


def _hidden(before: str, text: str, after: str, context: Context) -> str:
    """The text without the parts of secrets that begin in lines before it or continue in lines after it; for
    a caller who may only read, without any byte of a secret."""
    first, shown, last = (each.encode(errors="surrogatepass") for each in (before, text, after))
    start, end, whole = len(first), len(first) + len(shown), first + shown + last
    if context.mask is not None:
        return context.mask(whole)[start:end].decode(errors="surrogatepass")
    return mask_across(whole, start, end, context.redactor.mask).decode(errors="surrogatepass")
