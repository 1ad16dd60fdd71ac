"""What somebody says to a session in a line: a message for its agent, or a command that begins with /."""

from dataclasses import dataclass, field
from typing import Any, Literal

HELP = (
    "What you type goes to the agent: at work, it hears it before its next step.",
    "/cancel    stop what it is doing; the session goes on",
    "/pause     stop where it is, until /resume",
    "/undo      put files and conversation back to before the last run",
    "/diff      what has changed since the session began",
    "/end       end the session; a reason may follow",
    "/leave     leave, as Ctrl-C does; the session goes on",
    "Alt-Enter begins a new line, // a message that begins with /.",
)
INPUTS = ("cancel", "pause", "resume", "undo", "end")
OTHERS = {"help": "help", "?": "help", "diff": "diff", "leave": "leave", "quit": "leave", "detach": "leave"}
MAX_REASON_CHARS = 1000  # as the API takes them
Consent = Literal["once", "session", "always", "no"]
ANSWERS: dict[str, Consent] = {
    "y": "once",
    "yes": "once",
    "s": "session",
    "session": "session",
    "a": "always",
    "always": "always",
    "n": "no",
    "no": "no",
}


@dataclass(frozen=True, slots=True)
class Said:
    """An input for the session, or something that is done here."""

    kind: str
    fields: dict[str, Any] = field(default_factory=dict)


def parse_line(line: str) -> Said:
    """What is meant by a line."""
    if not line.startswith("/") or line.startswith("//"):
        return Said("message", {"text": line.removeprefix("/") if line.startswith("//") else line})
    word, _, rest = line[1:].partition(" ")
    if word == "end":
        return Said("end", {"reason": rest.strip()[:MAX_REASON_CHARS]})
    if word in INPUTS:
        return Said(word)
    if word in OTHERS:
        return Said(OTHERS[word])
    return Said("unknown", {"why": f"There is no /{word[:40]}. /help tells what there is."})


def answer_to(line: str) -> Consent | None:
    """The answer to whether a tool may be used; None when the line is not exactly one of the words.

    All clients use this. A line that only begins like an answer never allows anything: "absolutely not"
    begins with the letter for "always".
    """
    return ANSWERS.get(line.strip().lower())
