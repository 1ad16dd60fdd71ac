"""The locations of an installation that an erasure does not reach."""

from hutch.flows.unerased_data import OtherPlaces
from hutch.settings import Paths
from hutch.workspace.lifecycle.workspace_record_and_directories import Home


def other_places(paths: Paths) -> OtherPlaces:
    return OtherPlaces(Home(paths.data), paths.server_files, paths.server_log)
