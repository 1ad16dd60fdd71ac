"""Text of commits and branches: titles, messages, branch names and authors. Models write most of it."""

import re
import unicodedata

from hutch.domain.errors import BadRequest

DEFAULT_AUTHOR = "Hutch <hutch@localhost>"
AUTHOR = re.compile(r" *([^<>\x00-\x1f]*[^<>\x00-\x20]) *<([^<>\x00-\x20]+)> *")
CONTROL = re.compile(r"[\x00-\x08\x0b-\x1f\x7f-\x9f]")


def slug(title: str) -> str:
    """A title as part of a branch name."""
    words = unicodedata.normalize("NFKD", title).encode("ascii", "ignore").decode().lower()
    return re.sub(r"[^a-z0-9]+", "-", words).strip("-")[:50].strip("-") or "change"


def one_line(title: str) -> str:
    """A title reduced to one line."""
    return " ".join(CONTROL.sub("", title).split()) or "A change"


def strip_controls(text: str) -> str:
    """Remove the control characters that drive terminals, and those that git refuses in a message."""
    return CONTROL.sub("", text.replace("\r\n", "\n")).strip()


def commit_message(title: str, body: str, session_id: str, run_id: str) -> str:
    """A commit message; its last paragraph names the session and the run."""
    parts = [title, body.strip(), f"Hutch-Session: {session_id}\nHutch-Run: {run_id}"]
    return "\n\n".join(part for part in parts if part) + "\n"


def parse_author(text: str) -> tuple[str, str]:
    """Split `Name <address>`."""
    found = AUTHOR.fullmatch(text)
    if not found:
        raise BadRequest(f"'{ascii(text)[1:-1]}' is not an author. Write it as: Name <address>.")
    return found[1], found[2]
