"""`hutch interviews`: plan, invite, conduct, report and export; and the demo, as a person would watch it."""

import json
import urllib.request
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from hutch.cli import exit_codes
from tests.cli.attached_users import ServerHome, running_server
from tests.deadline import DEADLINE_S


@pytest.fixture(scope="module")
def server() -> Iterator[ServerHome]:
    with running_server() as opened:
        yield opened


def post(url: str, token: str) -> dict[str, Any]:
    headers = {"Authorization": f"Bearer {token}", "Content-Type": "application/json"}
    request = urllib.request.Request(url, data=b"{}", headers=headers, method="POST")
    with urllib.request.urlopen(request, timeout=DEADLINE_S) as answered:
        return dict(json.load(answered))


def test_an_interview_is_planned_conducted_and_exported(server: ServerHome, tmp_path: Path) -> None:
    made = server.json(
        *("interviews", "new", "--question", "meeting-rooms:python", "--title", "First talk", "--json")
    )
    assert (made["phase"], made["question_count"]) == ("planned", 1)
    listed = server.hutch("interviews", "list").stdout
    assert made["id"][-6:] in listed and "First talk" in listed
    link = server.hutch("interviews", "invite", "last")
    assert link.returncode == exit_codes.OK and "/link#" in link.stdout
    early = server.hutch("interviews", "begin", "last")
    assert early.returncode != exit_codes.OK and "has not come to the lobby" in early.stderr

    assert server.hutch("users", "add", "carl", "candidate").returncode == exit_codes.OK
    token = server.json("tokens", "create", "--user", "carl")["token"]
    shared = server.hutch("sessions", "share", made["id"], "carl", "--role", "candidate")
    assert shared.returncode == exit_codes.OK, shared.stderr
    post(f"{server.json('status')['url']}/api/v1/interviews/{made['id']}/lobby", token)

    assert "running" in server.hutch("interviews", "begin", "last").stdout
    assert "paused" in server.hutch("interviews", "pause", "last", "--reason", "tea").stdout
    assert "running" in server.hutch("interviews", "resume", "last").stdout
    shown = server.hutch("interviews", "show", "last").stdout
    assert "candidate  carl" in shown and "language   python" in shown
    assert "ended" in server.hutch("interviews", "end", "last").stdout

    report = server.hutch("interviews", "report", "last").stdout
    assert report.startswith("First talk: carl") and "Nothing here is a verdict" in report
    page = tmp_path / "report.html"
    assert server.hutch("interviews", "report", "last", "--html", str(page)).returncode == exit_codes.OK
    assert "Report: First talk" in page.read_text()
    document = tmp_path / "report.pdf"
    assert server.hutch("interviews", "report", "last", "--pdf", str(document)).returncode == exit_codes.OK
    assert document.read_bytes().startswith(b"%PDF")
    compared = server.hutch("interviews", "compare", "meeting-rooms").stdout.splitlines()
    assert compared[0].startswith("candidate") and compared[1].startswith("carl")
    record = tmp_path / "record.zip"
    assert server.hutch("interviews", "export", "last", "-o", str(record)).returncode == exit_codes.OK
    verified = server.hutch("verify", str(record))
    assert verified.returncode == exit_codes.OK and verified.stdout.startswith("ok: interview")


def test_candidate_and_assessor_work_from_the_command_line(server: ServerHome, tmp_path: Path) -> None:
    plan = tmp_path / "plan.toml"
    plan.write_text('title = "Second talk"\nattended = true\nconsent = "All is recorded."\n')
    questions = ("--question", "meeting-rooms:python", "--question", "build-order")
    made = server.json("interviews", "new", "--plan", str(plan), *questions)
    assert server.hutch("users", "add", "dina", "candidate").returncode == exit_codes.OK
    assert server.hutch("sessions", "share", made["id"], "dina", "--role", "candidate").returncode == 0
    token = server.json("tokens", "create", "--user", "dina")["token"]
    dina = {"HUTCH_SERVER": server.json("status")["url"], "HUTCH_TOKEN": token}

    def assess(*words: str) -> str:
        done = server.hutch("interviews", words[0], made["id"], *words[1:])
        assert done.returncode == exit_codes.OK, (words, done.stderr)
        return done.stdout

    lobby = server.hutch("interviews", "lobby", "last", **dina)
    assert "python: works" in lobby.stdout and "All is recorded." in lobby.stdout, lobby.stderr
    agreed = server.hutch("interviews", "lobby", "last", "--agree", **dina)
    assert agreed.returncode == exit_codes.OK and "All is recorded." not in agreed.stdout
    early = server.hutch("interviews", "next", "last", **dina)
    assert early.returncode != exit_codes.OK and "has not begun" in early.stderr
    assess("begin")
    assert "2 of 18 hidden tests pass" in assess("hidden-tests")
    assert "running" in assess("extend", "5", "--of", "question", "--reason", "a fire alarm")
    assert "running" in assess("level", "pair", "--reason", "stuck")
    assert assess("note", "Names the edges first.") == "noted\n"
    assert assess("message", "Think aloud, please.") == "sent\n"
    assert assess("rate", "1", "Correctness", "4", "--comment", "well done") == "rated\n"
    assert assess("mark", "1", "goal", "2") == "corrected\n"
    nothing = server.hutch("interviews", "answer", made["id"], "--accept")
    assert nothing.returncode != exit_codes.OK and "Nothing is proposed" in nothing.stderr
    refused = server.hutch("interviews", "note", made["id"], "x", **dina)
    assert refused.returncode == exit_codes.DENIED, refused.stderr
    switched = server.hutch("interviews", "language", "last", "javascript", **dina)
    assert switched.returncode == exit_codes.OK, switched.stderr
    assert "language   javascript" in server.hutch("interviews", "show", made["id"]).stdout
    assert server.hutch("interviews", "message", "last", "I will.", **dina).stdout == "sent\n"
    assert server.hutch("interviews", "next", "last", **dina).stdout.startswith("Question 2: ")
    assert server.hutch("interviews", "next", "last", **dina).stdout == "The interview is over.\n"
    log = server.hutch("log", made["id"]).stdout
    for part in ("Names the edges first.", "Think aloud, please.", "gives 5 minutes more", "I will."):
        assert part in log, (part, log)
    receipt, record = tmp_path / "receipt.json", tmp_path / "record.zip"
    assert server.hutch("interviews", "receipt", "last", "-o", str(receipt), **dina).returncode == 0
    assert server.hutch("interviews", "export", made["id"], "-o", str(record)).returncode == 0
    verified = server.hutch("verify", str(record), "--receipt", str(receipt))
    assert verified.returncode == exit_codes.OK, verified.stderr


def test_wrong_plans_are_refused(server: ServerHome, tmp_path: Path) -> None:
    plan = tmp_path / "plan.toml"
    plan.write_text('title = "x"\nquestions = [{ id = "meeting-rooms" }]\nlevels = ["pair"]\n')
    for words, why in (
        ((), "questions"),
        (("--question", "no-such-question"), "There is no question"),
        (("--question", "meeting-rooms:cobol"), "language"),
        (("--plan", str(plan)), "first_level"),
        (("--plan", str(tmp_path / "none.toml")), "cannot be read"),
    ):
        result = server.hutch("interviews", "new", *words)
        assert result.returncode == exit_codes.BAD_REQUEST, (words, result.stderr)
        assert why in result.stderr, (words, result.stderr)
    assert server.hutch("interviews", "show", "ses_none").returncode == exit_codes.BAD_REQUEST


def test_the_demo_shows_a_whole_interview(server: ServerHome, tmp_path: Path) -> None:
    shown = server.hutch("interviews", "demo", "--pause", "0", "--keep", str(tmp_path / "kept"))
    assert shown.returncode == exit_codes.OK, shown.stderr
    for part in (
        "began the interview",
        "asks the AI: Why does my first test fail",
        "switched the level from consultant to copilot",
        "AI                changed",
        "question 2 is open",
        "paused the clock",
        "hidden tests of question 2: 19 of 19 pass",
        "the record is sealed",
        "The record verifies: 3 logs",
    ):
        assert part in shown.stdout, (part, shown.stdout)
    verified = server.hutch("verify", str(tmp_path / "kept/interview.zip"))
    assert verified.returncode == exit_codes.OK
