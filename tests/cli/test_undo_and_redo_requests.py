"""`hutch undo` and `redo` print the changed files, and the next step."""

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from hutch.cli import exit_codes
from hutch.cli.undo_and_redo_requests import describe_undo
from tests.cli.attached_users import ServerHome, running_server
from tests.cli.project_with_failing_test import FIXES, Project, call

WRITES = {"calls": [call("write_file", path=f"{name}.txt", content="x\n") for name in "abcdefg"]}
FINISHES = {"calls": [call("finish", title="Done", summary="It is written.")]}
SESSION = {"id": "ses_01jd2m4c9k7w6t0q8n5x3vbaeh", "state": "idle"}


@pytest.fixture(scope="module")
def server() -> Iterator[ServerHome]:
    with running_server() as opened:
        yield opened


def test_undo_names_the_run_and_the_files(server: ServerHome) -> None:
    id = server.new(WRITES, FINISHES, prompt="Write \x1b[1mmany")
    server.until(id, "idle")
    result = server.hutch("undo", id)
    assert result.returncode == exit_codes.OK, result.stderr
    assert result.stdout == (
        "Undone: the run of 'Write \\\\x1b[1mmany'. Files changed: "
        f"a.txt, b.txt, c.txt, d.txt, e.txt and 2 more. {id[-6:]} is idle.\n"
    )
    again = server.hutch("undo", id)
    assert again.returncode == exit_codes.BAD_REQUEST and "There is no run to undo" in again.stderr
    redone = server.hutch("redo", id)
    assert redone.stdout == (
        "Taken back: the undo of the last run. Files changed: "
        f"a.txt, b.txt, c.txt, d.txt, e.txt and 2 more. {id[-6:]} is idle.\n"
    )
    again = server.hutch("redo", id)
    assert again.returncode != exit_codes.OK
    assert "There is nothing to redo" in again.stderr


def test_undo_takes_one_step_and_says_what_others_changed(server: ServerHome) -> None:
    id = server.new(WRITES, FINISHES, prompt="Write")
    server.until(id, "idle")
    entries = [json.loads(line) for line in server.hutch("log", id, "--json").stdout.splitlines()]
    step = next(each["seq"] for each in entries if each["event"].get("path") == "c.txt")
    undone = server.hutch("undo", id, "--step", str(step))
    assert undone.stdout == f"Undone: the change of c.txt. Files changed: c.txt. {id[-6:]} is idle.\n"
    (server.place / "b.txt").write_text("mine\n")
    written = server.hutch("files", "put", id, str(server.place / "b.txt"))
    assert written.returncode == exit_codes.OK, written.stderr
    refused = server.hutch("undo", id)
    assert refused.returncode != exit_codes.OK
    assert "b.txt (" in refused.stderr and "--merge" in refused.stderr
    both = server.hutch("undo", id, "--merge", "--keep")
    assert "Use only one of --merge, --keep and --discard-others." in both.stderr
    kept = server.hutch("undo", id, "--keep")
    assert (
        "Files changed: a.txt, d.txt, e.txt, f.txt, g.txt. Left as they are: b.txt (others changed it after "
        f"it was created, so there is no earlier version to merge). {id[-6:]} is idle."
    ) in kept.stdout


def effect(**fields: Any) -> dict[str, Any]:
    lists = {name: [] for name in ("files", "merged", "marked", "kept", "discarded")}
    counts = {"files_count": 0, "discarded_count": 0, "before": 3}
    return {
        "type": "session.rewound",
        "title": "the run of 'Fix'",
        **lists,
        **counts,
        "reasons": {},
        **fields,
    }


def test_a_merge_that_leaves_files_says_why_and_what_to_do() -> None:
    found = describe_undo(SESSION, effect(kept=["n.txt"], reasons={"n.txt": "unclear"}))
    assert found == (
        "Undone: the run of 'Fix'. No file had to be changed. Left as they are: n.txt (others may have made "
        "the change, and there are no two versions to merge). Change them yourself, or take their old "
        "versions: hutch redo 3vbaeh, then hutch undo 3vbaeh --discard-others. 3vbaeh is idle."
    )
    gone = describe_undo(SESSION, effect(kept=["n.txt"], reasons={"n.txt": "gone"}))
    assert "--discard-others" not in gone and "not stored any more" in gone


def test_undo_and_redo_work_without_a_server(tmp_path: Path) -> None:
    project = Project(tmp_path)
    ran = project.run("--no-pr", replies=FIXES)
    assert ran.returncode == exit_codes.OK, ran.stderr
    undone = project.hutch("undo")
    assert undone.returncode == exit_codes.OK, undone.stderr
    assert undone.stdout.startswith("Undone: the run of ")
    assert "Files changed: adding.py." in undone.stdout and undone.stdout.endswith(" is parked.\n")
    assert "There is no run to undo" in project.hutch("undo", "last").stderr
    redone = json.loads(project.hutch("redo", "last", "--json").stdout)
    assert (redone["effect"]["type"], redone["effect"]["files"]) == ("session.redone", ["adding.py"])
    refused = project.hutch("redo", "last", "--json")
    assert refused.returncode != exit_codes.OK
    assert json.loads(refused.stderr)["error"]["code"] == "conflict"


def test_an_undo_of_delivered_work_names_the_change_to_close(tmp_path: Path) -> None:
    project = Project(tmp_path)
    assert project.run(replies=FIXES).returncode == exit_codes.OK
    refused = project.hutch("undo", "last")
    assert refused.returncode != exit_codes.OK
    change = refused.stderr.partition("hutch changes close ")[2].partition(".")[0]
    assert change.startswith("chg_")
    assert project.hutch("changes", "close", change).returncode == exit_codes.OK
