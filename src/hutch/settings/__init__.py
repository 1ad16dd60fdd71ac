"""Settings and paths of an installation. The only reader of the environment.

The paths load at once, for shell completion. The settings themselves load pydantic, too,
so they are imported on first use.
"""

from typing import TYPE_CHECKING, Any

from hutch.settings.installation_paths import (
    Paths,
    editor_variable,
    find_paths,
    named_server,
    proxy_is_named,
    terminal_type,
)

if TYPE_CHECKING:
    from hutch.settings.layered_loading import LoadedSettings, load, user_environment
    from hutch.settings.schema import Settings

__all__ = [
    "LoadedSettings",
    "Paths",
    "Settings",
    "editor_variable",
    "find_paths",
    "load",
    "named_server",
    "proxy_is_named",
    "terminal_type",
    "user_environment",
]


def __getattr__(name: str) -> Any:
    if name not in {"LoadedSettings", "Settings", "load", "user_environment"}:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    from hutch.settings import layered_loading

    return getattr(layered_loading, name)
