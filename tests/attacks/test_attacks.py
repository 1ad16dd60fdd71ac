"""Each attack in a real jail, opened by root and by an ordinary user; and, as a control, with its guard off.

Controls show that an attack works. They are run by `make controls`, when the jail or an attack changed.
"""

import os
from typing import Any

import pytest

from .attack import Attack, Bomb, Probe, Scene
from .catalogue import ATTACKS
from .conftest import Gateway, Notes

USERS = ("root", "ordinary") if os.geteuid() == 0 else ("ordinary",)


def params(kind: type[Attack]) -> list[Any]:
    return [
        pytest.param(
            attack,
            id=attack.name,
            marks=[getattr(pytest.mark, mark) for mark in ("soak", "serial") if getattr(attack, mark, False)],
        )
        for attack in ATTACKS.values()
        if isinstance(attack, kind)
    ]


PROBES, BOMBS, SCENES = params(Probe), params(Bomb), params(Scene)

pytestmark = pytest.mark.parametrize("user", USERS)


@pytest.fixture
def gateway(gateways: dict[str, Gateway], user: str) -> Gateway:
    return gateways[user]


@pytest.mark.parametrize("probe", PROBES)
def test_probe_is_held(gateway: Gateway, user: str, probe: Probe) -> None:
    if probe.needs_root and user != "root":
        pytest.skip("only where the gateway is root")
    said = gateway.ask(probe.name, control=False)["jailed"]
    if said.startswith("ABSENT"):
        pytest.skip(f"nothing to attack here: {said.removeprefix('ABSENT ')}")
    assert said.startswith("HELD") and said.removeprefix("HELD ") in probe.held.split("|"), said


@pytest.mark.control
@pytest.mark.parametrize("probe", PROBES)
def test_probe_succeeds_with_its_guard_off(gateways: dict[str, Gateway], user: str, probe: Probe) -> None:
    if probe.needs_root and user != "root":
        pytest.skip("only where the gateway is root")
    asked = gateways.get("root" if probe.off.root else user)
    control = asked.ask(probe.name, jailed=False)["control"] if asked else "ABSENT this control needs root"
    if control.startswith("ABSENT") or control == "HELD ENOSYS":
        why = "this kernel has no such call" if control == "HELD ENOSYS" else control.removeprefix("ABSENT ")
        pytest.skip(f"it cannot be seen to succeed with its guard off: {why}")
    assert control == "WON", f"with its guard off: {control}"


@pytest.mark.parametrize("bomb", BOMBS)
def test_bomb_is_contained(gateway: Gateway, bomb: Bomb, notes: Notes) -> None:
    answer = gateway.ask(bomb.name, control=False)
    for note in answer["notes"]:
        notes.append(("host", note))
    assert answer["jailed"].startswith(("HELD", "CUT")), answer


@pytest.mark.control
@pytest.mark.parametrize("bomb", BOMBS)
def test_bomb_goes_off_under_a_higher_limit(gateway: Gateway, bomb: Bomb) -> None:
    assert gateway.ask(bomb.name, jailed=False)["control"] == "WON"


@pytest.mark.parametrize("scene", SCENES)
def test_scene(gateway: Gateway, scene: Scene, notes: Notes) -> None:
    for note in gateway.ask(scene.name)["notes"]:
        notes.append(("host", note))
