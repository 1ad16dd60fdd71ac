"""What a person sees of a run."""

import pytest

from hutch.cli.run_screen import Screen
from hutch.domain.events import ModelReplied


def test_that_money_is_no_limit_is_told_once(capsys: pytest.CaptureFixture[str]) -> None:
    screen = Screen()
    screen.event(ModelReplied(run_id="run_1", turn=1, cost_usd=0.1))
    assert capsys.readouterr().out == ""
    for turn in (2, 3):
        screen.event(ModelReplied(run_id="run_1", turn=turn, cost_usd=None))
    assert capsys.readouterr().out.count("is not known, so money cannot be a limit") == 1
