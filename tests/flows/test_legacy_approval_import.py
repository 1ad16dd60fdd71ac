"""Files of earlier versions are read once, and only where nobody else could have written them."""

import json
from pathlib import Path

import pytest

from hutch.agent.saved_approvals import SavedApprovals
from hutch.agent.tool_call_rules import Rule
from hutch.flows.legacy_approval_import import import_approvals
from hutch.store.event_log import SqlLog
from hutch.store.users import Users

pytestmark = pytest.mark.anyio

PUSH, LS = Rule("allow", "bash", "git push"), Rule("allow", "bash", "ls")


def write(path: Path, *rules: Rule) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(json.dumps({"rules": [{"tool": rule.tool, "pattern": rule.pattern} for rule in rules]}))
    path.chmod(0o600)


async def test_files_become_rows_of_their_users_and_a_withdrawn_rule_does_not_come_back(
    log: SqlLog, tmp_path: Path
) -> None:
    file = tmp_path / "approvals.json"
    ada, bob = await Users(log).add("ada", "owner"), await Users(log).add("bob", "member")
    write(file, PUSH, LS)
    write(tmp_path / "approvals" / f"{ada.id}.json", LS)  # what she had allowed on the server
    write(tmp_path / "approvals" / f"{bob.id}.json", PUSH)
    assert await import_approvals(log, file) == []
    assert await SavedApprovals(log, ada.id).rules() == (PUSH, LS)
    assert await SavedApprovals(log, bob.id).rules() == (PUSH,)
    await SavedApprovals(log, ada.id).withdraw([PUSH])
    assert await import_approvals(log, file) == []
    assert await SavedApprovals(log, ada.id).rules() == (LS,)
    assert not file.exists() and (tmp_path / "approvals.json.imported").exists()


async def test_a_file_waits_until_there_is_a_user_for_it(log: SqlLog, tmp_path: Path) -> None:
    file = tmp_path / "approvals.json"
    write(file, PUSH)
    assert await import_approvals(log, file) == [] and file.exists()
    ada = await Users(log).add("ada", "owner")
    await import_approvals(log, file)
    assert await SavedApprovals(log, ada.id).rules() == (PUSH,)


async def test_a_file_that_others_can_write_is_not_believed(log: SqlLog, tmp_path: Path) -> None:
    file = tmp_path / "approvals.json"
    ada = await Users(log).add("ada", "owner")
    write(file, PUSH)
    file.chmod(0o620)
    [problem] = await import_approvals(log, file)
    assert "can be written by others" in problem and file.exists()
    assert await SavedApprovals(log, ada.id).rules() == ()


async def test_a_file_of_nobody_is_left(log: SqlLog, tmp_path: Path) -> None:
    write(tmp_path / "approvals" / "somebody.json", PUSH)
    assert len(await import_approvals(log, tmp_path / "approvals.json")) == 1


@pytest.mark.parametrize(
    "text",
    ["", "[]", "{}", '{"rules": 5}', '{"rules": [5]}', '{"rules": [{"tool": 1, "pattern": ""}]}', "[" * 5000],
)
async def test_a_file_that_makes_no_sense_is_reported(log: SqlLog, tmp_path: Path, text: str) -> None:
    file = tmp_path / "approvals.json"
    ada = await Users(log).add("ada", "owner")
    file.write_text(text)
    file.chmod(0o600)
    [problem] = await import_approvals(log, file)
    assert problem.endswith("Fix it, or delete it.")
    assert await SavedApprovals(log, ada.id).rules() == ()
