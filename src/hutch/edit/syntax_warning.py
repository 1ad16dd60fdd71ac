"""A warning when an edit breaks the syntax of a file, or a new file has none.

The parsers handle some megabytes per second, so of a large file only the top-level
code around each change is parsed, before and after. A file that was broken already,
or that cannot be parsed in time, gives no warning.
"""

from collections.abc import Iterator
from pathlib import PurePosixPath
from typing import NamedTuple

import orjson

from hutch.edit.change_excerpt_and_diff import Window, clip
from hutch.edit.encoded_file_text import split_lines, without_ending
from hutch.edit.syntax_parser import Grammar, ParseFailed, first_error_line

_MAX_WHOLE_CHARS = 48 * 1024  # up to this size a whole file is parsed
_MAX_PARSED_CHARS = 64 * 1024  # around the changes of one large file
_MAX_FILE_CHARS = 2 * 1024 * 1024
_MAX_BOUNDARY_LINES = 2_000  # from a change to the start or end of its section


_PYTHON = Grammar("Python", "tree_sitter_python")
_JSON = Grammar("JSON", "tree_sitter_json")
_JAVASCRIPT = Grammar("JavaScript", "tree_sitter_javascript")
_TYPESCRIPT = Grammar("TypeScript", "tree_sitter_typescript", "language_typescript")
_YAML = Grammar("YAML", "tree_sitter_yaml")
_GRAMMARS = {
    **dict.fromkeys((".py", ".pyi"), _PYTHON),
    ".json": _JSON,
    ".toml": Grammar("TOML", "tree_sitter_toml"),
    **dict.fromkeys((".yaml", ".yml"), _YAML),
    **dict.fromkeys((".js", ".jsx", ".mjs", ".cjs"), _JAVASCRIPT),
    **dict.fromkeys((".ts", ".mts", ".cts"), _TYPESCRIPT),
    ".tsx": Grammar("TSX", "tree_sitter_typescript", "language_tsx"),
    ".go": Grammar("Go", "tree_sitter_go"),
}


class _Broken(NamedTuple):
    line: int  # from 0, in the text that was parsed
    text: str


def syntax_warning(path: str, before: str | None, after: str, window: Window) -> str | None:
    """The warning when a change broke the syntax of a file, or a new file does not parse; None otherwise.

    `before` is None for a new file.
    """
    is_new, before = before is None, before or ""
    grammar = _GRAMMARS.get(PurePosixPath(path).suffix.lower())
    size = max(len(before), len(after))
    if grammar is None or not window.ranges or size > _MAX_FILE_CHARS:
        return None
    if size <= _MAX_WHOLE_CHARS:
        broken = _newly_broken(grammar, before, after, 0)
    elif grammar is _JSON:
        broken = _broken_json("{}" if is_new else before, after)
    else:
        broken = next(filter(None, _checked(grammar, window)), None)
    if broken is None:
        return None
    shown = f": {clip(broken.text.strip(), 120)}" if broken.text.strip() else ""
    verb = "does not parse" if is_new else "no longer parses"
    return f"'{path}' {verb} as {grammar.name}, from line {broken.line + 1}{shown}"


def _checked(grammar: Grammar, window: Window) -> Iterator[_Broken | None]:
    """Check the section around each change, until the parse limit."""
    remaining, done = _MAX_PARSED_CHARS, -1
    for each in window.ranges:
        if each.start < done:
            continue  # in the last section
        start = _boundary(window, each.start, -1)
        end = _boundary(window, max(each.end, each.start + 1), 1)
        if start is None or end is None:
            return
        inside = [other for other in window.ranges if start <= other.start and other.end <= end]
        growth = sum(other.new_end - other.new_start - (other.end - other.start) for other in inside)
        new_start = each.new_start - (each.start - start)
        old_text = "".join(window.before[start:end])
        new_text = "".join(window.after[new_start : new_start + end - start + growth])
        remaining -= max(len(old_text), len(new_text))
        if remaining < 0:
            return
        done = end
        yield _newly_broken(grammar, old_text, new_text, window.first + new_start)


def _boundary(window: Window, line: int, step: int) -> int | None:
    """The nearest line, up or down, where top-level code begins after a blank line; or an end of the file."""
    lines = window.before
    for at in range(line, line + step * _MAX_BOUNDARY_LINES, step):
        if at <= 0:
            return 0 if window.starts_text else None
        if at >= len(lines):
            return len(lines) if window.ends_text else None
        if not lines[at][0].isspace() and lines[at][0] not in ")]}" and not lines[at - 1].strip():
            return at
    return None


def _newly_broken(grammar: Grammar, before: str, after: str, first: int) -> _Broken | None:
    try:
        line = first_error_line(grammar, after)
        if line is None or first_error_line(grammar, before) is not None:
            return None
    except ParseFailed:
        return None
    return _Broken(first + line, without_ending([*split_lines(after), ""][line]))


def _broken_json(before: str, after: str) -> _Broken | None:
    """Check large JSON with a faster parser."""
    try:
        orjson.loads(after)
    except orjson.JSONDecodeError as error:
        try:
            orjson.loads(before)
        except orjson.JSONDecodeError:
            return None
        lines = after.split("\n", error.lineno)
        return _Broken(error.lineno - 1, lines[error.lineno - 1])
    return None
