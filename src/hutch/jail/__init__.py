"""Where commands run, and what this machine must offer for that."""

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from hutch.jail.shells import open_shell

__all__ = ["open_shell"]


def __getattr__(name: str) -> Any:
    """Import `open_shell` when somebody wants it: most of those who import this room do not."""
    if name == "open_shell":
        from hutch.jail.shells import open_shell

        return open_shell
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
