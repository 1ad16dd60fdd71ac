"""Runs commands in jails, and checks what this machine offers for that.

The names that callers need are available here. Each is imported on first use, since
most importers of this package need only one of its modules.
"""

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from hutch.jail.egress import EgressAttempt
    from hutch.jail.egress_proxy_startup import Outside
    from hutch.jail.interface import PIPE, Exit, Finished, Jail, LimitHit, Process, Size
    from hutch.jail.jail_startup import open_jail
    from hutch.jail.policy import Limits, Policy, profile
    from hutch.jail.shared_terminal import Terminal, open_terminal
    from hutch.jail.shell.command_results_and_events import Result
    from hutch.jail.shell.shared_jails_and_shells import Shells, open_shell
    from hutch.jail.shell.shell import Shell

__all__ = [
    "PIPE",
    "EgressAttempt",
    "Exit",
    "Finished",
    "Jail",
    "LimitHit",
    "Limits",
    "Outside",
    "Policy",
    "Process",
    "Result",
    "Shell",
    "Shells",
    "Size",
    "Terminal",
    "open_jail",
    "open_shell",
    "open_terminal",
    "profile",
]

_MODULES = {
    "egress": ("EgressAttempt",),
    "jail_startup": ("open_jail",),
    "egress_proxy_startup": ("Outside",),
    "policy": ("Limits", "Policy", "profile"),
    "interface": ("PIPE", "Exit", "Finished", "Jail", "LimitHit", "Process", "Size"),
    "shell.shell": ("Shell",),
    "shell.command_results_and_events": ("Result",),
    "shell.shared_jails_and_shells": ("Shells", "open_shell"),
    "shared_terminal": ("Terminal", "open_terminal"),
}
_PLACES = {name: module for module, names in _MODULES.items() for name in names}


def __getattr__(name: str) -> Any:
    if name not in _PLACES:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return getattr(import_module(f"{__name__}.{_PLACES[name]}"), name)


def __dir__() -> list[str]:
    return sorted({*globals(), *__all__})
