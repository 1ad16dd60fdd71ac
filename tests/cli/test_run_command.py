"""`hutch run` and `hutch resume` as a person types them, with a model that plays its part."""

import json
import os
import pty
import re
import select
import shutil
import signal
import subprocess
import termios
import threading
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

import pytest

from hutch.cli import exit_codes
from hutch.cli.render.delivery_result import NOTHING
from hutch.workspace.lifecycle.workspace_filling import SMALL_FILES
from tests.cli.project_with_failing_test import BREAKS, FIXES, Project, call, lines, temporary_project
from tests.deadline import DEADLINE_S
from tests.forge.repositories import commit, git, serving
from tests.forked_command import HUTCH, Forked, run

BASH = ({"calls": [call("bash", command="printf really-%d 42")]}, {"text": "That is all."})
SLOW = ({"text": "Wait for it.", "calls": [call("bash", command="sleep 600", timeout_s=600)]}, *FIXES)


@pytest.fixture
def project() -> Iterator[Project]:
    with temporary_project() as made:
        yield made


def branches(project: Project) -> list[str]:
    return git(project.work, "for-each-ref", "--format=%(refname:short)", "refs/heads").split()


COMMITS = (
    {"calls": [call("bash", command="git commit -q --allow-empty -m x && git log -1 '--format=%an <%ae>'")]},
    {
        "calls": [
            call("bash", command="git -c user.name=Me -c user.email=me@b commit -q --allow-empty -m y"),
            call("bash", command="git log -1 '--format=%an <%ae>'"),
        ]
    },
    {"text": "That is all."},
)


def test_the_agent_can_commit_by_the_author_of_the_run(project: Project) -> None:
    ran = project.run("--no-pr", replies=COMMITS)
    assert "  Hutch <hutch@localhost>\n" in ran.stdout, ran.stdout
    ran = project.run("--no-pr", replies=COMMITS, HUTCH_DELIVERY__AUTHOR="Ada Lovelace <ada@example.org>")
    assert "  Ada Lovelace <ada@example.org>\n" in ran.stdout and "  Me <me@b>\n" in ran.stdout, ran.stdout


# --- output ---


def test_a_prompt_becomes_a_tested_change(project: Project) -> None:
    ran = project.run()
    assert (ran.returncode, ran.stderr) == (0, "")
    story = (
        *("session ses_", "with scripted:", "I see what is wrong.", "edit_file path=adding.py"),
        *(
            "diff --git a/adding.py b/adding.py",
            "+    return a + b",
            "The sign was wrong.",
            "tests: 1 passed",
        ),
        *("pull request chg_", "branch hutch/add-instead-of-subtracting of ", "hutch changes merge chg_"),
        "2 turns, ",
    )
    rest = ran.stdout
    for part in story:
        before, found, rest = rest.partition(part)
        assert found, f"{part} is not in {before}"
    assert "\x1b" not in ran.stdout
    assert branches(project) == ["hutch/add-instead-of-subtracting", "main"]
    assert git(project.work, "status", "--porcelain") == ""


def test_a_repository_of_many_files_is_worked_on_in_layers(project: Project) -> None:
    many = project.work / "many"
    many.mkdir()
    for number in range(SMALL_FILES):
        (many / f"{number}.txt").write_text(f"{number}\n")
    commit(project.work, {"one_more.txt": "more\n"})
    ran = project.run()
    assert (ran.returncode, ran.stderr) == (0, "")
    assert "tests: 1 passed" in ran.stdout
    assert " overlay " in project.hutch("workspace", "ls").stdout
    assert branches(project) == ["hutch/add-instead-of-subtracting", "main"]


def test_last_is_the_newest_of_the_current_repository(project: Project) -> None:
    assert project.run("--max-turns", "1").returncode == 5
    other = project.place / "other"
    shutil.copytree(project.work, other)
    assert project.run("--max-turns", "1", "--repo", str(other)).returncode == 5

    def last(directory: Path) -> str:
        shown = run(
            [HUTCH, "log", "last", "-n", "1", "--json"],
            cwd=directory,
            env=project.environment(),
            capture_output=True,
            text=True,
        )
        return str(json.loads(shown.stdout)["session"])

    listed = project.hutch("log", "--json").stdout.splitlines()
    newer, older = [json.loads(line)["session"] for line in listed]
    assert [last(project.work), last(other), last(project.place)] == [older, newer, newer]
    resumed = project.hutch("resume", "last", "--max-turns", "9", "--json")
    assert (resumed.returncode, lines(resumed.stdout)[-1]["session"]) == (0, older)


def test_a_run_prints_json_lines(project: Project) -> None:
    ran = project.run("--json")
    assert (ran.returncode, ran.stderr) == (0, "")
    result = lines(ran.stdout)
    types = [each["type"] for each in result if each["type"] not in ("progress", "event")]
    assert types == ["begin", "diff", "end"]
    assert [each["event"]["type"] for each in result if each["type"] == "event"].count("tool.called") == 2
    end = result[-1]
    begin = next(each for each in result if each["type"] == "begin")
    assert begin["session"].startswith("ses_")
    assert (end["session"], end["run"]) == (begin["session"], begin["run"])
    assert (end["outcome"], end["changed"], end["tests"]["passed"]) == ("done", True, 1)
    assert git(project.work, "rev-parse", end["change"]["branch"]) == end["change"]["commit"]


def test_without_a_pull_request_the_work_is_in_the_workspace(project: Project) -> None:
    ran = project.run("--no-pr")
    assert (ran.returncode, branches(project)) == (0, ["main"])
    found = re.search(r"No branch was created. The work is in the workspace (\S+):\n", ran.stdout)
    assert found
    assert "return a + b" in project.hutch("workspace", "cat", found[1], "adding.py").stdout
    way = re.search(r"^deliver it: hutch (changes deliver run_\w+)$", ran.stdout, re.MULTILINE)
    assert way
    delivered = project.hutch(*way[1].split())
    assert (delivered.returncode, delivered.stderr) == (0, "")
    assert branches(project) == ["hutch/add-instead-of-subtracting", "main"]


def test_a_password_in_the_address_is_hidden_everywhere(project: Project) -> None:
    password = "grue-lantern-9981"
    says = {"text": f"It is {password}.", "calls": [call("bash", command=f"echo {password} > a; cat a")]}
    tape = project.place / "tape.json"
    with serving(project.place, password=f"ada:{password}") as there:
        address = there.url("work", user=f"ada:{password}")
        words = ("--no-pr", "--repo", address, "--record", str(tape))
        ran = project.run(*words, replies=(says, {"text": "That is all."}), prompt=f"Say {password}.")
    assert ran.stdout.count("[redacted:") == 5  # prompt, reply, command, output and diff
    files = [path for path in (project.place / "home").rglob("*") if path.is_file()]
    kept = [path for path in files if "workspaces" not in path.parts]
    shown = [ran.stdout, ran.stderr, tape.read_text(), *(path.read_text("latin-1") for path in kept)]
    assert [text for text in shown if password in text] == []


def test_a_run_that_no_model_or_persona_could_do_leaves_no_session(project: Project) -> None:
    no_key = "There is no key for openai. Set it with `hutch config set-secret openai_api_key`"
    for words, env, code, says in (
        (("--model", "openai:some"), {}, exit_codes.DENIED, no_key),
        ((), {"HUTCH_MODEL": "openai:some"}, exit_codes.DENIED, no_key),
        (("--persona", "../x"), {}, exit_codes.BAD_REQUEST, "There is no persona '../x'. Known personas: "),
    ):
        refused = project.hutch("run", "Mend add", *words, **env)
        assert (refused.returncode, says in refused.stderr) == (code, True), refused.stderr
    assert "ses_" not in project.hutch("log").stdout


def test_a_run_without_changes_opens_no_pull_request(project: Project) -> None:
    ran = project.run(replies=({"text": "It is fine as it is."},))
    assert (ran.returncode, branches(project)) == (0, ["main"])
    assert "Nothing was changed" in ran.stdout
    assert "pull request" not in ran.stdout


def test_a_missing_repository_is_not_delivered_to(project: Project) -> None:
    project.run(replies=({"text": "It is fine."},))
    nothing = project.hutch("changes", "deliver")
    assert (nothing.returncode, nothing.stderr) == (0, f"{NOTHING}\n")
    result = json.loads(project.hutch("changes", "propose", "--json").stdout)
    assert result["delivered"]["outcome"] == "nothing"
    project.run("--no-pr", replies=({"text": "It is fine."},))
    ended = project.hutch("changes", "deliver")
    assert ended.returncode == 2 and "has ended" in ended.stderr


def test_a_plain_directory_is_worked_on_but_not_delivered(project: Project) -> None:
    shutil.rmtree(project.work / ".git")
    refused = project.run()
    assert refused.returncode == exit_codes.BAD_REQUEST and "--plain-directory" in refused.stderr
    ran = project.run("--plain-directory")
    assert ran.returncode == 0, ran.stderr
    assert "The work is in the workspace" in ran.stdout


def test_control_characters_are_escaped(project: Project) -> None:
    evil = "\x1b]0;owned\x07\x1b[2J\u202e"
    ran = project.run(
        replies=(
            {"text": evil, "calls": [call("write_file", path="new.txt", content=evil)]},
            {"calls": [call("finish", title=f"A {evil} b", summary=evil)]},
        )
    )
    assert ran.returncode in (0, 3)
    assert not set(ran.stdout) & {"\x1b", "\x07", "\u202e"}


def test_without_a_model_a_run_fails(project: Project) -> None:
    nobody = {"HUTCH_MODELS__OLLAMA_BASE_URL": "http://127.0.0.1:9"}
    ran = project.hutch("run", "Mend add", **nobody)
    assert ran.returncode == exit_codes.UNAVAILABLE
    assert ran.stderr.startswith("hutch: No model is connected, so nothing was done. Set a key with ")
    as_json = project.hutch("run", "Mend add", "--json", **nobody)
    assert (as_json.returncode, lines(as_json.stdout)[-1]["type"]) == (exit_codes.UNAVAILABLE, "end")


def interrupted_at(line: str, project: Project, *replies: dict[str, object]) -> str:
    """Press Ctrl-C when a line is shown, which must be during the run; return the later output."""
    with Forked(
        [HUTCH, "run", "Wait", "--model", project.cassette(*replies)],
        cwd=project.work,
        env=project.environment(),
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        text=True,
    ) as process:
        assert process.stdout is not None
        assert line in iter(process.stdout.readline, "")
        assert process.poll() is None
        process.send_signal(signal.SIGINT)
        rest, _ = process.communicate(timeout=DEADLINE_S)
    assert process.returncode == exit_codes.INTERRUPTED
    return str(rest)


def test_output_of_a_command_is_shown_live(project: Project) -> None:
    command = "echo begun; sleep 60; echo over"
    waits = ({"calls": [call("bash", command=command, timeout_s=90)]}, {"text": "That is all."})
    assert "begun" not in interrupted_at("  begun\n", project, *waits)


def test_a_reply_is_shown_while_it_is_streamed(project: Project) -> None:
    interrupted_at("I begin.\n", project, {"text": "I begin.\nI go on. " * 20, "fault": {"kind": "stall"}})


# --- the author ---


def test_the_author_comes_from_git_or_the_setting(project: Project) -> None:
    def author() -> str:
        last = branches(project)[-2]
        return git(project.work, "show", "-s", "--format=%an <%ae>", last)

    assert project.run().returncode == 0
    assert author() == "Hutch <hutch@localhost>"
    git(project.work, "config", "user.name", "Mallory")
    (project.place / ".gitconfig").write_text("[user]\n\tname = Ada Lovelace\n\temail = ada@example.org\n")
    assert project.run().returncode == 0
    assert author() == "Ada Lovelace <ada@example.org>"
    assert project.run(HUTCH_DELIVERY__AUTHOR="Bot <bot@example.org>").returncode == 0
    assert author() == "Bot <bot@example.org>"
    assert project.run(HUTCH_DELIVERY__AUTHOR="nobody").returncode == 2


def test_a_secret_in_a_reply_is_redacted(project: Project) -> None:
    secret = "ghp_" + "a1B2c3D4e5F6g7H8i9" * 2
    finish = call("finish", title=f"Use {secret}\nnow", summary=f"It is {secret}.")
    for words in ((), ("--json",)):
        ran = project.run(*words, replies=(FIXES[0], {"calls": [finish]}))
        assert ran.returncode == 0
        assert secret not in ran.stdout + ran.stderr
    assert secret not in git(project.work, "log", "--all", "--format=%B")
    assert secret not in project.hutch("changes", "list", "--json").stdout


# --- exit codes ---


def test_a_secret_split_over_parts_is_redacted(project: Project) -> None:
    secret = "ghp_" + "a1B2c3D4e5F6g7H8i9" * 2
    apart = secret.replace("B2", "B\x012")
    replies = (FIXES[0], {"calls": [call("finish", title=f"Use {apart}", summary=f"It is {apart}.")]})
    ran = project.run("--json", replies=replies, prompt=f"Mend add with {secret}")
    assert ran.returncode == 0, ran.stderr
    assert secret not in git(project.work, "log", "--all", "--format=%D%n%B")
    session = next(each["session"] for each in lines(ran.stdout) if each["type"] == "begin")
    result = (
        project.hutch("log", session, "--json").stdout + project.hutch("changes", "list", "--json").stdout
    )
    assert "session.opened" in result and secret not in ran.stdout + result


def test_failing_tests_exit_with_3_and_are_not_delivered(project: Project) -> None:
    ran = project.run(replies=BREAKS)
    assert (ran.returncode, branches(project)) == (3, ["main"])
    assert "tests failing" in ran.stdout and "did not fail before" in ran.stdout, ran.stdout


def test_tests_that_failed_before_do_not_block_delivery(project: Project) -> None:
    test = (project.work / "test_adding.py").read_text()
    commit(project.work, {"test_adding.py": f"{test}\n    def test_moon(self):\n        self.fail()\n"})
    ran = project.run(replies=(FIXES[0], {**FIXES[1], "times": 50}))
    assert (ran.returncode, branches(project)) == (0, ["hutch/add-instead-of-subtracting", "main"])
    assert "1 test fails, as it did before." in project.hutch("changes", "show").stdout
    assert "tests: 1 failed, 1 passed. 1 test fails, as it did before.\n" in ran.stdout
    merge = re.search(r"merge it:  hutch (changes merge chg_\S+ --force)\n", ran.stdout)
    assert merge and project.hutch(*merge[1].split()).returncode == 0
    assert len(list((project.place / "home/data/workspaces").iterdir())) == 1


def test_tests_that_cannot_run_are_not_run_on_the_base(project: Project) -> None:
    (project.work / ".hutch.toml").unlink()
    (project.work / "test_adding.py").unlink()  # else its tests would decide
    (project.work / "package.json").write_text('{"devDependencies": {"jest": "^29"}}')
    git(project.work, "add", "-A")
    git(project.work, "commit", "-qm", "jest")
    ran = project.run()
    assert ran.returncode == 3, ran.stderr
    assert "tests: The tests cannot be run: Jest is not in the jail" in ran.stdout
    assert "before" not in ran.stdout.partition("No branch was created")[2]
    assert "deliver anyway: hutch changes propose" in ran.stdout


def test_slow_tests_pass_with_a_longer_timeout(project: Project) -> None:
    test = (project.work / "test_adding.py").read_text()
    commit(
        project.work,
        {"test_adding.py": test.replace("self.assert", "__import__('time').sleep(2.5)\n        self.assert")},
    )
    ran = project.run(HUTCH_TESTS__TIMEOUT_S="1")
    assert (ran.returncode, branches(project)) == (3, ["main"])
    assert "took too long" in ran.stdout and "tests.timeout_s" in ran.stdout
    went_on = project.hutch("resume", HUTCH_TESTS__TIMEOUT_S="60")
    assert (went_on.returncode, branches(project)) == (0, ["hutch/add-instead-of-subtracting", "main"])


def test_failing_work_is_delivered_on_request_and_marked(project: Project) -> None:
    ran = project.run(replies=BREAKS)
    command = re.search(r"deliver anyway: hutch (changes propose run_\S+)\n", ran.stdout)
    assert command, ran.stdout
    # Until then it can be tried again, as with a test that fails by chance.
    assert project.hutch("resume").returncode == 3
    done = project.hutch(*command[1].split(), "--json")
    assert (done.returncode, done.stderr) == (0, "")
    (change,) = map(json.loads, project.hutch("changes", "list", "--json").stdout.splitlines())
    assert change["id"] == json.loads(done.stdout)["delivered"]["change_id"]
    assert (change["branch"], change["tests"]) == ("hutch/nearly", "1 failed")
    assert change["body"].startswith("It is not right.\n\nThe tests fail. This is known")
    assert change["body"] in git(project.work, "show", "-s", "--format=%B", "hutch/nearly")
    assert branches(project) == ["hutch/nearly", "main"]
    for word in ("propose", "deliver"):
        again = project.hutch("changes", word, command[1].split()[-1])
        assert again.returncode == 0
        assert again.stdout.startswith(f"{change['id']}  hutch/nearly  Nearly\n")
    assert branches(project) == ["hutch/nearly", "main"]
    assert project.hutch("resume").returncode == 2


def test_work_of_a_stopped_run_is_delivered_on_request(project: Project) -> None:
    assert project.run("--max-turns", "1").returncode == 5
    done = project.hutch("changes", "propose")
    assert (done.returncode, branches(project)) == (0, ["hutch/mend-add", "main"])
    assert "The tests were not run on this." in project.hutch("changes", "show").stdout


def test_a_limit_exits_with_5_and_the_run_can_be_resumed(project: Project) -> None:
    ran = project.run("--max-turns", "1")
    assert (ran.returncode, branches(project)) == (5, ["main"])
    assert "limit reached: It took 1 turn, which is the limit." in ran.stdout
    assert "1 turn, " in ran.stdout
    # Past usage counts, and the output says how to resume.
    again = project.hutch("resume")
    assert (again.returncode, branches(project)) == (5, ["main"])
    command = re.search(r"Resume with: hutch (resume run_\S+ --max-turns 2)\n", again.stdout)
    assert command, again.stdout
    went_on = project.hutch(*command[1].split())
    assert (went_on.returncode, went_on.stderr) == (0, "")
    assert branches(project) == ["hutch/add-instead-of-subtracting", "main"]


def test_a_rejected_key_exits_with_4(project: Project) -> None:
    class Rejects(BaseHTTPRequestHandler):
        def do_POST(self) -> None:
            body = b'{"error": {"message": "Invalid key.", "code": "invalid_api_key"}}'
            self.send_response(401)
            self.send_header("Content-Length", str(len(body)))
            self.end_headers()
            self.wfile.write(body)

    with ThreadingHTTPServer(("127.0.0.1", 0), Rejects) as server:
        threading.Thread(target=server.serve_forever).start()
        url = f"http://127.0.0.1:{server.server_address[1]}/v1"
        named = {"HUTCH_MODELS__OPENAI_COMPATIBLE_BASE_URL": url, "OPENAI_COMPATIBLE_API_KEY": "wrong-key-1"}
        ran = project.hutch("run", "Mend add", "--model", "openai-compatible:m", **named)
        server.shutdown()
    said = "does not accept the key from the environment variable OPENAI_COMPATIBLE_API_KEY: Invalid key."
    assert said in " ".join(ran.stdout.split()), ran.stdout + ran.stderr
    assert ran.returncode == exit_codes.DENIED


def test_max_cost_uses_the_users_prices(project: Project) -> None:
    priced = f"{project.cassette(*FIXES)}=1000000/1000000/1000000"
    ran = project.run("--max-cost", "2", HUTCH_MODELS__PRICES=priced)
    assert ran.returncode == 5
    assert re.search(r"limit reached: It cost \$\d+\.\d\d; the limit is \$2\.00\.", ran.stdout)
    assert re.search(r"Resume with: hutch resume run_\S+ --max-cost 4\n", ran.stdout)


def test_max_cost_is_refused_without_a_price(project: Project) -> None:
    unknown = ("--model", "openai-compatible:unknown")
    words = (
        "The price of openai-compatible:unknown is unknown, so its cost cannot be limited. Set its price in"
    )
    nobody = {
        "HUTCH_MODELS__OPENAI_COMPATIBLE_BASE_URL": "http://127.0.0.1:9/v1",
        "HUTCH_MODELS__ATTEMPTS": "1",
    }
    ran = project.run("--max-cost", "2", *unknown, **nobody)
    assert ran.returncode == 2 and "starts with" not in ran.stdout
    assert words in ran.stderr and "limit tokens" in ran.stderr
    # Where only the persona says so, it is a warning.
    own = project.place / "home/personas/poor.md"
    own.parent.mkdir(parents=True)
    own.write_text("---\nlimits: {cost_usd: 1}\n---\nBe brief.")
    ran = project.run("--persona", "poor", *unknown, **nobody)
    assert (ran.returncode, f"warning: {words}" in ran.stdout) == (6, True)


def test_the_model_of_a_persona_counts_and_the_option_overrides_it(project: Project) -> None:
    own = project.place / "home/personas/brief.md"
    own.parent.mkdir(parents=True, exist_ok=True)
    own.write_text(f"---\nmodel: {project.cassette({'text': 'As the persona says.'})}\n---\nBe brief.\n")
    ran = project.hutch("run", "Look", "--persona", "brief", "--no-pr")
    assert "(named by the persona brief)" in ran.stdout and "As the persona says." in ran.stdout
    ran = project.run("--persona", "brief", "--no-pr", replies=({"text": "As the option says."},))
    assert "(requested explicitly)" in ran.stdout and "As the option says." in ran.stdout


def test_limits_can_be_raised_up_to_those_of_the_persona(project: Project) -> None:
    endless = ({"calls": [call("bash", command="date +%N")], "times": 101},)
    ran = project.run("--json", "--max-turns", "200", replies=endless)
    assert lines(ran.stdout)[-1]["turns"] == 101
    end = lines(project.run("--json", replies=endless).stdout)[-1]
    assert (end["outcome"], end["turns"]) == ("limit_reached", 100)
    assert end["resume_hint"].endswith(" --max-turns 200")
    own = project.place / "home/personas/small.md"
    own.parent.mkdir()
    own.write_text("---\nlimits: {turns: 1}\n---\nBe brief.")
    ran = project.run("--persona", "small", "--max-turns", "200")
    assert ran.returncode == 5
    assert "Raise limits.turns of the persona 'small', then resume with: hutch resume run_" in ran.stdout


@pytest.mark.parametrize(
    ("words", "says"),
    [
        (("--model", "nonsense"), "nonsense"),
        (("--model", "scripted:/nonexistent.json"), "/nonexistent.json"),
        (("--persona", "nobody"), "nobody"),
        (("--model", "scripted:/etc/passwd"), "The cassette /etc/passwd is "),
        (("--record", "/nonexistent/x"), "/nonexistent"),
        (("--repo", "/nonexistent"), "/nonexistent"),
        (("--revision", "no-such-branch"), "no-such-branch"),
        (("--max-turns", "0"), "--max-turns"),
        (("--timeout", "-1"), "--timeout"),
        (("--max-cost", "-1"), "--max-cost"),
    ],
)
def test_invalid_options_exit_with_2(project: Project, words: tuple[str, ...], says: str) -> None:
    ran = project.run(*words)
    assert ran.returncode == 2 and "starts with" not in ran.stdout
    assert says in ran.stderr
    assert "Traceback" not in ran.stderr
    assert project.hutch("sessions", "list", "--json").stdout == ""


# --- the prompt ---


def test_the_reason_why_tests_did_not_run_is_in_the_summary_once(project: Project) -> None:
    ran = project.run(HUTCH_TESTS__COMMAND="python3 -m nosuchmodule")
    assert ran.returncode == exit_codes.NO, ran.stderr
    summary = ran.stdout.partition("tests failing: ")[2]
    assert summary.count("No module named nosuchmodule") == 1, ran.stdout
    assert "No branch was created because the tests fail. " in summary


def test_a_retry_of_the_model_is_shown_with_its_reason(project: Project) -> None:
    fails = {"fault": {"status": 529}}
    result = r"cassette\.json is overloaded \(529\); retrying in 1 s \(attempt 2 of 6\)\."
    ran = project.run(replies=(fails, *FIXES))
    assert ran.returncode == 0 and re.search(result, ran.stdout), ran.stdout
    ran = project.run("--json", replies=(fails, *FIXES))
    (shown,) = [each for each in lines(ran.stdout) if "retrying" in str(each.get("text"))]
    assert shown["type"] == "progress" and re.search(result, shown["text"])
    (replied, _) = [
        each for each in lines(ran.stdout) if each.get("event", {}).get("type") == "model.replied"
    ]
    assert replied["event"]["attempts"] == 2


def test_errors_before_a_run_are_json(project: Project) -> None:
    for words in (("run", "Mend add", "--repo", "nowhere"), ("resume", "run_nowhere")):
        result = project.hutch(*words, "--json")
        assert (result.returncode, result.stdout) == (2, "")
        assert json.loads(result.stderr)["error"]["code"] == "not_found"


def test_a_prompt_from_standard_input(project: Project) -> None:
    model = project.cassette({"text": "Read."})
    ran = project.hutch("run", "-", "--model", model, "--json", stdin="Mend add\nand größe")
    started = [each["event"] for each in lines(ran.stdout) if each["type"] == "event"]
    assert [each["prompt"] for each in started if each["type"] == "run.started"] == ["Mend add\nand größe"]


@pytest.mark.parametrize(("prompt", "stdin"), [("", "x"), (" \n", "x"), ("-", ""), ("-", " \n ")])
def test_an_empty_prompt(project: Project, prompt: str, stdin: str) -> None:
    ran = project.hutch("run", prompt, "--model", project.cassette(*FIXES), stdin=stdin)
    assert (ran.returncode, ran.stdout) == (2, "")
    assert "The prompt is empty" in ran.stderr


# --- recording ---


def test_a_recording_replays_the_same_run(project: Project) -> None:
    tape = project.place / "tape.json"
    assert project.run("--record", str(tape), "--no-pr").returncode == 0
    again = project.hutch("run", "Mend add", "--model", f"scripted:{tape}")
    assert (again.returncode, branches(project)) == (0, ["hutch/add-instead-of-subtracting", "main"])


# --- interruption ---


def interrupted(
    project: Project,
    number: signal.Signals,
    *words: str,
    replies: Sequence[dict[str, object]] = SLOW,
    command: Sequence[str] = ("run", "Mend add"),
) -> tuple[int, str, str]:
    """A run that gets a signal in the middle of a command."""
    process = Forked(
        [HUTCH, *command, "--model", project.cassette(*replies), *words],
        cwd=project.work,
        env=project.environment(),
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )
    assert process.stdout
    before = ""
    while "sleep 600" not in before:
        line = process.stdout.readline()
        assert line, "it ended before"
        before += line
    process.send_signal(number)
    out, err = process.communicate(timeout=DEADLINE_S)
    return process.returncode, before + out, err


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM, signal.SIGHUP])
def test_an_interrupted_run_can_be_resumed_as_printed(project: Project, number: signal.Signals) -> None:
    code, _, said = interrupted(project, number)
    found = re.fullmatch(
        r"hutch: stopped; nothing was delivered\. Resume with: hutch resume (run_\S+)\n", said
    )
    assert found, said
    assert (code, branches(project)) == (130, ["main"])
    went_on = project.hutch("resume", found[1])
    assert (went_on.returncode, went_on.stderr) == (0, "")
    assert branches(project) == ["hutch/add-instead-of-subtracting", "main"]
    again = project.hutch("resume", found[1])
    assert again.returncode == 2
    assert "has ended (done), and nothing is left to do" in again.stderr


def test_a_resumed_run_is_interrupted_and_resumed_again(project: Project) -> None:
    twice = (SLOW[0], *SLOW)
    interrupted(project, signal.SIGINT, replies=twice)
    code, _, said = interrupted(project, signal.SIGINT, replies=twice, command=("resume", "last"))
    assert code == 130 and "Resume with: hutch resume run_" in said
    log = map(json.loads, project.hutch("log", "last", "--json").stdout.splitlines())
    ends = [each["event"]["outcome"] for each in log if each["event"]["type"] == "run.ended"]
    assert ends == ["cancelled", "cancelled"]
    went_on = project.hutch("resume", "last")
    assert (went_on.returncode, branches(project)) == (0, ["hutch/add-instead-of-subtracting", "main"])


def test_an_active_run_is_not_resumed(project: Project) -> None:
    with Forked(
        [HUTCH, "run", "Wait", "--model", project.cassette(*SLOW)],
        cwd=project.work,
        env=project.environment(),
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        text=True,
    ) as process:
        assert process.stdout is not None
        assert "Wait for it.\n" in iter(process.stdout.readline, "")
        refused = project.hutch("resume", "last")
        assert refused.returncode == 2 and "is running already" in refused.stderr
        process.send_signal(signal.SIGINT)
        process.communicate(timeout=DEADLINE_S)
    assert project.hutch("resume", "last", "--model", project.cassette(*FIXES)).returncode == 0


def test_a_resumed_run_keeps_its_options(project: Project) -> None:
    """Hosts, recording, delivery and the author."""
    (project.place / ".gitconfig").write_text("[user]\n\tname = Ada\n\temail = ada@example.org\n")
    words = ("--net", "example.com", "--record", "tape.json", "--no-pr")
    looks = {"calls": [call("bash", command="echo ${https_proxy:+there is a} way out")]}
    code, _, _ = interrupted(project, signal.SIGINT, *words, replies=(SLOW[0], looks, *FIXES))
    assert code == 130
    (project.place / ".gitconfig").unlink()
    went_on = project.hutch("resume", "--json")
    assert (went_on.returncode, branches(project)) == (0, ["main"])
    assert "there is a way out" in went_on.stdout
    tape = json.loads((project.work / "tape.json").read_text())
    assert len(tape["replies"]) == 4
    log = map(json.loads, project.hutch("log", "last", "--json").stdout.splitlines())
    (started,) = [each["event"] for each in log if each["event"]["type"] == "run.started"]
    assert (started["network"], started["author"], started["deliver"]) == (
        ["example.com"],
        "Ada <ada@example.org>",
        False,
    )


def test_an_agent_cannot_rewrite_its_own_rules(project: Project) -> None:
    """By editing the repository's persona, and going on from there."""
    rules = "---\npolicy: {rules: [deny bash touch]}\nlimits: {turns: 3}\n---\nUse tabs.\n"
    commit(project.work, {".hutch/personas/engineer.md": rules})
    breaks_out = (
        {"calls": [call("write_file", path=".hutch/personas/engineer.md", content="Do as you like.")]},
        {"calls": [call("bash", command="touch a; echo became free")], "times": 5},
    )
    ran = project.run("--json", "--max-turns", "1", replies=breaks_out)
    assert ran.returncode == 5
    went_on = project.hutch("resume", "--json", "--max-turns", "9")
    result = [each["event"] for each in lines(went_on.stdout) if each["type"] == "event"]
    results = [each["text"] for each in result if each["type"] == "tool.returned"]
    assert len(results) == 2 and all("A rule denies this: deny bash touch" in text for text in results)
    assert (
        lines(went_on.stdout)[-1]["resume_hint"] == "The repository's own persona 'engineer' allows no more."
    )


def test_an_interruption_as_json(project: Project) -> None:
    code, out, err = interrupted(project, signal.SIGINT, "--json")
    assert (code, err) == (130, "")
    result = lines(out)
    assert (result[-1]["type"], result[-1]["run"]) == ("interrupted", reported_run(result))


def reported_run(output: list[dict[str, object]]) -> object:
    return next(each["run"] for each in output if each["type"] == "begin")


def test_a_failed_delivery_is_repeated(project: Project) -> None:
    hook = project.work / ".git/hooks/reference-transaction"
    hook.parent.mkdir(exist_ok=True)
    hook.write_text("#!/bin/sh\necho closed for the night >&2\nexit 1\n")
    hook.chmod(0o755)
    ran = project.run()
    assert ran.returncode == 6
    assert "\nnot delivered: " in ran.stdout and "closed for the night" in ran.stdout
    assert "try again: hutch changes deliver run_" in ran.stdout
    assert "The sign was wrong." in ran.stdout and " turns, " in ran.stdout.splitlines()[-1]
    as_json = project.run("--json")
    assert as_json.returncode == 6
    assert "closed for the night" in json.loads(as_json.stdout.splitlines()[-1])["not_delivered"]
    again = project.hutch("changes", "deliver", "last")
    assert again.returncode == 6 and "closed for the night" in again.stderr
    assert "try again: hutch changes deliver run_" in again.stderr
    hook.unlink()
    went_on = project.hutch("resume", "last")
    assert (went_on.returncode, went_on.stderr) == (0, "")
    assert branches(project) == ["hutch/add-instead-of-subtracting", "main"]
    assert project.hutch("resume", "last").returncode == 2
    assert len(branches(project)) == 2


def test_a_run_killed_after_creating_its_branch_is_delivered_once(project: Project) -> None:
    """The repository has the branch, Hutch has no change: going on ends in one of each."""
    hook, reached = project.work / ".git/hooks/reference-transaction", project.work / ".git/reached"
    hook.parent.mkdir(exist_ok=True)
    hook.write_text(
        "#!/bin/sh\ncat > /dev/null\n[ $1 = committed ] && touch .git/reached && sleep 600\nexit 0\n"
    )
    hook.chmod(0o755)
    words = [HUTCH, "run", "Mend add", "--model", project.cassette(*FIXES)]
    process = Forked(words, cwd=project.work, env=project.environment(), stdout=subprocess.DEVNULL)
    deadline = time.monotonic() + DEADLINE_S
    while not reached.exists():
        assert process.poll() is None and time.monotonic() < deadline
        time.sleep(0.01)
    process.kill()
    process.wait()
    hook.unlink()
    assert branches(project) == ["hutch/add-instead-of-subtracting", "main"]
    assert project.hutch("changes", "list", "--json").stdout == ""
    time.sleep(1.1)  # so that a clock in the commit would show
    went_on = project.hutch("resume")
    assert (went_on.returncode, went_on.stderr) == (0, "")
    assert branches(project) == ["hutch/add-instead-of-subtracting", "main"]
    (change,) = map(json.loads, project.hutch("changes", "list", "--json").stdout.splitlines())
    assert git(project.work, "rev-parse", change["branch"]) == change["commit"]
    assert change["tests"] == "1 passed"


@pytest.mark.parametrize("name", ["last", "run_nothing", "ses_nothing", "x"])
def test_a_missing_run_is_reported(project: Project, name: str) -> None:
    ran = project.hutch("resume", name)
    assert ran.returncode == 2
    assert f"There is no run '{name}'" in ran.stderr


# --- questions on a terminal ---


class Person:
    """A user at a terminal who has typed `hutch run …`."""

    def __init__(self, project: Project, *words: str) -> None:
        self.master, slave = pty.openpty()
        termios.tcsetwinsize(self.master, (30, 110))
        self.shown = ""
        self.process = Forked(
            ["setsid", "-c", HUTCH, "run", *words],
            cwd=project.work,
            env=project.environment(),
            stdin=slave,
            stdout=slave,
            stderr=slave,
        )
        os.close(slave)

    def see(self, pattern: str) -> None:
        deadline = time.monotonic() + DEADLINE_S
        while not re.search(pattern, self.shown, re.S):
            assert time.monotonic() < deadline and self.poll(), f"{pattern} is not in {self.shown!r}"

    def type(self, text: str) -> None:
        os.write(self.master, text.encode())

    def poll(self) -> bool:
        """Read the available output; return whether there may be more."""
        if select.select([self.master], [], [], 0.1)[0]:
            try:
                self.shown += os.read(self.master, 65536).decode(errors="replace")
            except OSError:  # the other end is closed
                return False
        return True

    def leave(self) -> int:
        deadline = time.monotonic() + DEADLINE_S
        while self.poll():
            assert time.monotonic() < deadline, f"still there: {self.shown!r}"
        return self.process.wait(DEADLINE_S)


@contextmanager
def person(project: Project, *replies: dict[str, object], persona: str = "pair") -> Iterator[Person]:
    opened = Person(project, "Go", "--persona", persona, "--model", project.cassette(*replies))
    try:
        yield opened
    finally:
        if opened.process.poll() is None:
            opened.process.kill()
            opened.process.wait()
        os.close(opened.master)


QUESTION = r"Allow .*bash: .*really.*\[y\]es .*\[n\]o > "


@pytest.mark.parametrize(("answer", "runs"), [("y", True), ("n", False), ("no, why", False), ("s", True)])
def test_a_command_waits_for_a_yes(project: Project, answer: str, runs: bool) -> None:
    with person(project, *BASH) as somebody:
        somebody.see(QUESTION)
        assert "really-42" not in somebody.shown
        somebody.type(f"{answer}\r")
        assert somebody.leave() == 0
        assert ("really-42" in somebody.shown) == runs


def test_a_yes_for_the_session_is_asked_for_once(project: Project) -> None:
    with person(project, BASH[0], *BASH) as somebody:
        somebody.see(QUESTION)
        somebody.type("s\r")
        assert somebody.leave() == 0
        assert somebody.shown.count("Allow ") == 1
        assert len(re.findall(r"  really-42", somebody.shown)) == 2


def test_always_outlasts_the_run_until_it_is_withdrawn(project: Project) -> None:
    def needs_approval(answer: str) -> bool:
        with person(project, *BASH) as somebody:
            somebody.see(f"{QUESTION}|really-42")
            first = "Allow " in somebody.shown
            if first:
                assert "session and always allow: bash printf" in somebody.shown
                somebody.type(f"{answer}\r")
            assert somebody.leave() == 0
            assert "really-42" in somebody.shown
            return first

    assert (needs_approval("a\ralways"), needs_approval("always")) == (True, False)
    (kept,) = project.hutch("approvals", "list").stdout.splitlines()
    assert project.hutch("approvals", "rm", *kept.split()).returncode == 0
    assert project.hutch("approvals", "list").stdout == ""
    assert project.hutch("approvals", "rm", *kept.split()).returncode == 2
    assert project.hutch("approvals", "rm").returncode == 2
    assert needs_approval("y")


def test_ctrl_c_at_a_question_ends_the_run(project: Project) -> None:
    with person(project, *BASH) as somebody:
        somebody.see(QUESTION)
        somebody.type("\x03")
        assert somebody.leave() == 130
        assert "hutch resume run_" in somebody.shown


def test_a_message_that_the_agent_did_not_get_is_named_at_the_end(project: Project) -> None:
    waits = {"calls": [call("bash", command="echo ready-$((40 + 2)); sleep 600", timeout_s=600)]}
    with person(project, waits, persona="engineer") as somebody:
        somebody.see("ready-42")
        somebody.type("be quick\r")
        somebody.see("queued: .*be quick")
        somebody.type("\x03")
        assert somebody.leave() == 130
        assert "hutch: the agent did not get your message: be quick" in somebody.shown


def test_the_end_of_input_at_a_question_stops_the_run(project: Project) -> None:
    with person(project, *BASH) as somebody:
        somebody.see(QUESTION)
        somebody.type("\x04")
        assert somebody.leave() == 130
        assert "really-42" not in somebody.shown


def test_a_question_of_the_agent_can_be_answered(project: Project) -> None:
    asks = {"calls": [call("ask_user", question="Which colour?")]}
    received = {"when": {"contains": "bläue"}, "text": "So be it."}
    with person(project, asks, received) as somebody:
        somebody.see(r"the agent asks: .*Which colour\?.*answer: ")
        somebody.type("bläue\r")
        assert somebody.leave() == 0
        assert "So be it." in somebody.shown


def test_a_patch_is_in_colour_on_a_terminal(project: Project) -> None:
    with person(project, *FIXES, persona="engineer") as somebody:
        assert somebody.leave() == 0
        assert "\x1b[32m+    return a + b\x1b[0m" in somebody.shown


def test_without_a_terminal_approvals_are_denied(project: Project) -> None:
    ran = project.run("--persona", "pair", "--json", replies=BASH)
    assert ran.returncode == 0
    results = [each["event"] for each in lines(ran.stdout) if each["type"] == "event"]
    refused = [each for each in results if each["type"] == "tool.returned"]
    assert [each["ok"] for each in refused] == [False]
    assert "really-42" not in json.dumps(refused)


def test_uncommitted_changes_become_a_separate_commit(project: Project) -> None:
    commit(project.work, {"notes.txt": "old\n"})
    (project.work / "notes.txt").write_text("mine\n")
    (project.work / "new.txt").write_text("new\n")
    assert project.run("--uncommitted").returncode == 0
    shown = git(project.work, "log", "--format=%s", "--name-only", "main..hutch/add-instead-of-subtracting")
    assert shown.split("\n") == [
        *("Add instead of subtracting", "", "adding.py"),
        *("Uncommitted work at the start", "", "new.txt", "notes.txt"),
    ]


def test_uncommitted_changes_are_included_on_request(project: Project) -> None:
    commit(project.work, {"notes.txt": "old\n"})
    (project.work / "notes.txt").write_text("my own words\n")
    reads = ({"calls": [call("read_file", path="notes.txt")]}, {"text": "Read."})
    assert "my own words" not in project.run("--no-pr", replies=reads).stdout
    assert "my own words" in project.run("--no-pr", "--uncommitted", replies=reads).stdout


# --- the source ---


@pytest.mark.parametrize("more", [(), ("--plain-directory",)])
@pytest.mark.parametrize("repository", ["/etc", "/", "~"])
def test_system_and_home_directories_are_refused(
    project: Project, repository: str, more: tuple[str, ...]
) -> None:
    ran = project.run("--repo", repository, *more)
    assert ran.returncode == exit_codes.DENIED and "Name the directory of a project" in ran.stderr


def test_sessions_of_runs_are_in_the_list_of_logs_and_in_the_list_of_sessions(project: Project) -> None:
    """Without a server, `hutch sessions list` reads this machine's own sessions."""
    assert (
        project.hutch("run", "Fix the sum", "--model", project.cassette(*FIXES)).returncode == exit_codes.OK
    )
    logged = json.loads(project.hutch("log", "--json").stdout)
    listed = json.loads(project.hutch("sessions", "list", "--json").stdout)
    assert logged["session"] == listed["id"]
    assert (logged["purpose"], logged["repository"], logged["state"]) == (
        "Fix the sum",
        str(project.work),
        "ended",
    )
    row = project.hutch("log").stdout.splitlines()[1]
    assert (row.split()[0], row.split()[-4:]) == (listed["id"][-6:], ["work", "Fix", "the", "sum"])
    assert project.hutch("sessions", "list").stdout.splitlines()[1].endswith("Fix the sum")
    assert project.hutch("sessions", "list", "--state", "running").stdout == ""


def test_a_change_to_a_detached_head_has_no_command_that_merges_it(project: Project) -> None:
    git(project.work, "checkout", "-q", "--detach")
    ran = project.run()
    assert ran.returncode == exit_codes.OK, ran.stderr
    assert "\nreview it: hutch changes diff chg_" in ran.stdout and "merge it" not in ran.stdout


def test_work_on_a_directory_without_git_can_be_applied_to_it(project: Project) -> None:
    shutil.rmtree(project.work / ".git")
    ran = project.run("--plain-directory")
    assert ran.returncode == exit_codes.OK, ran.stderr
    assert (project.work / "adding.py").read_text().endswith("a - b\n")
    found = re.search(r"^apply it: hutch (.*)$", ran.stdout, re.M)
    assert found, ran.stdout
    subprocess.run(f"{HUTCH} {found[1]}", shell=True, check=True, env=project.environment(), cwd="/")
    assert (project.work / "adding.py").read_text().endswith("a + b\n")


@pytest.mark.parametrize("count", [1, 5, 12])
def test_a_reader_that_leaves_ends_the_run_without_a_message(project: Project, count: int) -> None:
    """As in `hutch run … | head`."""
    words = ["run", "Mend add", "--model", project.cassette(*FIXES)]
    with subprocess.Popen(
        [HUTCH, *words],
        cwd=project.work,
        env=project.environment(),
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
    ) as process:
        assert process.stdout is not None and process.stderr is not None
        read = [process.stdout.readline() for _ in range(count)]
        process.stdout.close()
        errors = process.stderr.read()
        code = process.wait(DEADLINE_S)
    assert (code, errors) == (exit_codes.BROKEN_PIPE, b"") and all(read)


# --- tries ---


def test_the_best_of_several_tries_is_delivered_with_a_table_of_why(project: Project) -> None:
    right = project.cassette(*FIXES)
    wrong = project.place / "wrong.json"
    wrong.write_text(json.dumps({"replies": BREAKS}))
    words = ("--tries", "2", "--try-model", f"scripted:{wrong}", "--try-model", right, "--check", "true")
    ran = project.hutch("run", "Mend add", *words, "--no-early-stop")
    assert ran.returncode == 0, (ran.stdout, ran.stderr)
    table = [line for line in ran.stdout.splitlines() if re.match(r"\*?\s+h\d ", line)]
    assert [line.split()[:2] for line in table] == [["h1", "tests"], ["*", "h2"]], ran.stdout
    assert branches(project) == ["hutch/add-instead-of-subtracting", "main"]
    shown = project.hutch("sessions", "list")
    assert len(re.findall("└─ ", shown.stdout)) >= 2, shown.stdout


def test_options_of_tries_need_tries(project: Project) -> None:
    ran = project.run("--check", "true")
    assert ran.returncode == 2 and "go with --tries N" in ran.stderr


def test_a_recorded_run_is_run_again_with_another_model_and_compared(project: Project) -> None:
    assert project.run("--no-pr", replies=BREAKS).returncode == 3
    right = project.cassette(*FIXES)
    ran = project.hutch("rerun", "last", "--from", "1", "--model", right)
    assert ran.returncode == 0, (ran.stdout, ran.stderr)
    rows = {line[:10].strip(): line[10:].split("  ") for line in ran.stdout.splitlines()}
    assert [each.strip() for each in rows["outcome"] if each.strip()] == ["tests failing", "done"], ran.stdout
    assert branches(project) == ["main"]
