"""Attacks are shown to work, with their guards off, after each change of them or of the jail."""

from pathlib import Path

from scripts.attack_control_freshness import STALE, is_fresh


def test_attacks_were_run_with_their_guards_off(root: Path) -> None:
    assert is_fresh(root), STALE
