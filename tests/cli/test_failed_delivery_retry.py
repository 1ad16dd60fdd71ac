"""`hutch changes propose` and `deliver` for runs of a server, and the messages about deliveries."""

from collections.abc import Iterator
from pathlib import Path

import pytest

from hutch.cli import exit_codes
from hutch.cli.render.delivery_result import NOTHING, delivery_lines
from tests.cli.attached_users import ServerHome, running_server
from tests.cli.project_with_failing_test import BREAKS, FILES, FIXES, call
from tests.forge.repositories import git, make_repository


@pytest.fixture(scope="module")
def server() -> Iterator[ServerHome]:
    with running_server() as opened:
        yield opened


def repository(server: ServerHome, name: str) -> Path:
    make_repository(server.place / name, FILES)
    return server.place / name


def branches(repo: Path) -> list[str]:
    return git(repo, "for-each-ref", "--format=%(refname:short)", "refs/heads").split()


def test_failing_tests_are_reported_and_proposed_on_request(server: ServerHome) -> None:
    repo = repository(server, "failing")
    ran = server.hutch("run", "Mend add", "--server", "--repo", str(repo), "--model", server.model(*BREAKS))
    shown = server.json("sessions", "show", "last")
    run = shown["runs"][0]["id"]
    assert ran.returncode == exit_codes.NO, ran.stderr
    assert f"deliver anyway: hutch changes propose {run}\n" in ran.stdout
    assert (shown["delivered"]["outcome"], shown["delivered"]["run_id"]) == ("failed", run)
    result = server.hutch("sessions", "show", "last").stdout
    assert f"not delivered  {shown['delivered']['reason']}\n" in result
    assert f"deliver anyway hutch changes propose {run}\n" in result
    refused = server.hutch("changes", "deliver", run)
    assert refused.returncode == exit_codes.BAD_REQUEST
    assert f"hutch changes propose {run}" in refused.stderr and branches(repo) == ["main"]
    proposed = server.hutch("changes", "propose", run)
    assert proposed.returncode == exit_codes.OK, proposed.stderr
    [branch] = [each for each in branches(repo) if each != "main"]
    change, told_branch, title = proposed.stdout.splitlines()[0].split(maxsplit=2)
    assert (told_branch, title) == (branch, "Nearly")
    assert f"review it: hutch changes diff {change}\n" in proposed.stdout
    again = server.json("changes", "propose", run)
    assert (again["delivered"]["change_id"], len(branches(repo))) == (change, 2)
    assert f"delivered      {change} {repo}#{branch}\n" in server.hutch("sessions", "show", "last").stdout


def test_redelivery_does_not_wait_for_a_paused_session(server: ServerHome) -> None:
    repo = repository(server, "paused")
    server.hutch("run", "Mend add", "--server", "--repo", str(repo), "--model", server.model(*BREAKS))
    run = server.json("sessions", "show", "last")["runs"][0]["id"]
    assert server.hutch("sessions", "pause", "last").returncode == exit_codes.OK
    result = server.hutch("changes", "propose", run)
    assert (result.returncode, branches(repo)) == (exit_codes.OK, ["main"])
    assert "is paused. Delivery happens when it is resumed." in result.stdout


def test_a_run_that_changed_nothing_says_so(server: ServerHome) -> None:
    repo = repository(server, "same")
    model = server.model({"text": "It is fine."})
    ran = server.hutch("run", "Is it fine?", "--server", "--repo", str(repo), "--model", model)
    assert ran.returncode == exit_codes.OK, ran.stderr
    assert f"\n{NOTHING}\n" in ran.stdout
    assert f"delivered      {NOTHING}\n" in server.hutch("sessions", "show", "last").stdout
    server.hutch("sessions", "end", "last")
    assert f"\n{NOTHING}\n" in server.hutch("attach", "last").stdout


def test_a_run_of_the_command_line_is_still_proposed_beside_a_server(server: ServerHome) -> None:
    repo = repository(server, "local")
    ran = server.hutch("run", "Mend add", "--repo", str(repo), "--model", server.model(*BREAKS))
    assert ran.returncode == exit_codes.NO, ran.stderr
    run = next(line.split()[-1] for line in ran.stdout.splitlines() if "hutch changes propose" in line)
    proposed = server.hutch("changes", "propose", run)
    assert proposed.returncode == exit_codes.OK, proposed.stderr
    assert len(branches(repo)) == 2


def test_uncommitted_changes_are_reported(server: ServerHome) -> None:
    repo = repository(server, "dirty")
    (repo / "adding.py").write_text("def add(a, b):\n    return a - b  # mine\n")
    (repo / "new.txt").write_text("new\n")
    words = ("run", "Mend add", "--repo", str(repo), "--model")
    ran = server.hutch(*words, server.model(*FIXES))
    assert ran.returncode == exit_codes.OK, ran.stderr
    result = "2 files are changed but not committed, and so not in this run: adding.py, new.txt."
    shown = ran.stdout.splitlines()
    warned = shown.index(f"warning: {result} --uncommitted includes them.")
    first_reply = shown.index("I see what is wrong.")
    assert warned < first_reply and ran.stdout.count("warning: ") == 1
    brought = server.hutch(*words, server.model(*FIXES), "--uncommitted")
    assert "not committed" not in brought.stdout
    git(repo, "checkout", "-q", "--", ".")
    (repo / "new.txt").unlink()
    assert "not committed" not in server.hutch(*words, server.model(*FIXES)).stdout


def test_an_unknown_run_is_reported(server: ServerHome) -> None:
    for name in ("run_01jd2m4c9k7w6t0q8n5x3vbaeh", "nonsense"):
        unknown = server.hutch("changes", "propose", name)
        assert unknown.returncode == exit_codes.BAD_REQUEST and "There is no run" in unknown.stderr, (
            unknown.stderr
        )


def test_each_outcome_has_its_message() -> None:
    proposed = {"outcome": "proposed", "change_id": "chg_1", "url": "https://github.com/a/b/pull/1"}
    assert delivery_lines("run_1", proposed) == [("delivered", "chg_1 https://github.com/a/b/pull/1")]
    assert delivery_lines("run_1", {"outcome": "nothing"}) == [("delivered", NOTHING)]
    failed = {"outcome": "failed", "reason": "GitHub is down.", "failing": False}
    assert delivery_lines("run_1", failed) == [
        ("not delivered", "GitHub is down."),
        ("try again", "hutch changes deliver run_1"),
    ]
    assert delivery_lines("run_1", {**failed, "failing": True})[1] == (
        "deliver anyway",
        "hutch changes propose run_1",
    )


def test_a_run_on_a_server_has_the_exit_code_of_a_local_run(server: ServerHome) -> None:
    empty = server.place / "empty"
    git(server.place, "init", "-q", str(empty))
    for repo in (server.place / "missing", empty):
        words = ("run", "Mend add", "--repo", str(repo), "--model", server.model(*FIXES))
        alone, served = server.hutch(*words), server.hutch(*words, "--server")
        waited = server.hutch("sessions", "new", "-p", "Mend add", "--wait", *words[2:])
        codes = [alone.returncode, served.returncode, waited.returncode]
        assert codes == [exit_codes.BAD_REQUEST] * 3, alone.stderr + served.stdout + served.stderr


def test_tests_that_failed_before_are_no_failure_on_a_server(server: ServerHome) -> None:
    repo = repository(server, "as before")
    model = server.model(
        {"calls": [call("write_file", path="README", content="Adding.\n")]},
        {"calls": [call("finish", title="Tell what it is", summary="There was no readme.")], "times": 9},
    )
    words = ("run", "Write a readme", "--repo", str(repo), "--model", model)
    ran = [server.hutch(*words), server.hutch(*words, "--server")]
    assert [each.returncode for each in ran] == [exit_codes.OK, exit_codes.OK], ran[0].stdout + ran[1].stdout
    assert all("1 test fails, as it did before." in each.stdout for each in ran), ran[1].stdout
