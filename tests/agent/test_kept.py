"""What is allowed always rests in a file that only its owner can write."""

from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from hutch.agent.kept import MAX_BYTES, MAX_RULES, KeptApprovals
from hutch.agent.policy import Rule
from hutch.domain.errors import LimitReached, NotFound, Unavailable

PUSH = Rule("allow", "bash", "git push")
ODD = Rule("allow", "write_file", " a\nb ")


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "new" / "approvals.json"


def test_what_is_kept_comes_back_once_and_in_order(path: Path) -> None:
    assert KeptApprovals(path).rules() == ()
    KeptApprovals(path).keep([PUSH, ODD])
    KeptApprovals(path).keep([PUSH])
    assert KeptApprovals(path).rules() == (PUSH, ODD)
    assert path.stat().st_mode & 0o777 == 0o600
    KeptApprovals(path).withdraw([PUSH])
    assert KeptApprovals(path).rules() == (ODD,)
    with pytest.raises(NotFound, match="'bash git push' is not allowed always"):
        KeptApprovals(path).withdraw([PUSH])


def test_so_many_are_kept_and_no_more(path: Path) -> None:
    KeptApprovals(path).keep([Rule("allow", "bash", str(number)) for number in range(MAX_RULES)])
    with pytest.raises(LimitReached, match="Withdraw some"):
        KeptApprovals(path).keep([PUSH])
    KeptApprovals(path).withdraw(KeptApprovals(path).rules())
    with pytest.raises(LimitReached):
        KeptApprovals(path).keep([Rule("allow", "bash", "x" * MAX_BYTES)])
    assert KeptApprovals(path).rules() == ()


def test_nobody_runs_over_what_another_keeps(path: Path) -> None:
    rules = [Rule("allow", "bash", str(number)) for number in range(50)]
    with ThreadPoolExecutor(8) as threads:
        list(threads.map(lambda rule: KeptApprovals(path).keep([rule]), rules))
    assert set(KeptApprovals(path).rules()) == set(rules)


def test_a_file_that_others_can_write_is_not_believed(path: Path) -> None:
    KeptApprovals(path).keep([PUSH])
    path.chmod(0o620)
    with pytest.raises(Unavailable, match="can be written by others"):
        KeptApprovals(path).rules()


@pytest.mark.parametrize(
    "text",
    [
        "",
        "{",
        "[]",
        "{}",
        '{"rules": 5}',
        '{"rules": [5]}',
        '{"rules": [{"tool": 1, "pattern": ""}]}',
        "[" * 5000,
    ],
)
def test_a_file_that_makes_no_sense_is_told(path: Path, text: str) -> None:
    path.parent.mkdir()
    path.write_text(text)
    path.chmod(0o600)
    with pytest.raises(Unavailable, match="Mend it, or delete it"):
        KeptApprovals(path).rules()
