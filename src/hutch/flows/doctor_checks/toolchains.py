"""Checks the toolchains that jails see, and proposes others, for `hutch doctor`."""

from collections.abc import Sequence

from hutch.domain.errors import HutchError
from hutch.environment.host_toolchains_in_jails import find_toolchains, propose_toolchains
from hutch.jail.machine_checks import Check
from hutch.workspace.admission.directory_checks import OwnDirectories


def check_toolchains(named: Sequence[str], own: OwnDirectories) -> Check:
    """Check the directories of `jail.toolchains`. Blocks the thread."""
    try:
        found = find_toolchains(named, own)
    except HutchError as error:
        return Check("toolchains", "fail", str(error), "Correct jail.toolchains in the settings.")
    shown = ", ".join(f"{each.name} ({', '.join(each.path)})" for each in found)
    text = f"jails see {shown}" if shown else "jails see those of the system"
    if others := propose_toolchains(named, own):
        listed = ", ".join(f'"{each}"' for each in (*named, *others))
        text += f"; more are here, and shown after [jail] toolchains = [{listed}]"
    return Check("toolchains", "ok", text)
