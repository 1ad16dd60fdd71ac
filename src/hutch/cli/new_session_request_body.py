"""Options of a new session, converted from the command line to the body of a request."""

import base64
from pathlib import Path
from typing import Any

from hutch.domain.errors import BadRequest, NotFound
from hutch.domain.lone_surrogate_replacement import replace_surrogates
from hutch.domain.session import NewSession, Tries
from hutch.domain.user_given_starter_files import StarterFiles
from hutch.system.terminal_safe_text import visible

SAME = (
    *("prompt", "revision", "purpose", "role", "company", "expectations", "persona", "deliver"),
    "plain_directory",
)


DEMO = "demo"  # scripted:demo repairs the sample


def request_body(new: NewSession, *, is_local: bool) -> dict[str, Any]:
    """The body of a request to a local or a remote server."""
    for name in ("prompt", "purpose", "revision"):
        _check_text(f"--{name}" if name != "prompt" else "prompt", getattr(new, name))
    return {
        **{name: getattr(new, name) for name in SAME},
        "repository": repository_address(new.repository, is_local),
        "model": model_name(new.model, is_local),
        "network": list(new.network),
        "variables": dict(new.variables),
        "secrets": list(new.secrets),
        "limits": new.limits.as_dict(),
        "resources": new.resources.as_dict(),
        "generation": new.generation.as_dict(),
        "delivery": {"author": new.delivery.author, "unattended": new.delivery.unattended},
        **({"files": _files(new.files)} if new.files else {}),
        **({"tries": _tries(new.delivery.tries, is_local)} if new.delivery.tries.count else {}),
    }


def _tries(tries: Tries, is_local: bool) -> dict[str, Any]:
    models = [model_name(each, is_local) for each in tries.models]
    lists = {name: list(getattr(tries, name)) for name in ("personas", "temperatures", "checks")}
    rest = {name: getattr(tries, name) for name in ("count", "reviewer", "stops_early")}
    return {**rest, **lists, "models": models}


def _files(files: StarterFiles) -> list[dict[str, Any]]:
    return [
        {"path": path, "base64": base64.b64encode(file.content).decode(), "executable": file.executable}
        for path, file in files.items()
    ]


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
    found = str(path.resolve())
    if replace_surrogates(found) != found:
        raise BadRequest(
            f"The path '{_escaped(found)}' is not valid UTF-8, and a session cannot record it. Rename "
            "the directory, or work in it with `hutch shell`."
        )
    return found


def _escaped(text: str) -> str:
    return text.encode(errors="surrogateescape").decode(errors="backslashreplace")


def _check_text(name: str, text: str) -> None:
    if replace_surrogates(text) != text:
        raise BadRequest(f"The {name} '{_escaped(text)}' is not valid UTF-8. Write it in UTF-8.")


def model_name(text: str, is_local: bool) -> str:
    """Make a script's path absolute, for the same reason. The demo is a part of Hutch."""
    kind, _, name = text.partition(":")
    is_file = kind == "scripted" and is_local and name != DEMO
    return f"scripted:{Path(expand_home(name)).absolute()}" if is_file else text


def _is_address(text: str) -> bool:
    """True if it names another machine: a URL, or HOST:PATH as in ssh."""
    return "://" in text or ":" in text.partition("/")[0]
