"""Checks a directory that is worked on in place and visible to a client."""

from pathlib import Path

from hutch.domain.errors import BadRequest
from hutch.snapshots.confined_directory import Directory
from hutch.workspace.admission.directory_checks import OwnDirectories, check_workspace, has_git
from hutch.workspace.admission.local_repository_access import repository_root
from hutch.workspace.lifecycle.plain_directory_summary import summarize_directory

PLAIN = (
    "'{path}' is not a git repository, so all of it would be shown to the client: {contents}. "
    "Make it a repository (git init), or allow that: --plain-directory."
)


def check_client_directory(directory: Path, own: OwnDirectories, plain: bool) -> None:
    """Refuse a directory that must not be worked in, or one without git unless `plain`. Blocks the thread."""
    check_workspace(directory, own)
    if plain or has_git(repository_root(directory, own)):
        return
    with Directory.at(directory.resolve()) as opened:
        raise BadRequest(PLAIN.format(path=directory.resolve(), contents=summarize_directory(opened)))
