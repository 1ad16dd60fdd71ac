"""Parses a typed line: a message to the agent, an answer to it, or a command that begins with /."""

import re
from dataclasses import dataclass, field
from typing import Any, Literal

HELP = (
    "Type a message to the agent. A running agent gets it before its next step.",
    "/cancel    cancel the run; the session continues",
    "/pause     pause the session until /resume",
    "/undo      restore files and conversation to before the last run",
    "/diff      show the changes since the session began",
    "/end       end the session; a reason may follow",
    "/leave     detach, like Ctrl-C; the session continues",
    "Alt-Enter inserts a new line; // starts a message that begins with /.",
)
INPUTS = ("cancel", "pause", "resume", "undo", "end")
OTHERS = {"help": "help", "?": "help", "diff": "diff", "leave": "leave", "quit": "leave", "detach": "leave"}
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
    if word in INPUTS:
        return TypedInput(word)
    if word in OTHERS:
        return TypedInput(OTHERS[word])
    return TypedInput("unknown", {"why": f"There is no command /{word[:40]}. /help lists the commands."})


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
