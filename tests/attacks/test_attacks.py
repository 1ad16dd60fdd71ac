"""Each attack in a real jail, opened by root and by an ordinary user, and once with its guard off."""

import os

import pytest

from .attack import Bomb, Probe, Scene
from .catalogue import ATTACKS
from .conftest import Gateway, Notes

USERS = ("root", "ordinary") if os.geteuid() == 0 else ("ordinary",)
PROBES = [pytest.param(attack, id=attack.name) for attack in ATTACKS.values() if isinstance(attack, Probe)]
BOMBS = [
    pytest.param(attack, id=attack.name, marks=[pytest.mark.soak] if attack.soak else [])
    for attack in ATTACKS.values()
    if isinstance(attack, Bomb)
]
SCENES = [
    pytest.param(attack, id=attack.name, marks=[pytest.mark.soak] if attack.soak else [])
    for attack in ATTACKS.values()
    if isinstance(attack, Scene)
]

pytestmark = pytest.mark.parametrize("user", USERS)


@pytest.fixture
def gateway(gateways: dict[str, Gateway], user: str) -> Gateway:
    return gateways[user]


@pytest.mark.parametrize("probe", PROBES)
def test_probe_is_held_and_succeeds_with_its_guard_off(
    gateways: dict[str, Gateway], gateway: Gateway, user: str, probe: Probe, notes: Notes
) -> None:
    if probe.needs_root and user != "root":
        pytest.skip("only where the gateway is root")
    by_root = probe.off.root and user != "root"
    answer = gateway.ask(probe.name, control=not by_root)
    said = answer["jailed"]
    if said.startswith("ABSENT"):
        notes.append(("absent", f"{probe.name}: {said}"))
    else:
        assert said.startswith("HELD") and said.removeprefix("HELD ") in probe.held.split("|"), said
    if by_root and "root" in gateways:
        answer |= gateways["root"].ask(probe.name, jailed=False)
    control = answer.get("control", "ABSENT this control needs root")
    if control.startswith("ABSENT") or control == "HELD ENOSYS":
        notes.append(("no control", f"{probe.name}: {control.removeprefix('ABSENT ')}"))
    else:
        assert control == "WON", f"with its guard off: {control}"


@pytest.mark.parametrize("bomb", BOMBS)
def test_bomb_is_contained_and_goes_off_under_a_higher_limit(
    gateway: Gateway, bomb: Bomb, notes: Notes
) -> None:
    answer = gateway.ask(bomb.name)
    for note in answer["notes"]:
        notes.append(("host", note))
    assert answer["jailed"].startswith(("HELD", "CUT")), answer
    assert answer["control"] == "WON", answer


@pytest.mark.parametrize("scene", SCENES)
def test_scene(gateway: Gateway, scene: Scene, notes: Notes) -> None:
    for note in gateway.ask(scene.name)["notes"]:
        notes.append(("host", note))
