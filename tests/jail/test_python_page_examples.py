"""The examples of docs/python.md run unchanged in jails."""

import ast
import inspect
import re
from pathlib import Path

import pytest

import hutch.jail

pytestmark = pytest.mark.anyio

PAGE = Path(__file__).resolve().parents[2] / "docs" / "python.md"
EXAMPLES = re.findall(r"^## ([^\n]+)\n(.*?)(?=^## |\Z)", PAGE.read_text(), re.M | re.S)
SECTIONS = ("A shell from Python", "Commands without a shell", "Limits", "Network", "Terminals")


async def test_the_examples_run_one_after_the_other(
    workspace: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    (workspace / "repo" / "src").mkdir(parents=True)
    (workspace / "repo" / "src" / "found.py").touch()
    monkeypatch.chdir(workspace)
    names: dict[str, object] = {}
    ran = []
    for title, text in EXAMPLES:
        for block in re.findall(r"^```python\n(.*?)^```$", text, re.M | re.S):
            code = compile(block, title, "exec", flags=ast.PyCF_ALLOW_TOP_LEVEL_AWAIT)
            waiting = eval(code, names)  # as `python -m asyncio` does
            if inspect.iscoroutine(waiting):
                await waiting
            ran.append(title)
    assert tuple(dict.fromkeys(ran)) == SECTIONS
    shown = capsys.readouterr().out
    assert "0 found.py\n" in shown and "stdout b'1\\n" in shown and "bg_1 True" in shown
    assert "timeout_s is 600.5; give a number above 0 and at most 600." in shown


def test_what_the_room_offers_can_be_listed_and_had() -> None:
    assert set(hutch.jail.__all__) <= set(dir(hutch.jail))
    for name in hutch.jail.__all__:
        assert getattr(hutch.jail, name) is not None
    with pytest.raises(AttributeError, match="nonesuch"):
        _ = hutch.jail.nonesuch
