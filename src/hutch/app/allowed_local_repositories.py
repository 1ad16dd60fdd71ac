"""The local repositories that an installation may use, from its settings."""

from dataclasses import replace
from pathlib import Path

from hutch.settings import LoadedSettings, Paths
from hutch.workspace.admission.client_directory_check import check_client_directory
from hutch.workspace.admission.directory_checks import OwnDirectories
from hutch.workspace.admission.local_repository_access import Repositories, repository_root


def own_directories(paths: Paths) -> OwnDirectories:
    return OwnDirectories(paths.data, (paths.state, paths.cache, paths.config_file))


def check_directory(loaded: LoadedSettings, directory: Path, *, plain: bool, unsafe: bool) -> None:
    """Refuse a directory that a client must not work in. Blocks."""
    if not unsafe:
        check_client_directory(directory, own_directories(loaded.paths), plain)


def settings_root(paths: Paths, directory: Path) -> Path:
    """The directory whose settings file counts for a directory: the root of its repository. Blocks the
    thread."""
    return repository_root(directory, own_directories(paths))


def repositories_of(loaded: LoadedSettings) -> Repositories:
    roots = map(Path, loaded.settings.server.repository_roots)
    return Repositories(own_directories(loaded.paths), tuple(roots))


def with_fixed_roots(loaded: LoadedSettings) -> LoadedSettings:
    """Resolve the links in `server.repository_roots` once: a root may be inside another one, where members
    can create links. Blocks the thread."""
    server = loaded.settings.server
    roots = [str(Path(root).resolve()) for root in server.repository_roots]
    fixed = server.model_copy(update={"repository_roots": type(server.repository_roots)(roots)})
    return replace(loaded, settings=loaded.settings.model_copy(update={"server": fixed}))
