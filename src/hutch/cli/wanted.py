"""What a session is to be, as somebody said on the command line and as a server is asked for it."""

from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from hutch.cli.visible import visible
from hutch.domain.errors import BadRequest, NotFound


@dataclass(frozen=True, slots=True)
class Limits:
    """How far a run may go, by the names that the API has for it; None is as the server has it."""

    turns: int | None = None
    tokens: int | None = None
    cost_usd: float | None = None
    timeout_s: float | None = None

    def given(self) -> dict[str, int | float]:
        """Those that somebody named."""
        return {name: value for name, value in asdict(self).items() if value is not None}


@dataclass(frozen=True, slots=True, kw_only=True)
class WantedSession:
    """What somebody said on the command line; what is empty is as the server has it."""

    prompt: str = ""
    repository: str = ""
    plain_directory: bool = False  # it may be one without git
    revision: str = ""
    purpose: str = ""
    role: str = ""
    expectations: str = ""
    persona: str = ""
    model: str = ""
    network: tuple[str, ...] = ()
    deliver: bool = False
    limits: Limits = Limits()
    author: str = ""  # `Name <address>`
    unattended: bool = False  # nobody is there to answer
    uncommitted: bool = False  # only where the session lives in this process, as the next
    record: str = ""  # a file

    def body(self, *, is_local: bool) -> dict[str, Any]:
        """For a server on this machine, or on another."""
        words = (
            "prompt",
            "revision",
            "purpose",
            "role",
            "expectations",
            "persona",
            "deliver",
            "plain_directory",
        )
        return {
            **{name: getattr(self, name) for name in words},
            "repository": repository_address(self.repository, is_local),
            "model": model_name(self.model, is_local),
            "network": list(self.network),
            "limits": self.limits.given(),
            "delivery": {"author": self.author, "unattended": self.unattended},
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
