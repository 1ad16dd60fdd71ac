"""Options of a new session, converted from the command line to the body of a request."""

from pathlib import Path
from typing import Any

from hutch.domain.errors import BadRequest, NotFound
from hutch.domain.session import NewSession
from hutch.system.terminal_text import visible

SAME = ("prompt", "revision", "purpose", "role", "expectations", "persona", "deliver", "plain_directory")


def request_body(new: NewSession, *, is_local: bool) -> dict[str, Any]:
    """The body of a request to a local or a remote server."""
    return {
        **{name: getattr(new, name) for name in SAME},
        "repository": repository_address(new.repository, is_local),
        "model": model_name(new.model, is_local),
        "network": list(new.network),
        "limits": new.limits.as_dict(),
        "delivery": {"author": new.delivery.author, "unattended": new.delivery.unattended},
    }


def expand_home(text: str) -> str:
    """Expand `~` in a path from the command line; `~user` is not expanded."""
    return str(Path(text).expanduser()) if text == "~" or text.startswith("~/") else text


def repository_address(text: str, is_local: bool) -> str:
    """Make a directory's path absolute: the server has another working directory."""
    if not text or _is_address(text):
        return text
    path = Path(expand_home(text))
    if not is_local:
        if path.is_dir():
            raise BadRequest(
                f"{visible(text)} is a local directory, which the server cannot read. Use an address."
            )
        return text  # it may exist on the server's machine
    if not path.is_dir():
        wrong = "is not a directory" if path.exists() else "does not exist"
        raise NotFound(
            f"The repository {visible(text)!r} {wrong}. Use a directory, or an address such as "
            "https://example.com/team/project.git."
        )
    return str(path.resolve())


def model_name(text: str, is_local: bool) -> str:
    """Make a script's path absolute, for the same reason."""
    kind, _, name = text.partition(":")
    return f"scripted:{Path(expand_home(name)).absolute()}" if kind == "scripted" and is_local else text


def _is_address(text: str) -> bool:
    """Whether it names another machine: a URL, or HOST:PATH as in ssh."""
    return "://" in text or ":" in text.partition("/")[0]
