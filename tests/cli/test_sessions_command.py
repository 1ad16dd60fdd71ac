"""`hutch sessions` with a real server: made, listed, spoken with, ended, by people and by scripts."""

import json
from collections.abc import Iterator
from pathlib import Path

import pytest

from hutch.cli import exit_codes
from hutch.cli.render.session_rows import age, table
from tests.cli.running import call
from tests.cli.visiting import House, new_house, open_house
from tests.forge.repositories import make_repository

WRITES = {"text": "I write.", "calls": [call("write_file", path="a.txt", content="one\n")]}
FINISHES = {"calls": [call("finish", title="Done", summary="It is written.")]}
SLEEPS = {"text": "I wait.", "calls": [call("bash", command="sleep 60")]}


@pytest.fixture(scope="module")
def house() -> Iterator[House]:
    with open_house() as opened:
        yield opened


def test_waiting_for_a_prompt_exits_with_its_outcome(house: House) -> None:
    model = house.model(WRITES, FINISHES)
    ran = house.hutch("sessions", "new", "--model", model, "--prompt", "Write a file", "--wait")
    assert ran.returncode == exit_codes.OK, ran.stderr
    assert "you: Write a file\n" in ran.stdout
    assert "I write.\nwrite_file path=a.txt content=one ⏎\n" in ran.stdout
    assert "\x1b" not in ran.stdout
    failing = house.model({"text": "No.", "calls": [call("bash", command="true")], "times": 1000})
    words = ("sessions", "new", "--model", failing, "--prompt", "x", "--max-turns", "2", "--wait", "--json")
    limited = house.hutch(*words)
    assert limited.returncode == exit_codes.LIMIT_REACHED
    entries = [json.loads(line) for line in limited.stdout.splitlines()]
    assert [each["seq"] for each in entries] == list(range(1, len(entries) + 1))
    assert entries[-1]["event"]["outcome"] == "limit_reached"


def test_a_session_is_named_by_a_part_of_its_id_or_last(house: House) -> None:
    first = house.new({"text": "Hello."}, purpose="the first")
    last = house.new({"text": "Hello."}, purpose="the last")
    for name in (first, first[-6:], first[4:]):
        assert house.json("sessions", "show", name)["id"] == first
    assert house.json("sessions", "show", "last")["id"] == last
    many = house.hutch("sessions", "show", first[:6])
    assert many.returncode == exit_codes.BAD_REQUEST
    assert " sessions: ses_01" in many.stderr
    for unknown in ("zzzzzz", "../../me", "x"):
        assert house.hutch("sessions", "show", unknown).returncode == exit_codes.BAD_REQUEST


def test_sessions_are_listed_as_text_and_json(house: House) -> None:
    house.new({"text": "Hello."}, purpose="needle \x1b[31m in hay")
    result = house.hutch("sessions", "list", "--search", "needle")
    head, line = result.stdout.splitlines()
    assert head.split() == ["ID", "STATE", "AGE", "OWNER", "PURPOSE"]
    assert line.endswith("needle \\x1b[31m in hay")
    listed = house.hutch("sessions", "list", "--search", "needle", "--json").stdout.splitlines()
    assert [json.loads(line)["purpose"] for line in listed] == ["needle \x1b[31m in hay"]
    assert len(house.hutch("sessions", "list", "--limit", "1", "--json").stdout.splitlines()) == 1
    assert house.hutch("sessions", "list", "--state", "paused").stderr == "No session matches.\n"
    assert house.hutch("sessions", "list", "--state", "sleepy").returncode == exit_codes.BAD_REQUEST


def test_the_life_of_a_session_from_a_script(house: House) -> None:
    id = house.new(SLEEPS, SLEEPS, {"text": "Well then.", "times": 10}, prompt="Wait")
    house.until(id, "running")
    assert house.json("sessions", "pause", id)["state"] == "paused"
    assert house.hutch("sessions", "resume", id).returncode == exit_codes.OK
    house.until(id, "running")
    cancelled = house.hutch("sessions", "cancel", id).stdout
    assert cancelled.startswith("Cancelled: the run of 'Wait'. ") and cancelled.endswith(" is idle.\n")
    sent = house.say("sessions", "send", id, "-", "--wait", stdin="Go on")
    assert sent.returncode == exit_codes.OK, sent.stderr
    assert "you: Go on\n" in sent.stdout and "Well then.\n" in sent.stdout
    forked = house.json("sessions", "fork", id)
    assert forked["forked_from"].startswith(f"{id}@")
    assert house.json("sessions", "end", id, "--reason", "enough")["state"] == "ended"
    assert house.json("sessions", "show", id)["reason"] == "enough"
    refused = house.hutch("sessions", "send", id, "more")
    assert refused.returncode == exit_codes.BAD_REQUEST and "has ended" in refused.stderr
    assert house.hutch("sessions", "rm", id).returncode == exit_codes.BAD_REQUEST
    assert house.hutch("sessions", "rm", id, "--yes").returncode == exit_codes.OK
    gone = house.hutch("sessions", "show", id, "--json")
    assert gone.returncode == exit_codes.BAD_REQUEST
    assert json.loads(gone.stderr)["error"]["code"] == "not_found"


def test_a_directory_is_sent_as_an_absolute_path(house: House) -> None:
    repository = house.place / "repository"
    make_repository(repository, {"a.txt": "hello\n"})
    id = house.new({"text": "Hi."}, repo=str(repository))
    found = house.until(id, "idle", "parked")
    assert found["repository"] == str(repository)


def test_attach_prints_json_until_the_session_ends(house: House) -> None:
    id = house.new({"text": "Hello."}, prompt="Greet")
    house.until(id, "idle")
    house.hutch("sessions", "end", id)
    entries = [json.loads(line) for line in house.hutch("attach", id, "--json").stdout.splitlines()]
    assert [each["seq"] for each in entries] == list(range(1, len(entries) + 1))
    assert (entries[0]["event"]["type"], entries[-1]["event"]["type"]) == ("session.opened", "session.ended")
    plain = house.hutch("attach", id)
    assert (plain.returncode, plain.stdout.splitlines()[-1]) == (exit_codes.OK, "the session has ended")


def test_without_a_server_commands_say_how_to_start_one() -> None:
    with new_house() as house:
        result = house.hutch("sessions", "list")
        assert (result.returncode, result.stderr) == (
            exit_codes.UNAVAILABLE,
            "hutch: No server is running here. Start one with `hutch up`, "
            "or use another with `hutch login URL`.\n",
        )
        as_json = house.hutch("attach", "--json")
        assert as_json.returncode == exit_codes.UNAVAILABLE
        assert json.loads(as_json.stderr)["error"]["code"] == "unavailable"


def test_the_server_of_the_environment_is_used_with_its_token(house: House) -> None:
    url = house.json("status")["url"]
    with new_house() as other:
        ran = other.hutch("sessions", "list", "--json", HUTCH_SERVER=url, HUTCH_TOKEN=house.token)
        assert ran.returncode == exit_codes.OK, ran.stderr
        refused = other.hutch("sessions", "list", HUTCH_SERVER=url, HUTCH_TOKEN="hutch_nonsense")
        assert refused.returncode == exit_codes.DENIED


def test_sessions_and_states_are_completed_locally_and_remotely(house: House) -> None:
    id = house.new({"text": "x"}, purpose="to be completed")
    url = house.json("status")["url"]

    def offered(at: House, *words: str, **env: str) -> dict[str, str]:
        result = at.hutch("__complete", *words, **env).stdout.splitlines()
        return dict(line.split("\t") for line in result)

    with new_house() as other:
        afar = {"HUTCH_SERVER": url, "HUTCH_TOKEN": house.token}
        for found in (
            offered(house, "attach", ""),
            offered(house, "sessions", "rm", ""),
            offered(house, "files", "ls", ""),
            offered(other, "diff", "", **afar),
        ):
            assert found[id].endswith(", to be completed")
            assert "last" in found
        assert offered(other, "attach", "", HUTCH_SERVER="http://127.0.0.1:9") == {}
        assert offered(other, "attach", "") == {}
    assert list(offered(house, "sessions", "list", "--state", "pa")) == ["paused", "parked"]


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


def test_a_run_through_the_server_ends_with_its_change(house: House, tmp_path: Path) -> None:
    repository = tmp_path / "repo"
    make_repository(repository, {"a.txt": "zero\n"})
    words = ("run", "Write a file", "--server", "--repo", str(repository), "--pr")
    ran = house.hutch(*words, "--model", house.model(WRITES, FINISHES))
    assert ran.returncode == exit_codes.OK, ran.stderr
    assert "pull request chg_" in ran.stdout
    listed = house.hutch("changes", "list", "--json").stdout.splitlines()
    assert "hutch/done" in [json.loads(line)["branch"] for line in listed]
    refused = house.hutch(*words, "--uncommitted")
    assert refused.returncode == exit_codes.BAD_REQUEST


def test_a_run_on_a_server_without_a_model_fails(house: House) -> None:
    ran = house.hutch("sessions", "new", "--prompt", "Do it", "--wait")
    assert ran.returncode == exit_codes.UNAVAILABLE
    assert "hutch: No model is connected to the server, so nothing was done." in ran.stderr
