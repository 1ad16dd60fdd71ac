"""What a session is to be, as somebody said on the command line and as a server is asked for it."""

from pathlib import Path
from typing import Any

from hutch.domain.errors import BadRequest, NotFound
from hutch.domain.session import NewSession
from hutch.system.terminal_text import visible

SAME = ("prompt", "revision", "purpose", "role", "expectations", "persona", "deliver", "plain_directory")


def request_body(new: NewSession, *, is_local: bool) -> dict[str, Any]:
    """The body of a request to a server on this machine, or on another."""
    return {
        **{name: getattr(new, name) for name in SAME},
        "repository": repository_address(new.repository, is_local),
        "model": model_name(new.model, is_local),
        "network": list(new.network),
        "limits": new.limits.as_dict(),
        "delivery": {"author": new.delivery.author, "unattended": new.delivery.unattended},
    }


def expand_home(text: str) -> str:
    """A path as somebody wrote it on their own command line: `~` alone is their home, and nobody else's."""
    return str(Path(text).expanduser()) if text == "~" or text.startswith("~/") else text


def repository_address(given: str, is_local: bool) -> str:
    """A directory by its full path: the server does not stand where we do."""
    if not given or _is_address(given):
        return given
    path = Path(expand_home(given))
    if not is_local:
        if path.is_dir():
            raise BadRequest(
                f"{visible(given)} is a directory here, which the server cannot see. Give an address."
            )
        return given  # perhaps one of the server's machine
    if not path.is_dir():
        wrong = "is not a directory" if path.exists() else "is not there"
        raise NotFound(
            f"The repository {visible(given)!r} {wrong}. Name a directory, or an address such as "
            "https://example.com/team/project.git."
        )
    return str(path.resolve())


def model_name(given: str, is_local: bool) -> str:
    """A script by its full path, for the same reason."""
    kind, _, name = given.partition(":")
    return f"scripted:{Path(expand_home(name)).absolute()}" if kind == "scripted" and is_local else given


def _is_address(given: str) -> bool:
    """Whether it names another machine: a URL, or HOST:PATH as ssh has it."""
    return "://" in given or ":" in given.partition("/")[0]
