"""Edits of one file: their kinds, and the text that they result in.

Nothing here touches a file. Edits are applied one after the other: old text is searched
in the result of the edit before; line numbers always refer to the original file.
"""

from collections.abc import Mapping, Sequence
from dataclasses import field, replace

from hutch.domain.errors import BadRequest, Conflict
from hutch.edit.encoded_file_text import (
    BOM,
    common_ending,
    ending,
    separate_line_ends,
    split_lines,
    without_ending,
)
from hutch.edit.fuzzy_match import IndexedText, MatchLevel
from hutch.edit.match_errors import already_applied, ambiguous, not_found
from hutch.edit.placeholder_and_line_number_detection import find_placeholder, leading_line_numbers
from hutch.edit.quoted_text_replacement import Match, find, find_at, fit, fit_lines, split_quote
from hutch.edit.span_mapping_across_edits import (
    Replacement,
    Span,
    apply_replacements,
    compose,
    position_after,
    separate_ends,
)
from hutch.system.lazy_dataclass import dataclass


@dataclass(frozen=True, slots=True)
class Replace:
    """Replace `old`, which must occur once in the file, or be replaced everywhere, by `new`."""

    old: str
    new: str
    replace_all: bool = False


@dataclass(frozen=True, slots=True)
class ReplaceLines:
    """Replace these lines, counted from 1, the last one included, by `new`; empty removes them."""

    start_line: int
    end_line: int
    new: str


@dataclass(frozen=True, slots=True)
class InsertLines:
    """Insert `new` after this line; 0 is the start of the file."""

    insert_line: int
    new: str


Edit = Replace | ReplaceLines | InsertLines

_FIELDS: dict[type[Edit], dict[str, type]] = {
    Replace: {"old": str, "new": str, "replace_all": bool},
    ReplaceLines: {"start_line": int, "end_line": int, "new": str},
    InsertLines: {"insert_line": int, "new": str},
}
MAX_EDITS = 1_000  # of one call
MAX_FILE_CHARS = 16 * 1024 * 1024  # of a file that an edit makes longer
_SHAPES = "{old, new, replace_all}, {start_line, end_line, new} or {insert_line, new}"


@dataclass(frozen=True, slots=True)
class Plan:
    """The resulting text, its spans from the original text, and notes for the caller."""

    content: str
    spans: tuple[Span, ...]
    notes: tuple[str, ...] = ()


@dataclass(slots=True)
class _Draft:
    """The text while edits are applied."""

    original: IndexedText
    source: IndexedText
    spans: list[Span] = field(default_factory=list)

    def check_growth(self, characters: int) -> None:
        """Refuse before the text is built: a short text in many places makes a long file."""
        new_chars = len(self.source.content) + characters
        if characters > 0 and new_chars > MAX_FILE_CHARS:
            raise BadRequest(
                f"The file would have {new_chars:,} characters, more than {MAX_FILE_CHARS:,}, so nothing was "
                f"changed. If it must be that long, write it with bash."
            )

    def make(self, replacements: Sequence[Replacement]) -> None:
        self.check_growth(sum(len(each.text) - (each.end - each.start) for each in replacements))
        self.spans = compose(self.spans, replacements)
        self.source = IndexedText(apply_replacements(self.source.content, replacements))


def parse_edit(data: Mapping[str, object]) -> Edit:
    """Parse an edit that a client sent."""
    for kind, fields in _FIELDS.items():
        if next(iter(fields)) in data:
            values = {"end_line": data.get("start_line"), **data} if kind is ReplaceLines else dict(data)
            values = {name: value for name, value in values.items() if value is not None}
            break
    else:
        raise BadRequest(f"An edit is {_SHAPES}; this one has {sorted(data) or 'nothing'}.")
    if unknown := sorted(set(values) - set(fields)):
        raise BadRequest(f"An edit with '{next(iter(fields))}' has no '{unknown[0]}'. It is {_SHAPES}.")
    for name, value_type in fields.items():
        value = values.get(name, False if value_type is bool else None)
        if type(value) is not value_type:
            what = {str: "text", int: "a whole number", bool: "true or false"}[value_type]
            raise BadRequest(f"'{name}' of an edit must be {what}, not {value!r:.40}.")
    return kind(**values)  # type: ignore[arg-type]


def without_bom(edit: Edit) -> Edit:
    """The same edit for a file whose byte order mark is stored apart from its text."""
    new = edit.new.removeprefix(BOM)
    if isinstance(edit, Replace):
        return replace(edit, old=edit.old.removeprefix(BOM), new=new)
    return replace(edit, new=new)


def plan_edits(content: str, edits: Sequence[Edit]) -> Plan:
    """Apply all of these edits; an error says which one failed and why."""
    if not edits:
        raise BadRequest(f"There is no edit. Give at least one: {_SHAPES}.")
    if len(edits) > MAX_EDITS:
        raise BadRequest(
            f"There are {len(edits):,} edits, more than {MAX_EDITS:,}. Make them in several calls."
        )
    source = IndexedText(content)
    draft = _Draft(source, source)
    notes: list[str] = []
    for number, edit in enumerate(edits, start=1):
        try:
            note = _replace(draft, edit) if isinstance(edit, Replace) else _write_lines(draft, edit)
        except BadRequest as error:
            which = f"Edit {number} of {len(edits)}: " if len(edits) > 1 else ""
            raise type(error)(f"{which}{error}") from None
        if note:
            notes.append(f"Edit {number}: {note}." if len(edits) > 1 else f"{note[0].upper()}{note[1:]}.")
    after, spans = separate_ends(draft.source.content, draft.spans)
    return Plan(after, tuple(spans), tuple(notes))


def _replace(draft: _Draft, edit: Replace) -> str:
    source, old, new = draft.source, edit.old, edit.new
    if not old:
        return _fill(draft, new)
    if old == new:
        raise BadRequest("'old' and 'new' are the same text, so there is nothing to change.")
    if not source.has_lone_cr:  # then a CR at the end is half of a CRLF, and the other half stays
        old, new = old.removesuffix("\r"), new.removesuffix("\r")
    if not old or split_quote(old) == split_quote(new):
        raise BadRequest(
            "'old' and 'new' differ in their line ends only, and an edit keeps those of the file."
            " To convert them, use bash: sed -i 's/\\r$//' FILE, or sed -i 's/$/\\r/' FILE."
        )
    level, matches = find(source, old, new, every=edit.replace_all)
    if not matches:
        if note := already_applied(source, old, new):
            return note
        raise not_found(source, old)
    if old in new and (note := _already_contains(source, level, matches, new)):
        return note
    if len(matches) > 1 and not edit.replace_all:
        raise ambiguous(source, level, matches)
    new_lines, old_lines = split_quote(new), split_quote(old)
    refuse_placeholder(new_lines, old + source.content, shorter=len(new_lines) < len(old_lines))
    if leading_line_numbers(new_lines):
        _refuse_numbers(new_lines, source, source.line_at(matches[0].start))
    draft.check_growth(len(matches) * (len(new) - len(old)))
    draft.make([fit(source, level, match, old, new) for match in matches])
    count = f"replaced in {len(matches)} places" if edit.replace_all else ""
    return "; ".join(filter(None, (count, level.note)))


def _fill(draft: _Draft, new: str) -> str:
    if lines := len(draft.source.lines):
        raise BadRequest(
            "'old' is empty, but the file is not. To insert, give insert_line"
            f" (0 is the start, {lines} the end) and new; to replace, quote the current text."
        )
    refuse_placeholder(split_quote(new), "", shorter=False)
    draft.make([Replacement(0, 0, new)])
    return ""


def _already_contains(source: IndexedText, level: MatchLevel, matches: Sequence[Match], new: str) -> str:
    """The note when every match is already part of the new text; else empty."""
    done = find_at(source, level, new, new, every=True)
    if not all(any(there.start <= one.start and one.end <= there.end for there in done) for one in matches):
        return ""
    return f"already applied: the new text is at line {source.line_at(matches[0].start) + 1}; nothing changed"


def _write_lines(draft: _Draft, edit: ReplaceLines | InsertLines) -> str:
    source = draft.original
    first, last = _line_indices(edit, len(source.lines))
    start = source.start_of(first)
    end = start + sum(map(len, source.lines[first:last]))
    position = position_after(draft.spans, start, end)
    if position is None:
        lines = f"line {first}" if first == last else f"lines {first + 1} to {last}"
        raise Conflict(
            f"It overlaps with an earlier edit of the same call, at {lines} of the file as it was."
            " Make one edit of the two."
        )
    old, new = [without_ending(line) for line in source.lines[first:last]], split_quote(edit.new)
    if not new[-1]:
        new.pop()
    refuse_placeholder(new, source.content, shorter=len(new) < len(old))
    _refuse_numbers(new, source, first)
    text = _as_lines(source, first, last, old, new)
    if text == source.content[start:end]:
        return f"already applied: line {first + 1} has this text; nothing changed"
    stop = position + end - start
    if last == len(source.lines) and source.is_open:
        text, stop = _joined_at_end(draft.source.content, position, stop, text, inserting=first == last)
    content = draft.source.content
    text = separate_line_ends(content[max(position - 1, 0) : position], text, content[stop : stop + 1])
    draft.make([Replacement(position, stop, text)])
    return ""


def _joined_at_end(content: str, start: int, stop: int, text: str, *, inserting: bool) -> tuple[str, int]:
    """Add or remove the line end between an unterminated last line and the text after it."""
    if inserting:
        text = text[: len(text) - len(ending(text))]
        follows = start > 0 and content[start - 1] not in "\r\n"
        return (common_ending(content) if follows else "") + text, stop
    after = split_lines(content[stop:])
    return text, stop + (len(after[0]) if not text and after and after[0] in ("\r\n", "\n", "\r") else 0)


def _line_indices(edit: ReplaceLines | InsertLines, total: int) -> tuple[int, int]:
    has = f"the file has {total} line{'s' * (total != 1)}"
    if isinstance(edit, InsertLines):
        if not 0 <= edit.insert_line <= total:
            raise BadRequest(
                f"insert_line is {edit.insert_line}, but {has}."
                f" Text goes after the line: 0 is the start, {total} the end."
            )
        if not edit.new:
            raise BadRequest("'new' is empty, so nothing would be inserted. A blank line is '\\n'.")
        return edit.insert_line, edit.insert_line
    if not 1 <= edit.start_line <= edit.end_line <= total:
        raise BadRequest(
            f"Lines {edit.start_line} to {edit.end_line} cannot be replaced: {has}."
            " start_line and end_line count from 1, and both lines are replaced."
        )
    return edit.start_line - 1, edit.end_line


def _as_lines(source: IndexedText, first: int, last: int, old: list[str], new: list[str]) -> str:
    """The new lines with line ends; unchanged lines keep theirs."""
    if not new:
        return ""
    around = source.lines[first:last] or source.lines[max(first - 1, 0) : first + 1]
    end = common_ending(source.content, "".join(around))
    ends = [ending(line) for line in source.lines[first:last]]
    text = "".join(fit_lines(old, new, old, ends, end))
    return text + (ends[-1] if ends else end)


def refuse_placeholder(new: Sequence[str], known: str, *, shorter: bool) -> None:
    if line := find_placeholder(new, known, shorter=shorter):
        raise BadRequest(
            f"The new text has {line!r}, which is a placeholder for code; that code would be lost."
            " Write it out, or make smaller edits that leave it alone."
        )


def _refuse_numbers(new: Sequence[str], source: IndexedText, line: int) -> None:
    numbers = leading_line_numbers(new)
    if (
        numbers
        and abs(numbers[0] - line - 1) <= 1
        and not leading_line_numbers(source.lines[line : line + 1])
    ):
        raise BadRequest(
            f"The lines of the new text begin with their numbers ({numbers[0]}, ...), as in a listing."
            " The file does not contain them: omit them."
        )
