"""All attacks, by name."""

from . import bombs, evasions, files, kernel, networks, processes, wardens
from .attack import GUARDS, Attack

_ALL: list[Attack] = [
    *files.PROBES,
    *files.scene,
    *kernel.PROBES,
    *kernel.scene,
    *networks.PROBES,
    *processes.PROBES,
    *processes.scene,
    *wardens.scene,
    *bombs.BOMBS,
    *bombs.scene,
    *evasions.BOMBS,
    *evasions.scene,
]
ATTACKS: dict[str, Attack] = {attack.name: attack for attack in _ALL}
assert len(ATTACKS) == len(_ALL), "two attacks of one name"
assert {attack.guard for attack in _ALL} <= GUARDS.keys()
