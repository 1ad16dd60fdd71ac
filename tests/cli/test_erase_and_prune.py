"""`hutch log`, `export`, `verify`, `receipt`, `erase` and `prune`, run as a person would."""

import asyncio
import json
import os
import shutil
import subprocess
import time
from pathlib import Path

import pytest

from hutch.domain.events import (
    Event,
    MessageSent,
    SessionEnded,
    SessionOpened,
    TerminalEnded,
    TerminalOpened,
    TerminalPrinted,
)
from hutch.domain.ids import SessionId, new_session_id
from hutch.store.event_log import open_log
from tests.deadline import DEADLINE_S
from tests.forked_command import HUTCH, Forked, run
from tests.store.direct_sql import sql


def hutch(home: Path, *arguments: str, **more: str) -> subprocess.CompletedProcess[str]:
    environment = {"HUTCH_HOME": str(home), "PATH": os.defpath, **more}
    return run(
        [HUTCH, *arguments],
        env=environment,
        cwd=home,
        capture_output=True,
        text=True,
        timeout=DEADLINE_S,
        stdin=subprocess.DEVNULL,
    )


def record(home: Path, *events: Event) -> SessionId:
    """A session with these events, written straight into the log."""
    session_id = new_session_id()

    async def write() -> None:
        data = home / "data"
        async with open_log(data / "hutch.db", data / "blobs", data / "keys" / "signing.pem") as log:
            await log.append(session_id, [SessionOpened(purpose="test"), *events])

    asyncio.run(write())
    return session_id


def message_event(text: str) -> MessageSent:
    return MessageSent(author="agent", text=text)


ENDED = SessionEnded(outcome="done")


def test_an_empty_installation_says_so(tmp_path: Path) -> None:
    listed = hutch(tmp_path, "log")
    assert (listed.returncode, listed.stdout) == (0, "")
    assert listed.stderr == "There are no sessions yet. `hutch run` creates one.\n"
    assert list(tmp_path.iterdir()) == []


def test_sessions_are_listed(tmp_path: Path) -> None:
    older, newer = record(tmp_path, ENDED), record(tmp_path)
    head, *lines = hutch(tmp_path, "log").stdout.splitlines()
    assert head.split() == ["ID", "STATE", "AGE", "EVENTS", "REPOSITORY", "PURPOSE"]
    cells = [line.split() for line in lines]
    assert [(row[0], row[1], row[3], row[-1]) for row in cells] == [
        (newer[-6:], "open", "1", "test"),
        (older[-6:], "ended", "2", "test"),
    ]
    rows = [json.loads(line) for line in hutch(tmp_path, "log", "--json").stdout.splitlines()]
    assert [(row["session"], row["purpose"], row["events"], row["ended"]) for row in rows] == [
        (newer, "test", 1, False),
        (older, "test", 2, True),
    ]


def test_a_log_is_shown_line_by_line(tmp_path: Path) -> None:
    session_id = record(tmp_path, message_event("hello"), ENDED)
    for name in (session_id, "last"):
        shown = hutch(tmp_path, "log", name)
        assert shown.returncode == 0
        assert [line.split()[3] for line in shown.stdout.splitlines()] == [
            "session.opened",
            "message.sent",
            "session.ended",
        ]
    assert [
        line.split()[0] for line in hutch(tmp_path, "log", "last", "--after", "1").stdout.splitlines()
    ] == ["2", "3"]


def test_a_lost_signing_key_is_not_replaced_silently(tmp_path: Path) -> None:
    key = tmp_path / "data" / "keys" / "signing.pem"
    record(tmp_path, ENDED)
    before = hutch(tmp_path, "config", "fingerprint").stdout.strip()
    assert "signing_key" not in hutch(tmp_path, "receipt", "last").stderr
    key.unlink()
    result = hutch(tmp_path, "receipt", "last")
    after = hutch(tmp_path, "config", "fingerprint").stdout.strip()
    assert result.returncode == 0 and before != after
    assert "store.signing_key_was_missing" in result.stderr
    assert before in result.stderr and after in result.stderr and str(key) in result.stderr
    assert "signing_key" not in hutch(tmp_path, "receipt", "last").stderr


def test_a_log_as_json_contains_whole_events(tmp_path: Path) -> None:
    record(tmp_path, message_event("line\nbreak"))
    lines = hutch(tmp_path, "log", "last", "--json").stdout.splitlines()
    assert json.loads(lines[1])["event"] == {
        "type": "message.sent",
        "v": 1,
        "author": "agent",
        "text": "line\nbreak",
        "by": "",
        "input": 0,
    }


def test_an_event_cannot_control_the_terminal(tmp_path: Path) -> None:
    record(tmp_path, message_event("\x1b]0;owned\x07\x1b[2J\nforged line\u202e"))
    shown = hutch(tmp_path, "log", "last").stdout
    assert len(shown.splitlines()) == 2
    assert not any(sign in shown for sign in "\x1b\x07\u202e")


def test_a_quoted_text_cannot_control_the_terminal(tmp_path: Path) -> None:
    refused = hutch(tmp_path, "verify", "\x1b[31mevil\x07.zip")
    assert refused.returncode == 2
    assert "evil" in refused.stderr and not any(sign in refused.stderr for sign in "\x1b\x07")


def test_a_log_is_followed_until_the_session_ends(tmp_path: Path) -> None:
    session_id = record(tmp_path, message_event("before"))

    async def go_on() -> None:
        data = tmp_path / "data"
        async with open_log(data / "hutch.db", data / "blobs", data / "keys" / "signing.pem") as log:
            await log.append(session_id, [message_event("after"), ENDED])

    with Forked(
        [HUTCH, "log", session_id, "--follow"],
        env={"HUTCH_HOME": str(tmp_path)},
        stdout=subprocess.PIPE,
        text=True,
    ) as follower:
        assert follower.stdout
        first = [follower.stdout.readline(), follower.stdout.readline()]
        asyncio.run(go_on())
        rest = follower.stdout.read()
    assert follower.returncode == 0
    assert len(first) + len(rest.splitlines()) == 4


def test_output_into_a_pipe_that_closes_is_no_error(tmp_path: Path) -> None:
    record(tmp_path, *(message_event("x" * 1000) for _ in range(500)))
    script = f'set -o pipefail; "{HUTCH}" log last | head -n 1'
    done = subprocess.run(
        ["bash", "-c", script],
        env={"HUTCH_HOME": str(tmp_path), "PATH": os.defpath},
        capture_output=True,
        text=True,
    )
    assert (len(done.stdout.splitlines()), done.stderr) == (1, "")


def test_following_stops_when_the_reader_closes_the_pipe(tmp_path: Path) -> None:
    record(tmp_path, message_event("the session stays open, and silent"))
    environment = {"HUTCH_HOME": str(tmp_path), "PATH": os.defpath}
    follower = Forked([HUTCH, "log", "last", "--follow"], env=environment, stdout=subprocess.PIPE)
    assert follower.stdout
    follower.stdout.readline()
    follower.stdout.close()
    assert follower.wait(timeout=DEADLINE_S) == 141


@pytest.mark.parametrize(
    ("options", "message"),
    [
        (["--follow"], "Name a session"),
        (["--after", "3"], "Name a session"),
        (["last", "--after", "x"], "'--after': it must be a whole number. For help: hutch log --help"),
        (["last", "--after", "9"], "has only 1 events; there is none after 9"),
        (["last", "--after", str(2**80)], "there is none after"),
    ],
)
def test_wrong_options_of_log_are_explained(tmp_path: Path, options: list[str], message: str) -> None:
    record(tmp_path)
    refused = hutch(tmp_path, "log", *options)
    assert (refused.returncode, refused.stdout) == (2, "")
    assert message in refused.stderr


def test_output_that_cannot_be_written_is_not_called_a_bug(tmp_path: Path) -> None:
    record(tmp_path, message_event("hello"))
    environment = {"HUTCH_HOME": str(tmp_path), "PATH": os.defpath}
    full = subprocess.run(
        ["sh", "-c", f'"{HUTCH}" log last > /dev/full'], env=environment, capture_output=True, text=True
    )
    assert (full.returncode, "No space left" in full.stderr, "bug" in full.stderr) == (6, True, False)
    closed = subprocess.run(["sh", "-c", f'"{HUTCH}" log last >&-'], env=environment, capture_output=True)
    assert (closed.returncode, closed.stderr) == (0, b"")
    for place in ("/nowhere/receipt.json", "/tmp"):
        refused = hutch(tmp_path, "receipt", "last", "-o", place)
        assert (refused.returncode, "bug" in refused.stderr) in ((6, False), (2, False))


def test_only_a_regular_file_is_replaced(tmp_path: Path) -> None:
    record(tmp_path, message_event("hello"))
    (tmp_path / "target").write_text("mine")
    (tmp_path / "link").symlink_to("target")
    os.mkfifo(tmp_path / "pipe")
    for name in ("link", "pipe"):
        for format in ("zip", "jsonl"):
            words = ("export", "last", "-o", str(tmp_path / name), "--force", "--format", format)
            refused = hutch(tmp_path, *words)
            assert (refused.returncode, "is not a regular file" in refused.stderr) == (2, True)
    assert (tmp_path / "link").is_symlink() and (tmp_path / "pipe").is_fifo()


@pytest.mark.parametrize("command", [["log"], ["export"], ["receipt"], ["erase", "--all", "--yes"]])
def test_a_wrong_session_is_named(tmp_path: Path, command: list[str]) -> None:
    stranger = new_session_id()
    assert "There are no sessions yet" in hutch(tmp_path, *command, "last").stderr
    record(tmp_path)
    refused = hutch(tmp_path, *command, stranger)
    assert (refused.returncode, refused.stdout) == (2, "")
    assert f"There is no session {stranger}" in refused.stderr
    assert "is not a session id" in hutch(tmp_path, *command, "../../etc").stderr


def test_a_prefix_or_suffix_names_a_session(tmp_path: Path) -> None:
    first, second = record(tmp_path, message_event("one")), record(tmp_path, message_event("two"))
    for name in (first[-6:], first[4:-3] + first[-3:], first):
        shown = hutch(tmp_path, "log", name, "--json")
        assert {json.loads(line)["session"] for line in shown.stdout.splitlines()} == {first}, shown.stderr
    many = hutch(tmp_path, "log", first[:8])
    assert (many.returncode, many.stdout) == (2, "")
    assert f"'{first[:8]}' matches 2 sessions: {second}, {first}. Give more of the id." in many.stderr
    none = hutch(tmp_path, "log", "zzzzzz")
    assert (none.returncode, "There is no session 'zzzzzz'" in none.stderr) == (2, True)
    assert hutch(tmp_path, "receipt", second[-8:]).returncode == 0


def test_a_record_is_exported_and_verified(tmp_path: Path) -> None:
    session_id = record(tmp_path, message_event("hello"), message_event("x" * 50_000), ENDED)
    done = hutch(tmp_path, "export", session_id, "-o", "record.zip", "--json")
    assert json.loads(done.stdout)["events"] == 4
    verified = hutch(tmp_path, "verify", "record.zip", "--json")
    report = json.loads(verified.stdout)
    assert (verified.returncode, report["ok"], report["events"], report["ended"]) == (0, True, 4, True)
    (key,) = report["keys"]
    assert hutch(tmp_path, "config", "fingerprint").stdout == f"{key}\n"
    assert hutch(tmp_path, "verify", "record.zip", "--key", key).returncode == 0
    foreign = hutch(tmp_path, "verify", "record.zip", "--key", "0" * 64)
    assert foreign.returncode == 3 and foreign.stdout.startswith("BAD: ")


def test_an_export_does_not_replace_a_file_unasked(tmp_path: Path) -> None:
    record(tmp_path, message_event("hello"))
    (tmp_path / "mine.zip").write_text("precious")
    refused = hutch(tmp_path, "export", "last", "-o", "mine.zip")
    assert refused.returncode == 2 and "mine.zip" in refused.stderr
    assert (tmp_path / "mine.zip").read_text() == "precious"
    assert "is a directory" in hutch(tmp_path, "export", "last", "-o", "data", "--force").stderr
    assert "Name a file" in hutch(tmp_path, "export", "last", "-o", "-").stderr
    assert hutch(tmp_path, "export", "last", "-o", "mine.zip", "--force").returncode == 0


def test_a_rolled_back_log_does_not_match_its_receipt(tmp_path: Path) -> None:
    record(tmp_path, message_event("one"))
    shutil.copytree(tmp_path / "data", tmp_path / "old")
    session_id = json.loads(hutch(tmp_path, "log", "--json").stdout)["session"]

    async def go_on() -> None:
        data = tmp_path / "data"
        async with open_log(data / "hutch.db", data / "blobs", data / "keys" / "signing.pem") as log:
            await log.append(session_id, [message_event("two")])

    asyncio.run(go_on())
    assert hutch(tmp_path, "receipt", "last", "-o", "receipt.json").returncode == 0
    hutch(tmp_path, "export", "last", "-o", "whole.zip")
    assert "exists" in hutch(tmp_path, "receipt", "last", "-o", "receipt.json").stderr
    agreed = hutch(tmp_path, "verify", "whole.zip", "--receipt", "receipt.json")
    assert agreed.returncode == 0 and "matches 1 receipt\n" in agreed.stdout
    shutil.rmtree(tmp_path / "data")
    (tmp_path / "old").rename(tmp_path / "data")
    hutch(tmp_path, "export", "last", "-o", "cut.zip")
    assert hutch(tmp_path, "verify", "cut.zip").returncode == 0
    cut = hutch(tmp_path, "verify", "cut.zip", "--receipt", "receipt.json")
    assert cut.returncode == 3 and "receipt" in cut.stdout


def test_erased_events_show_as_erased_and_the_record_stays_valid(tmp_path: Path) -> None:
    record(tmp_path, message_event("my password is hunter2"), message_event("fine"), ENDED)
    assert "Choose the events" in hutch(tmp_path, "erase", "last").stderr
    assert "Use --yes" in hutch(tmp_path, "erase", "last", "--seq", "2").stderr
    assert "is not an event number" in hutch(tmp_path, "erase", "last", "--seq", "2-", "--yes").stderr
    assert "is reversed" in hutch(tmp_path, "erase", "last", "--seq", "3-2", "--yes").stderr
    assert "exclude each other" in hutch(tmp_path, "erase", "last", "--seq", "2", "--all", "--yes").stderr
    assert "has no event 9; it has 1 to 4" in hutch(tmp_path, "erase", "last", "--seq", "9", "--yes").stderr
    done = hutch(tmp_path, "erase", "last", "--seq", "2", "--reason", "a password", "--yes")
    assert (done.returncode, done.stderr) == (0, "1 payload erased.\n")
    shown = hutch(tmp_path, "log", "last").stdout
    assert "hunter2" not in shown and ": a password)" in shown and "fine" in shown
    row = json.loads(hutch(tmp_path, "log", "last", "--json").stdout.splitlines()[1])["event"]
    assert (row["type"], row["erased"], row["reason"]) == ("message.sent", True, "a password")
    hutch(tmp_path, "export", "last", "-o", "record.zip")
    assert b"hunter2" not in (tmp_path / "record.zip").read_bytes()
    report = json.loads(hutch(tmp_path, "verify", "record.zip", "--json").stdout)
    assert (report["ok"], report["erased"]) == (True, 1)


def test_prune_erases_ended_sessions_past_their_time(tmp_path: Path) -> None:
    ended, open_ = (
        record(tmp_path, message_event("old"), ENDED),
        record(tmp_path, message_event("still open")),
    )
    time.sleep(0.01)
    assert "Set retention.days" in hutch(tmp_path, "prune", "--yes").stderr
    assert hutch(tmp_path, "prune", "--yes", HUTCH_RETENTION__DAYS="30").stdout == ""
    would = hutch(tmp_path, "prune", "--days", "0", "--dry-run")
    assert (would.stdout, would.stderr) == (f"{ended}  3 payloads\n", "1 session would be erased.\n")
    did = hutch(tmp_path, "prune", "--days", "0", "--yes", "--json")
    assert json.loads(did.stdout) == {"session": ended, "payloads": 3, "dry_run": False}
    assert hutch(tmp_path, "prune", "--days", "0", "--yes").stdout == ""
    assert "still open" in hutch(tmp_path, "log", open_).stdout
    assert "old" not in hutch(tmp_path, "log", ended).stdout


def test_a_log_that_events_were_deleted_from_is_shown_with_a_warning_and_saved(tmp_path: Path) -> None:
    session_id = record(tmp_path, *(message_event(str(number)) for number in range(4)))
    for deleting, left in (("seq = 3", [1, 2, 4, 5]), ("seq >= 3", [1, 2]), ("seq > 0", [])):
        sql(tmp_path / "data" / "hutch.db", f"DELETE FROM events WHERE {deleting}")
        shown = hutch(tmp_path, "log", "last", "--json")
        assert [json.loads(line)["seq"] for line in shown.stdout.splitlines()] == left
        assert shown.returncode == 3
        assert f"warning: The log of session {session_id} is damaged. Event" in shown.stderr
        followed = hutch(tmp_path, "log", "last", "--follow")
        assert followed.returncode == 3 and "missing from the database" in followed.stderr
        saved = hutch(tmp_path, "export", "last", "-o", "left.zip", "--force")
        assert saved.returncode == 3 and "damaged" in saved.stderr and "Traceback" not in saved.stderr
        verified = hutch(tmp_path, "verify", "left.zip")
        assert verified.returncode == 3 and verified.stdout.startswith("BAD: ")


def seqs(done: subprocess.CompletedProcess[str]) -> list[int]:
    assert done.returncode == 0, done.stderr
    return [json.loads(line)["seq"] for line in done.stdout.splitlines()]


def test_the_log_is_searched_by_text_kind_author_and_time(tmp_path: Path) -> None:
    by_user = MessageSent(author="user", text="a RED door", by="usr_x")
    session = record(tmp_path, message_event("Red fox"), by_user, message_event("blue"), ENDED)

    def found(*options: str) -> list[int]:
        return seqs(hutch(tmp_path, "log", session, "--json", *options))

    assert found("--grep", "red") == [2, 3]
    assert found("--grep", "red", "--newest-first") == [3, 2]
    assert found("-n", "1", "-r") == [5]
    assert found("--kind", "session.") == found("--kind", "session") == [1, 5]
    assert found("--kind", "session.ended", "--kind", "message.sent") == [2, 3, 4, 5]
    assert found("--by", "agent") == [2, 4]
    assert found("--by", "agent", "--grep", "red", "--since", "1h") == [2]
    assert found("--after", "2", "--grep", "red") == found("-r", "--after", "2", "--grep", "red") == [3]
    assert found("--until", "2020-01-01") == []
    assert found("--follow", "--grep", "RED", "--limit", "2") == [2, 3]
    lines = hutch(tmp_path, "log", session, "--grep", "fox").stdout.splitlines()
    assert len(lines) == 1 and "Red fox" in lines[0]
    # The line as it is shown counts, too.
    assert found("--grep", "message.sent      agent: red FOX") == [2] == found("--grep", "agent: red")
    assert found("--grep", "SESSION.ended") == found("--follow", "--grep", "session.ended") == [5]
    nothing = hutch(tmp_path, "log", session, "--grep", "green")
    assert (nothing.returncode, nothing.stdout, nothing.stderr) == (0, "", "No event matches.\n")


@pytest.mark.parametrize(
    ("options", "complaint"),
    [
        (["--kind", "comand"], "There are no events of the kind 'comand'"),
        (["--by", "nobody"], "There is no user 'nobody'"),
        (["--since", "7"], "'7' is not a time"),
        (["--until", "tomorrow"], "'tomorrow' is not a time"),
        (["--follow", "-r"], "--follow shows the oldest event first"),
    ],
)
def test_a_mistyped_search_is_refused(tmp_path: Path, options: list[str], complaint: str) -> None:
    refused = hutch(tmp_path, "log", record(tmp_path, ENDED), *options)
    assert refused.returncode == 2
    assert complaint in refused.stderr


def test_a_search_needs_a_session(tmp_path: Path) -> None:
    refused = hutch(tmp_path, "log", "--grep", "x")
    assert (refused.returncode, refused.stdout) == (2, "")
    assert "Name a session" in refused.stderr


def test_a_log_is_exported_as_json_lines(tmp_path: Path) -> None:
    by_user = MessageSent(author="user", text="hello", by="usr_x")
    session = record(tmp_path, message_event("x" * 20_000), by_user)
    printed = hutch(tmp_path, "export", session, "--format", "jsonl")
    assert (printed.returncode, printed.stderr) == (0, "")
    lines = [json.loads(line) for line in printed.stdout.splitlines()]
    assert [(line["seq"], line["author"], line["event"]["type"]) for line in lines] == [
        (1, "hutch", "session.opened"),
        (2, "agent", "message.sent"),
        (3, "usr_x", "message.sent"),
    ]
    assert all(list(line) == ["seq", "at_ms", "hash", "author", "event"] for line in lines)
    written = hutch(tmp_path, "export", "last", "--format", "jsonl", "-o", "log.jsonl")
    assert (written.returncode, written.stderr) == (0, "3 events written to log.jsonl.\n")
    assert (tmp_path / "log.jsonl").read_text() == printed.stdout
    described = hutch(tmp_path, "export", "last", "--format", "jsonl", "-o", "log.jsonl", "--force", "--json")
    assert json.loads(described.stdout)["events"] == 3


def test_erased_events_stay_erased_in_json_lines(tmp_path: Path) -> None:
    session = record(tmp_path, message_event("private"), ENDED)
    assert hutch(tmp_path, "erase", session, "--seq", "2", "--reason", "asked", "-y").returncode == 0
    lines = hutch(tmp_path, "export", session, "--format", "jsonl").stdout.splitlines()
    assert "private" not in "".join(lines)
    erased = json.loads(lines[1])
    assert (erased["author"], erased["event"]["erased"], erased["event"]["reason"]) == ("", True, "asked")


def test_an_export_that_fails_leaves_no_file(tmp_path: Path) -> None:
    session = record(
        tmp_path, *(message_event("x" * 6000) for _ in range(300)), message_event("x" * 20_000), ENDED
    )
    place = tmp_path / "place"
    place.mkdir()
    blob = next(path for path in (tmp_path / "data").rglob("*") if path.is_file() and len(path.name) == 64)
    blob.unlink()  # the log is damaged after its first page
    failed = hutch(tmp_path, "export", session, "--format", "jsonl", "-o", str(place / "log.jsonl"))
    assert failed.returncode != 0
    assert list(place.iterdir()) == []


@pytest.mark.parametrize(
    ("options", "complaint"),
    [
        (["--format", "xml"], "'xml' is not a format. There are: zip, jsonl, asciicast."),
        (["--format", "jsonl", "--json"], "--json describes the written file"),
        (["--format", "jsonl", "-o", "data"], "data is a directory"),
        (["--format", "jsonl", "-o", "there.jsonl"], "there.jsonl exists"),
        (["--format", "jsonl", "-o", "no/where.jsonl"], "The folder no does not exist"),
    ],
)
def test_an_export_that_cannot_be_written_is_refused(
    tmp_path: Path, options: list[str], complaint: str
) -> None:
    session = record(tmp_path, ENDED)
    (tmp_path / "there.jsonl").write_text("kept")
    refused = hutch(tmp_path, "export", session, *options)
    assert (refused.returncode, refused.stdout) == (2, "")
    assert complaint in refused.stderr
    assert (tmp_path / "there.jsonl").read_text() == "kept"


def test_a_terminal_is_exported_as_a_recording(tmp_path: Path) -> None:
    name = record(
        tmp_path,
        TerminalOpened(terminal="1", columns=80, rows=24),
        TerminalPrinted(terminal="1", text="$ "),
        TerminalEnded(terminal="1", exit_code=0),
        ENDED,
    )
    written = hutch(tmp_path, "export", "last", "--terminal", "1")
    path = tmp_path / f"{name}-terminal-1.cast"
    assert (written.returncode, written.stdout) == (0, "")
    assert written.stderr == f"Terminal 1 written to {path.name}. Watch it: asciinema play {path.name}\n"
    header, *events = [json.loads(line) for line in path.read_text().splitlines()]
    assert (header["version"], [event[1:] for event in events]) == (3, [["o", "$ "], ["x", "0"]])
    printed = hutch(tmp_path, "export", "last", "--terminal", "1", "--format", "asciicast", "-o", "-")
    assert printed.stdout == path.read_text()
    again = hutch(tmp_path, "export", "last", "--terminal", "1")
    assert (again.returncode, "--force" in again.stderr) == (2, True)
    missing = hutch(tmp_path, "export", "last", "--terminal", "2")
    assert "has no terminal '2'" in missing.stderr
    assert not (tmp_path / f"{name}-terminal-2.cast").exists()
    for options, complaint in (
        (["--format", "asciicast"], "Name it: --terminal 1"),
        (["--format", "jsonl", "--terminal", "1"], "A terminal is not exported as jsonl."),
    ):
        assert complaint in hutch(tmp_path, "export", "last", *options).stderr
