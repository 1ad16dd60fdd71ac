"""What Hutch was told, by whom, and where it keeps its things. The only reader of the environment."""

from hutch.settings.layers import Loaded, find_paths, load, terminal_type
from hutch.settings.model import Settings
from hutch.settings.paths import Paths

__all__ = ["Loaded", "Paths", "Settings", "find_paths", "load", "terminal_type"]
