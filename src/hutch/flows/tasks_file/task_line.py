r"""One line of a task, read into its parts and written again.

    - [ ] T-12 Fix flaky login @alice #bug <!-- hutch:status=doing rev=3 -->

A title that would be read as something else (it ends in `@name`, or holds `<!--`) is written with a
backslash, which Markdown does not show.
"""

import re
from collections.abc import Mapping
from dataclasses import field, replace

from hutch.domain.one_line_text import is_line
from hutch.domain.task import (
    KEY_PATTERN,
    LABEL_PATTERN,
    MAX_NAME_CHARS,
    MAX_TITLE_CHARS,
    TaskFields,
    TaskState,
)
from hutch.flows.tasks_file.hidden_task_comment import (
    COMMENT,
    read_pairs,
    short_text_in,
    status_in,
    write_comment,
)
from hutch.system.lazy_dataclass import dataclass

BOX_STATES: dict[str, TaskState] = {
    "x": "done",
    "X": "done",
    "/": "doing",
    "~": "doing",
    "!": "blocked",
    "-": "cancelled",
}
# Prefixes of terms that look like keys, as in "UTF-8 file names" or "SHA-256 sums".
NOT_KEYS = frozenset(
    (
        "UTF",
        "SHA",
        "ISO",
        "RFC",
        "PEP",
        "CVE",
        "AES",
        "RSA",
        "HTTP",
        "TLS",
        "GPT",
        "IPV",
        "ASCII",
        "BASE",
        "MD",
    )
)

_KEY = re.compile(
    rf"(?P<open>\*\*|__|`|\[|)(?P<key>{KEY_PATTERN})"
    r"(?P<close>:?\*\*:?|:?__:?|`:?|\](?:\([^()\s]*\))?:?|:|)(?=[ \t]|$)"
    r"(?:[ \t]+[-–—](?=[ \t]|$))?[ \t]*"
)
_CLOSED_BY = {"**": "**", "__": "__", "`": "`", "[": "]"}
_TAIL = re.compile(r"(?:[ \t]*(?<!\\)<!--(?:(?!-->).)*-->)+[ \t]*$")
_OWNER = re.compile(r"@[^\W_][\w.:+@'-]*")
_LABEL = re.compile(f"#{LABEL_PATTERN}")
_ESCAPED_WORD = re.compile(r"(?<![^ \t])\\(\\*[@#])")
_ESCAPED_COMMENT = re.compile(r"\\(\\*<!--)")
_ESCAPED_DASH = re.compile(r"^\\(\\*[-–—](?=[ \t]|$))")
_COMMENT_START = re.compile(r"(\\*<!--)")
_LEADING_DASH = re.compile(r"^(\\*[-–—](?=[ \t]|$))")
_WORD_LIKE_TOKEN = re.compile(r"(?<![^ \t])(\\+[@#])")
_LAST_WORD = re.compile(r"(?:^|[ \t]+)([^ \t]+)[ \t]*$")


@dataclass(frozen=True, slots=True)
class TaskLine:
    """The parts of a line. `lead` is the indent and the bullet, `tokens` are `@owner` and `#label`."""

    lead: str
    box: str
    key: str  # empty when the line has none
    key_text: str  # the key as it is written, with emphasis and separator
    title: str
    title_text: str  # the title as it is written
    tokens: tuple[str, ...] = ()
    other_comments: str = ""
    pairs: Mapping[str, str] = field(default_factory=dict)  # of Hutch's comment

    @property
    def owner(self) -> str:
        for token in self.tokens:
            if token[0] == "@":
                return token[1:]
        return short_text_in(self.pairs, "owner")

    @property
    def labels(self) -> tuple[str, ...]:
        return tuple(sorted({token[1:] for token in self.tokens if token[0] == "#"}))

    def state(self, under: TaskState | None) -> TaskState:
        """The state that the line shows by itself, under a heading that names a state or none."""
        return BOX_STATES.get(self.box) or self.open_state(under)

    def open_state(self, under: TaskState | None) -> TaskState:
        """The state if the box is not ticked. An open box under `Done` is not done."""
        for state in (status_in(self.pairs), under):
            if state and state != "done":
                return state
        return "todo"


def read_line(lead: str, box: str, body: str) -> TaskLine | None:
    """The parts of a line after its box; None if it cannot be a task."""
    pairs: dict[str, str] = {}
    other_comments = ""
    if "-->" in body and (tail := _TAIL.search(body)):
        other_comments, body = tail[0].strip(), body[: tail.start()]
        if found := COMMENT.search(other_comments):
            pairs = read_pairs(found["pairs"])
            other_comments = (other_comments[: found.start()] + other_comments[found.end() :]).strip()
    body = body.strip()
    key, key_text, title_text = _split_key(body)
    title_text, tokens = _split_tokens(title_text)
    if not title_text and tokens:
        title_text, tokens = " ".join(tokens), ()
    title = unescape_title(title_text)
    if key_text.startswith(("**", "__")) and key_text.count(key_text[:2]) == 1:
        title = title.replace(key_text[:2], "", 1).strip()  # the bold text ends in the title
    title = title or key
    if not title or len(title) > MAX_TITLE_CHARS or not is_line(title):
        return None
    return TaskLine(lead, box, key, key_text, title, title_text, tokens, other_comments, pairs)


def _split_key(body: str) -> tuple[str, str, str]:
    found = _KEY.match(body)
    if not found:
        return "", "", body
    opened, closed = found["open"], found["close"]
    closing = _CLOSED_BY.get(opened, "")
    if opened and closing not in closed:
        if opened in ("`", "[") or closed not in ("", ":") or opened not in body[found.end() :]:
            return "", "", body
    elif not opened and closed not in ("", ":"):
        return "", "", body
    if not opened and not closed and found["key"].partition("-")[0] in NOT_KEYS:
        return "", "", body
    return found["key"], found[0], body[found.end() :]


def _split_tokens(text: str) -> tuple[str, tuple[str, ...]]:
    """The text without the owners and labels at its end, and these."""
    tokens: list[str] = []
    while ("@" in text or "#" in text) and (found := _LAST_WORD.search(text)):
        word = found[1]
        if len(word) > MAX_NAME_CHARS or not (_OWNER.fullmatch(word) or _LABEL.fullmatch(word)):
            break
        tokens.append(word)
        text = text[: found.start()]
    return text.strip(), tuple(reversed(tokens))


def unescape_title(text: str) -> str:
    text = text.replace("\t", " ")
    if "\\" not in text:
        return text
    text = _ESCAPED_COMMENT.sub(r"\1", _ESCAPED_WORD.sub(r"\1", text))
    return _ESCAPED_DASH.sub(r"\1", text)


def escape_title(title: str) -> str:
    """A text that is read as this title, whatever stands before and after it."""
    text = _LEADING_DASH.sub(r"\\\1", title)
    text = _COMMENT_START.sub(r"\\\1", _WORD_LIKE_TOKEN.sub(r"\\\1", text))
    words = text.split(" ")
    for at in range(len(words) - 1, -1, -1):
        if words[at] and words[at][0] not in "@#":
            break
        words[at] = words[at] and f"\\{words[at]}"
    return " ".join(words)


def line_with_fields(line: TaskLine, fields: TaskFields, under: TaskState | None, revision: int) -> TaskLine:
    """The line changed so that it shows these fields under a heading; its other parts stay."""
    open_state = fields.state if fields.state != "done" else None
    default: TaskState = under if under and under != "done" else "todo"
    status = open_state or ""
    if open_state == "todo" and default == "todo":
        status = ""
    known = {
        "status": status,
        "rev": str(revision),
        "owner": "" if _OWNER.fullmatch(f"@{fields.owner}") else fields.owner,
        "priority": fields.priority,
        "estimate": fields.estimate,
        "depends": ",".join(fields.depends_on),
    }
    changed = line if line.title == fields.title else _with_title(line, fields.title)
    return replace(
        changed,
        box="x" if fields.state == "done" else " ",
        tokens=_tokens(line, fields, in_comment=bool(known["owner"])),
        pairs=known | {name: value for name, value in line.pairs.items() if name not in known},
    )


def _with_title(line: TaskLine, title: str) -> TaskLine:
    key_text = line.key_text
    if key_text.startswith(("**", "__")) and key_text.count(key_text[:2]) == 1:
        key_text = f"{key_text.rstrip()}{key_text[:2]} "
    return replace(line, title=title, title_text=title, key_text=key_text)


def _tokens(line: TaskLine, fields: TaskFields, *, in_comment: bool) -> tuple[str, ...]:
    tokens: list[str] = list(line.tokens)
    if fields.owner != line.owner:
        others = [] if in_comment or not fields.owner else [each for each in tokens if each[0] == "@"][1:]
        owner = [] if in_comment or not fields.owner else [f"@{fields.owner}"]
        labels = [each for each in tokens if each[0] == "#"]
        tokens = [*owner, *(each for each in others if each not in owner), *labels]
    tokens = [each for each in tokens if each[0] == "@" or each[1:] in fields.labels]
    return (*tokens, *(f"#{label}" for label in fields.labels if f"#{label}" not in tokens))


def with_key(line: TaskLine, key: str) -> TaskLine:
    """The line with another key, or with one if it had none."""
    text = line.key_text.replace(line.key, key, 1) if line.key else f"{key} "
    return replace(line, key=key, key_text=text)


def write_line(line: TaskLine) -> str:
    """The line without its end. It is read back as the same parts."""
    title = line.title_text
    text = _joined(line, title)
    again = read_line(line.lead, line.box, text)
    if again is None or (again.key, again.title, again.tokens) != (line.key, line.title, line.tokens):
        text = _joined(replace(line, key_text=f"{line.key} " if line.key else ""), escape_title(line.title))
    return f"{line.lead}[{line.box}] {text}"


def _joined(line: TaskLine, title: str) -> str:
    # A dash after the key separates, and must be followed by a space.
    start = (
        f"{line.key_text}{title}"
        if not line.key_text or line.key_text[-1] in " \t"
        else f"{line.key_text} {title}"
    )
    parts = (start, *line.tokens, line.other_comments, write_comment(line.pairs))
    return " ".join(part for part in parts if part)
