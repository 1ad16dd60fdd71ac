"""`hutch config init`: write a settings file with every setting described and commented out."""

import json
import os
from pathlib import Path
from typing import Annotated

import typer

from hutch import settings
from hutch.app.allowed_local_repositories import settings_root
from hutch.domain.errors import BadRequest, Conflict, NotFound
from hutch.settings.repository_settings_file import config_file
from hutch.settings.settings_file_template import repository_template, user_template
from hutch.system.atomic_file import replace_file
from hutch.system.terminal_safe_text import visible


def init_command(
    repo: Annotated[
        Path | None,
        typer.Option(metavar="DIR", help="Write .hutch/config.toml of the repository in DIR instead."),
    ] = None,
    print_: Annotated[bool, typer.Option("--print", help="Print it instead of writing a file.")] = False,
    force: Annotated[bool, typer.Option("--force", "-f", help="Replace an existing file.")] = False,
    as_json: Annotated[bool, typer.Option("--json", help="Print the path as JSON.")] = False,
) -> None:
    """Write a commented settings file.

    It has every setting with its description and its default, commented out, and no secrets, so it
    can be kept under version control. With --repo it has only what a repository may set.
    """
    text = user_template() if repo is None else repository_template()
    if print_:
        typer.echo(text, nl=False)
        return
    path = settings.find_paths().config_file if repo is None else _repository_file(repo)
    if os.path.lexists(path) and not force:
        raise Conflict(
            f"{visible(str(path))} exists. Compare it with the output of `hutch config init --print`, or "
            "replace it with --force."
        )
    try:
        path.parent.mkdir(mode=0o755 if repo else 0o700, parents=True, exist_ok=True)
        replace_file(path, text)
    except OSError as error:
        raise BadRequest(f"{visible(str(path))} cannot be written: {error.strerror}.") from None
    typer.echo(json.dumps({"path": str(path)}) if as_json else os.fsencode(path))
    if not as_json:
        typer.echo("Every setting in it is commented out: remove the # in front of a name.", err=True)


def _repository_file(repo: Path) -> Path:
    if not repo.is_dir():
        raise NotFound(f"There is no directory {visible(str(repo))!r}. Name the directory of a repository.")
    path = config_file(settings_root(settings.find_paths(), repo))
    if path.parent.is_symlink():  # it would lead out of the repository
        raise BadRequest(f"{visible(str(path.parent))} is a symbolic link. Replace it by a directory.")
    return path
