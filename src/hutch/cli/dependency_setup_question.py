"""Asks for a set-up before a run, if there is a terminal and anything to ask."""

import sys
from pathlib import Path

from hutch.cli.server_address_and_token import find_address


def ask_for_setup(repository: str, revision: str, *, uncommitted: bool, on_server: bool) -> None:
    """Show a set-up that nobody has accepted yet, and take one key. Nothing is asked without a terminal."""
    if not (sys.stdin.isatty() and sys.stderr.isatty()) or not repository:
        return
    if on_server and not find_address().is_local:
        return  # what is accepted on this machine does not count there
    is_bare = (Path(repository) / "objects").is_dir() and (Path(repository) / "HEAD").is_file()
    if revision or is_bare or not Path(repository).exists():  # its files are not in a directory here
        from hutch.cli.temporary_repository_workspace import confirm_revision

        confirm_revision(repository, revision, uncommitted=uncommitted)
        return
    from hutch.cli.dependency_setup_confirmation import confirm_setup

    confirm_setup(repository)
