"""The repositories of this machine that an installation may use, as its settings have them."""

from dataclasses import replace
from pathlib import Path

from hutch.settings import LoadedSettings, Paths
from hutch.workspace.admission.directory_checks import OwnDirectories
from hutch.workspace.admission.repositories import Repositories


def own_directories(paths: Paths) -> OwnDirectories:
    return OwnDirectories(paths.data, (paths.state, paths.cache, paths.config_file))


def repositories_of(loaded: LoadedSettings) -> Repositories:
    roots = map(Path, loaded.settings.server.repository_roots)
    return Repositories(own_directories(loaded.paths), tuple(roots))


def with_fixed_roots(loaded: LoadedSettings) -> LoadedSettings:
    """The same settings, with links in `server.repository_roots` followed once: a root may lie in another,
    where members can put links. Blocks."""
    server = loaded.settings.server
    roots = [str(Path(root).resolve()) for root in server.repository_roots]
    fixed = server.model_copy(update={"repository_roots": type(server.repository_roots)(roots)})
    return replace(loaded, settings=loaded.settings.model_copy(update={"server": fixed}))
