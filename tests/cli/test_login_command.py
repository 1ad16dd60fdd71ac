"""`hutch login` and `logout`, against a real server from another installation."""

import json
import stat
from collections.abc import Iterator

import pytest

from hutch.cli import exit_codes
from hutch.cli.command_table import COMMANDS
from hutch.cli.local_only_notice import LOCAL
from tests.cli.upping import PATIENCE_S
from tests.cli.visiting import House, new_house, open_house
from tests.forked import HUTCH, run

PASSWORD = "correct horse battery staple 9"


@pytest.fixture(scope="module")
def house() -> Iterator[House]:
    with open_house() as opened:
        assert opened.hutch("users", "add", "ada").returncode == exit_codes.OK
        set_ = opened.say("users", "password", "ada", stdin=f"{PASSWORD}\n{PASSWORD}\n")
        assert set_.returncode == exit_codes.OK, set_.stderr
        yield opened


@pytest.fixture
def elsewhere() -> Iterator[House]:
    with new_house() as made:
        yield made


@pytest.fixture
def url(house: House) -> str:
    return str(house.json("status")["url"])


def test_a_token_is_read_from_standard_input_and_stored_privately(
    house: House, elsewhere: House, url: str
) -> None:
    token = house.json("tokens", "create", "--user", "ada")["token"]
    done = elsewhere.say("login", url, stdin=f"{token}\n")
    assert done.returncode == exit_codes.OK, done.stderr
    assert done.stdout == f"Logged in to {url} as ada (read, write). To log out: hutch logout\n"
    kept = elsewhere.place / "home" / "login.json"
    assert stat.S_IMODE(kept.stat().st_mode) == 0o600
    made = elsewhere.json("sessions", "new", "--purpose", "from afar")
    assert house.json("sessions", "show", made["id"])["purpose"] == "from afar"
    out = elsewhere.hutch("logout", "--json")
    assert json.loads(out.stdout) == {"url": url, "revoked": False, "problem": None}
    assert not kept.exists()
    assert elsewhere.hutch("sessions", "list").returncode == exit_codes.UNAVAILABLE
    again = elsewhere.hutch("sessions", "list", HUTCH_SERVER=url, HUTCH_TOKEN=token)
    assert again.returncode == exit_codes.OK


def test_a_password_creates_a_token_that_logout_revokes(house: House, elsewhere: House, url: str) -> None:
    with elsewhere.visitor("login", url, "--name", "ada") as ada:
        ada.see("Password: ")
        ada.type(f"{PASSWORD}\r")
        ada.see(f"Logged in to {url} as ada")
        assert ada.leave() == exit_codes.OK
        assert PASSWORD.encode() not in ada.shown
    token = json.loads((elsewhere.place / "home" / "login.json").read_text())["token"]
    listed = house.hutch("tokens", "list", "--user", "ada", "--json").stdout.splitlines()
    assert any(json.loads(line)["name"].startswith("hutch login on ") for line in listed)
    assert elsewhere.hutch("sessions", "list").returncode == exit_codes.OK
    assert elsewhere.hutch("logout").stdout == f"Logged out of {url}.\n"
    refused = elsewhere.hutch("sessions", "list", HUTCH_SERVER=url, HUTCH_TOKEN=token)
    assert refused.returncode == exit_codes.DENIED


def test_a_failed_login_stores_nothing(elsewhere: House, url: str) -> None:
    wrong = elsewhere.say("login", url, stdin="hutch_nonsense\n")
    assert wrong.returncode == exit_codes.DENIED and "rejects this token" in wrong.stderr
    wrong = elsewhere.say("login", url, "--name", "ada", "--json", stdin="wrong\n")
    assert wrong.returncode == exit_codes.DENIED
    assert json.loads(wrong.stderr)["error"]["code"] == "unauthenticated"
    assert elsewhere.say("login", url, stdin="\n").returncode == exit_codes.BAD_REQUEST
    assert elsewhere.say("login", "ftp://x", stdin="x\n").returncode == exit_codes.BAD_REQUEST
    assert not (elsewhere.place / "home" / "login.json").exists()
    assert elsewhere.hutch("logout").stdout == "You are not logged in anywhere.\n"


def test_an_unencrypted_server_causes_a_warning(elsewhere: House) -> None:
    done = run(
        [HUTCH, "login", "http://192.0.2.1:9"],
        env=elsewhere.environment(),
        input="\n",
        capture_output=True,
        text=True,
        timeout=PATIENCE_S,
    )
    assert "WARNING: http://192.0.2.1:9 is not encrypted" in done.stderr


LOCAL_COMMANDS = (
    ["changes", "list"],
    ["changes", "show"],
    ["log"],
    ["log", "last"],
    ["export", "last"],
    ["receipt", "last"],
    ["users", "list"],
    ["tokens", "list"],
    ["usage"],
    ["approvals", "list"],
    ["workspace", "list"],
    ["config", "secrets"],
    ["prune", "--days", "3", "--dry-run"],
    ["sessions", "prune", "--dry-run"],
    ["resume", "last"],
    ["down"],
    ["logs"],
)


def test_status_follows_the_login(house: House, elsewhere: House, url: str) -> None:
    of_owner = house.json("tokens", "create")["token"]
    of_ada = house.json("tokens", "create", "--user", "ada")["token"]
    assert elsewhere.say("login", url, stdin=f"{of_owner}\n").returncode == exit_codes.OK
    seen = elsewhere.json("status")
    assert (seen["running"], seen["url"]) == (True, url) and seen["version"] == house.json("status")[
        "version"
    ]
    assert f"is running at {url} for " in elsewhere.hutch("status").stdout
    assert elsewhere.say("login", url, stdin=f"{of_ada}\n").returncode == exit_codes.OK
    text = f"A server is running at {url}. You are ada; only owners see how busy it is.\n"
    assert elsewhere.hutch("status").stdout == text
    nowhere = elsewhere.hutch("status", HUTCH_SERVER="http://127.0.0.1:9", HUTCH_TOKEN="x")
    assert nowhere.returncode == exit_codes.NO and "http://127.0.0.1:9 does not respond" in nowhere.stderr
    rejected = elsewhere.hutch("status", HUTCH_SERVER=url, HUTCH_TOKEN="x")
    assert rejected.returncode == exit_codes.DENIED, rejected.stderr


@pytest.mark.parametrize("words", LOCAL_COMMANDS, ids=" ".join)
def test_a_command_on_this_machines_data_says_so_after_a_login(elsewhere: House, words: list[str]) -> None:
    kept = elsewhere.place / "home" / "login.json"
    kept.parent.mkdir(exist_ok=True)
    kept.write_text(json.dumps({"url": "https://hutch.example.com", "token": "x"}))
    name = " ".join(words[:2]) if words[0] == "sessions" else words[0]
    text = f"hutch: `hutch {name}` uses this machine; you are logged in to https://hutch.example.com.\n"
    assert elsewhere.hutch(*words).stderr.startswith(text)
    kept.unlink()
    assert "uses this machine" not in elsewhere.hutch(*words).stderr


def test_commands_on_this_machine_exist_and_help_has_no_notice(elsewhere: House) -> None:
    assert {command.name for command in COMMANDS} >= LOCAL
    shown = elsewhere.hutch("changes", "--help", HUTCH_SERVER="https://hutch.example.com")
    assert (shown.returncode, shown.stderr) == (exit_codes.OK, "")
    shown = elsewhere.hutch("log", HUTCH_SERVER="https://hutch.example.com")
    assert "`hutch log` uses this machine; HUTCH_SERVER names https://hutch.example.com." in shown.stderr


def test_a_login_to_the_own_server_causes_no_notice(house: House, url: str) -> None:
    token = house.json("tokens", "create")["token"]
    assert house.hutch("log", HUTCH_SERVER=url, HUTCH_TOKEN=token).stderr.count("uses this machine") == 0
    assert house.json("status", HUTCH_SERVER=url, HUTCH_TOKEN=token)["pid"]
