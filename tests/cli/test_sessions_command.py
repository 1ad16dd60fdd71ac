"""`hutch sessions` with a real server: create, list, prompt and end sessions, by people and by scripts."""

import json
import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest

from hutch.cli import exit_codes
from hutch.cli.render.session_rows import age, table
from tests.cli.attached_users import ServerHome, new_server_home, running_server
from tests.cli.project_with_failing_test import call
from tests.deadline import DEADLINE_S
from tests.forge.repositories import make_repository
from tests.forked_command import HUTCH, Forked

WRITES = {"text": "I write.", "calls": [call("write_file", path="a.txt", content="one\n")]}
FINISHES = {"calls": [call("finish", title="Done", summary="It is written.")]}
SLEEPS = {"text": "I wait.", "calls": [call("bash", command="sleep 600", timeout_s=600)]}


@pytest.fixture(scope="module")
def server() -> Iterator[ServerHome]:
    with running_server() as opened:
        yield opened


def test_waiting_for_a_prompt_exits_with_its_outcome(server: ServerHome) -> None:
    model = server.model(WRITES, FINISHES)
    ran = server.hutch("sessions", "new", "--model", model, "--prompt", "Write a file", "--wait")
    assert ran.returncode == exit_codes.OK, ran.stderr
    assert "you: Write a file\n" in ran.stdout
    assert "I write.\nwrite_file path=a.txt content=one ⏎\n" in ran.stdout
    assert "\x1b" not in ran.stdout
    failing = server.model({"text": "No.", "calls": [call("bash", command="true")], "times": 1000})
    words = ("sessions", "new", "--model", failing, "--prompt", "x", "--max-turns", "2", "--wait", "--json")
    limited = server.hutch(*words)
    assert limited.returncode == exit_codes.LIMIT_REACHED
    entries = [json.loads(line) for line in limited.stdout.splitlines()]
    assert [each["seq"] for each in entries] == list(range(1, len(entries) + 1))
    assert entries[-1]["event"]["outcome"] == "limit_reached"


def test_a_session_is_named_by_a_part_of_its_id_or_last(server: ServerHome) -> None:
    first = server.new({"text": "Hello."}, purpose="the first")
    last = server.new({"text": "Hello."}, purpose="the last")
    for name in (first, first[-6:], first[4:]):
        assert server.json("sessions", "show", name)["id"] == first
    assert server.json("sessions", "show", "last")["id"] == last
    many = server.hutch("sessions", "show", first[:6])
    assert many.returncode == exit_codes.BAD_REQUEST
    assert " sessions: ses_01" in many.stderr
    for unknown in ("zzzzzz", "../../me", "x"):
        assert server.hutch("sessions", "show", unknown).returncode == exit_codes.BAD_REQUEST


def test_sessions_are_listed_as_text_and_json(server: ServerHome) -> None:
    server.new({"text": "Hello."}, purpose="needle \x1b[31m in hay")
    result = server.hutch("sessions", "list", "--search", "needle")
    head, line = result.stdout.splitlines()
    assert head.split() == ["ID", "STATE", "AGE", "OWNER", "PURPOSE"]
    assert line.endswith("needle \\x1b[31m in hay")
    listed = server.hutch("sessions", "list", "--search", "needle", "--json").stdout.splitlines()
    assert [json.loads(line)["purpose"] for line in listed] == ["needle \x1b[31m in hay"]
    assert len(server.hutch("sessions", "list", "--limit", "1", "--json").stdout.splitlines()) == 1
    assert server.hutch("sessions", "list", "--state", "paused").stderr == "No session matches.\n"
    assert server.hutch("sessions", "list", "--state", "sleepy").returncode == exit_codes.BAD_REQUEST


def test_the_life_of_a_session_from_a_script(server: ServerHome) -> None:
    id = server.new(SLEEPS, SLEEPS, {"text": "Well then.", "times": 10}, prompt="Wait")
    server.until(id, "running")
    assert server.json("sessions", "pause", id)["state"] == "paused"
    assert server.hutch("sessions", "resume", id).returncode == exit_codes.OK
    server.until(id, "running")
    cancelled = server.hutch("sessions", "cancel", id).stdout
    assert cancelled.startswith("Cancelled: the run of 'Wait'. ") and cancelled.endswith(" is idle.\n")
    sent = server.say("sessions", "send", id, "-", "--wait", stdin="Go on")
    assert sent.returncode == exit_codes.OK, sent.stderr
    assert "you: Go on\n" in sent.stdout and "Well then.\n" in sent.stdout
    forked = server.json("sessions", "fork", id)
    assert forked["forked_from"].startswith(f"{id}@")
    assert server.json("sessions", "end", id, "--reason", "enough")["state"] == "ended"
    assert server.json("sessions", "show", id)["reason"] == "enough"
    refused = server.hutch("sessions", "send", id, "more")
    assert refused.returncode == exit_codes.BAD_REQUEST and "has ended" in refused.stderr
    assert server.hutch("sessions", "rm", id).returncode == exit_codes.BAD_REQUEST
    assert server.hutch("sessions", "rm", id, "--yes").returncode == exit_codes.OK
    gone = server.hutch("sessions", "show", id, "--json")
    assert gone.returncode == exit_codes.BAD_REQUEST
    assert json.loads(gone.stderr)["error"]["code"] == "not_found"


def test_a_directory_is_sent_as_an_absolute_path(server: ServerHome) -> None:
    repository = server.place / "repository"
    make_repository(repository, {"a.txt": "hello\n"})
    id = server.new({"text": "Hi."}, repo=str(repository))
    found = server.until(id, "idle", "parked")
    assert found["repository"] == str(repository)


def test_attach_prints_json_until_the_session_ends(server: ServerHome) -> None:
    id = server.new({"text": "Hello."}, prompt="Greet")
    server.until(id, "idle")
    server.hutch("sessions", "end", id)
    entries = [json.loads(line) for line in server.hutch("attach", id, "--json").stdout.splitlines()]
    assert [each["seq"] for each in entries] == list(range(1, len(entries) + 1))
    assert (entries[0]["event"]["type"], entries[-1]["event"]["type"]) == ("session.opened", "session.ended")
    plain = server.hutch("attach", id)
    assert (plain.returncode, plain.stdout.splitlines()[-1]) == (exit_codes.OK, "the session has ended")


def test_attach_without_a_terminal_says_that_an_idle_session_does_nothing(server: ServerHome) -> None:
    id = server.new({"text": "Hello."}, prompt="Greet")
    server.until(id, "idle")
    with Forked(
        [HUTCH, "attach", id],
        cwd=server.place / "work",
        env=server.environment(),
        stdin=subprocess.DEVNULL,
        stdout=subprocess.DEVNULL,
        stderr=subprocess.PIPE,
        text=True,
    ) as attached:
        assert attached.stderr is not None
        assert "The session is idle. Its next events are shown until it ends" in attached.stderr.readline()
        server.hutch("sessions", "end", id)
        assert attached.wait(DEADLINE_S) == exit_codes.OK


def test_a_run_without_a_model_fails(server: ServerHome) -> None:
    made = server.hutch("sessions", "new", "--prompt", "Greet", "--wait", "--json")
    assert made.returncode == exit_codes.UNAVAILABLE
    ended = [json.loads(line)["event"] for line in made.stdout.splitlines()][-1]
    assert (ended["type"], ended["outcome"], ended["code"]) == ("run.ended", "failed", "unavailable")
    assert "No model is connected" in ended["reason"]


def test_without_a_server_commands_say_how_to_start_one() -> None:
    with new_server_home() as server:
        result = server.hutch("sessions", "list")
        assert (result.returncode, result.stderr) == (
            exit_codes.UNAVAILABLE,
            "hutch: No server is running here. Start one with `hutch up`, "
            "or use another with `hutch login URL`.\n",
        )
        as_json = server.hutch("attach", "--json")
        assert as_json.returncode == exit_codes.UNAVAILABLE
        assert json.loads(as_json.stderr)["error"]["code"] == "unavailable"


def test_the_server_of_the_environment_is_used_with_its_token(server: ServerHome) -> None:
    url = server.json("status")["url"]
    with new_server_home() as other:
        ran = other.hutch("sessions", "list", "--json", HUTCH_SERVER=url, HUTCH_TOKEN=server.token)
        assert ran.returncode == exit_codes.OK, ran.stderr
        refused = other.hutch("sessions", "list", HUTCH_SERVER=url, HUTCH_TOKEN="hutch_nonsense")
        assert refused.returncode == exit_codes.DENIED


def test_sessions_and_states_are_completed_locally_and_remotely(server: ServerHome) -> None:
    id = server.new({"text": "x"}, purpose="to be completed")
    url = server.json("status")["url"]

    def offered(at: ServerHome, *words: str, **env: str) -> dict[str, str]:
        result = at.hutch("__complete", *words, **env).stdout.splitlines()
        return dict(line.split("\t") for line in result)

    with new_server_home() as other:
        afar = {"HUTCH_SERVER": url, "HUTCH_TOKEN": server.token}
        for found in (
            offered(server, "attach", ""),
            offered(server, "sessions", "rm", ""),
            offered(server, "files", "ls", ""),
            offered(other, "diff", "", **afar),
        ):
            assert found[id].endswith(", to be completed")
            assert "last" in found
        assert offered(other, "attach", "", HUTCH_SERVER="http://127.0.0.1:9") == {}
        assert offered(other, "attach", "") == {}
    assert list(offered(server, "sessions", "list", "--state", "pa")) == ["paused", "parked"]


@pytest.mark.parametrize(
    ("ago_s", "output"), [(0, "0s"), (59, "59s"), (60, "1m"), (7300, "2h"), (200_000, "2d"), (-5, "0s")]
)
def test_ages(ago_s: int, output: str) -> None:
    assert age(int((1_000_000 - ago_s) * 1000), 1_000_000) == output


def test_a_list_fits_the_terminal() -> None:
    session = {
        "id": "ses_01jd2m4c9k7w6t0q8n5x3vbaeh",
        "state": "queued",
        "queue_position": 12,
        "created_ms": 0,
        "owner": "usr_1",
        "owner_name": "ada",
        "purpose": "漢" * 100,
        "repository": "",
    }
    _, line = table([session], 60)
    assert "vbaeh" in line and "ada" in line and "queued 12" in line and line.endswith("…")


def test_a_run_through_the_server_ends_with_its_change(server: ServerHome, tmp_path: Path) -> None:
    repository = tmp_path / "repo"
    make_repository(repository, {"a.txt": "zero\n"})
    words = ("run", "Write a file", "--server", "--repo", str(repository), "--pr")
    ran = server.hutch(*words, "--model", server.model(WRITES, FINISHES))
    assert ran.returncode == exit_codes.OK, ran.stderr
    assert "pull request chg_" in ran.stdout
    listed = server.hutch("changes", "list", "--json").stdout.splitlines()
    assert "hutch/done" in [json.loads(line)["branch"] for line in listed]
    refused = server.hutch(*words, "--uncommitted")
    assert refused.returncode == exit_codes.BAD_REQUEST


def test_a_run_on_a_server_without_a_model_fails(server: ServerHome) -> None:
    ran = server.hutch("sessions", "new", "--prompt", "Do it", "--wait")
    assert ran.returncode == exit_codes.UNAVAILABLE
    assert "hutch: No model is connected to the server, so nothing was done." in ran.stderr


def test_options_of_an_open_session_are_set(server: ServerHome) -> None:
    id = server.new({"text": "Hello."}, purpose="to change")
    server.until(id, "idle", "parked")
    done = server.hutch("sessions", "set", id, "persona=pair", "memory_bytes=1GiB", "effort=high", "turns=9")
    assert done.returncode == exit_codes.OK, done.stderr
    assert done.stdout.splitlines() == [
        "persona: default → pair",
        "turns: default → 9",
        "memory_bytes: default → 1073741824",
        "effort: default → high",
    ]
    assert "memory_bytes 1073741824 (session)" in server.hutch("sessions", "show", id).stdout
    again = server.hutch("sessions", "set", id, "persona=pair")
    assert again.stdout == "Nothing was changed.\n"
    unset = server.json("sessions", "set", id, "memory_bytes=default", "effort=default")
    assert (unset["resources"]["memory_bytes"], unset["generation"]["effort"]) == (None, None)
    assert "session.changed   persona: default → pair; limits.turns" in server.hutch("log", id).stdout
    for words, said in {
        ("persona=nobody",): "There is no persona 'nobody'",
        ("color=red",): "There is no option 'color'",
        ("memory_bytes=tiny",): "give a size such as 512MiB",
        (): "Missing argument",
    }.items():
        wrong = server.hutch("sessions", "set", id, *words)
        assert wrong.returncode == exit_codes.BAD_REQUEST and said in wrong.stderr, wrong.stderr


def test_limits_and_reply_options_of_a_new_session(server: ServerHome) -> None:
    options = ("--limit", "processes=64", "--temperature", "0.2", "--max-reply-tokens", "900")
    made = server.json("sessions", "new", "--company", "Acme", *options)
    assert (made["company"], made["resources"]["processes"]) == ("Acme", 64)
    assert made["generation"] == {"temperature": 0.2, "max_reply_tokens": 900, "effort": None}
    wrong = server.hutch("sessions", "new", "--effort", "vast")
    assert wrong.returncode == exit_codes.BAD_REQUEST and "choose one of low, medium, high" in wrong.stderr
