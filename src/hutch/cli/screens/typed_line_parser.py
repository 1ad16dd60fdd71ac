"""Parses a typed line: a message to the agent, an answer to it, or a command that begins with /."""

import re
from dataclasses import field
from typing import Any, Literal

from hutch.cli.session_option_parsing import parse_options
from hutch.domain.errors import BadRequest
from hutch.system.lazy_dataclass import dataclass

HELP = (
    "Type a message to the agent. A running agent gets it before its next step.",
    "/cancel    cancel the run; the session continues",
    "/pause     pause the session until /resume",
    "/undo      take back the last run; /undo 12 takes back the step of event 12",
    "           add merge, keep or discard if others changed the same lines",
    "/redo      take back the last undo",
    "/diff      show the changes since the session began",
    "/persona NAME, /model PROVIDER:NAME   change them from the next turn on",
    "/set NAME=VALUE   change an option: effort=high, memory_bytes=1GiB, network=example.com",
    "/end       end the session; a reason may follow",
    "//NAME     a command of the repository, with arguments; or a message that begins with /",
    "/leave     detach, like Ctrl-C; the session continues",
    "Alt-Enter inserts a new line; // starts a message that begins with /.",
)
INPUTS = ("cancel", "pause", "resume", "undo", "redo", "end")
RESOLUTIONS = ("merge", "keep", "discard")
OTHERS = {"help": "help", "?": "help", "diff": "diff", "leave": "leave", "quit": "leave", "detach": "leave"}
MAX_DIGITS = 10  # of the number of an event
MAX_REASON_CHARS = 1000  # the API's limit
Consent = Literal["once", "session", "always", "no"]
ANSWERS: dict[str, Consent] = {
    "y": "once",
    "yes": "once",
    "s": "session",
    "session": "session",
    "always": "always",  # the whole word: it holds for ever
    "n": "no",
    "no": "no",
}
NO_WITH_REASON = re.compile(r"(?:n|no)[\s,.:;!]+(.*)", re.IGNORECASE | re.DOTALL)


@dataclass(frozen=True, slots=True)
class TypedInput:
    """A parsed line: an input for the session, or a command of the client."""

    kind: str
    fields: dict[str, Any] = field(default_factory=dict)


def parse_line(line: str) -> TypedInput:
    """Parse a line outside of a question."""
    if not line.startswith("/") or line.startswith("//"):
        return TypedInput("message", {"text": line.removeprefix("/") if line.startswith("//") else line})
    word, _, rest = line[1:].partition(" ")
    if word == "end":
        return TypedInput("end", {"reason": rest.strip()[:MAX_REASON_CHARS]})
    if word in ("undo", "redo"):
        return _parse_undo(word, rest.split())
    if word in ("persona", "model", "set"):
        return _parse_change(word, rest.split())
    if word in INPUTS:
        return TypedInput(word)
    if word in OTHERS:
        return TypedInput(OTHERS[word])
    why = f"There is no command /{word[:40]}. /help lists them. A command of the repository needs two: //"
    return TypedInput("unknown", {"why": why})


def _parse_undo(word: str, options: list[str]) -> TypedInput:
    """Parse the options of /undo and /redo: the number of a step, and how to resolve conflicts."""
    fields: dict[str, Any] = {}
    for option in options:
        if option in RESOLUTIONS:
            fields[option] = True
        elif word == "undo" and option.isascii() and option.isdigit() and len(option) < MAX_DIGITS:
            fields["step"] = int(option)
        else:
            usage = "/undo [NUMBER] [merge|keep|discard]" if word == "undo" else "/redo [merge|keep|discard]"
            return TypedInput("unknown", {"why": f"'{option[:40]}' is no option here. Type {usage}."})
    return TypedInput(word, fields)


def _parse_change(word: str, values: list[str]) -> TypedInput:
    """Parse /persona, /model and /set: options of the session to change."""
    if not values or (word != "set" and len(values) > 1):
        usage = "/set NAME=VALUE, such as /set effort=high" if word == "set" else f"/{word} NAME"
        return TypedInput("unknown", {"why": f"Type {usage}."})
    try:
        body = parse_options(values if word == "set" else [f"{word}={values[0]}"])
    except BadRequest as error:
        return TypedInput("unknown", {"why": str(error)})
    return TypedInput("change", body)


def answer_to(line: str) -> Consent | None:
    """The answer to an approval; None when the line is not exactly one of the answers.

    All clients use this. A line that only begins like an answer never allows anything: "sessions of mine
    only" begins with "session".
    """
    return ANSWERS.get(line.strip().lower())


def reason_of_no(line: str) -> str | None:
    """The reason after a no, such as "no, not to this remote"; None for other lines."""
    found = NO_WITH_REASON.fullmatch(line.strip())
    return found[1].strip()[:MAX_REASON_CHARS] if found else None
