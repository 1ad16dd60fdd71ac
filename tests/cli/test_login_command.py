"""`hutch login` and `logout`, against a real server from another installation."""

import json
import stat
from collections.abc import Iterator

import pytest

from hutch.cli import exit_codes
from hutch.cli.command_table import COMMANDS
from hutch.cli.local_only_notice import FOLLOWING, LOCAL, WITHOUT_DATA
from tests.cli.attached_users import ServerHome, new_server_home, running_server
from tests.cli.hutch_up_process import TIMEOUT_S
from tests.forked_command import HUTCH, run

PASSWORD = "correct horse battery staple 9"


@pytest.fixture(scope="module")
def server() -> Iterator[ServerHome]:
    with running_server() as opened:
        assert opened.hutch("users", "add", "ada").returncode == exit_codes.OK
        set_ = opened.say("users", "password", "ada", stdin=f"{PASSWORD}\n{PASSWORD}\n")
        assert set_.returncode == exit_codes.OK, set_.stderr
        yield opened


@pytest.fixture
def elsewhere() -> Iterator[ServerHome]:
    with new_server_home() as made:
        yield made


@pytest.fixture
def url(server: ServerHome) -> str:
    return str(server.json("status")["url"])


def test_a_token_is_read_from_standard_input_and_stored_privately(
    server: ServerHome, elsewhere: ServerHome, url: str
) -> None:
    token = server.json("tokens", "create", "--user", "ada")["token"]
    done = elsewhere.say("login", url, stdin=f"{token}\n")
    assert done.returncode == exit_codes.OK, done.stderr
    assert done.stdout == f"Logged in to {url} as ada (read, write). To log out: hutch logout\n"
    kept = elsewhere.place / "home" / "login.json"
    assert stat.S_IMODE(kept.stat().st_mode) == 0o600
    made = elsewhere.json("sessions", "new", "--purpose", "from afar")
    assert server.json("sessions", "show", made["id"])["purpose"] == "from afar"
    out = elsewhere.hutch("logout", "--json")
    assert json.loads(out.stdout) == {"url": url, "revoked": False, "problem": None}
    assert not kept.exists()
    assert elsewhere.hutch("sessions", "list").returncode == exit_codes.UNAVAILABLE
    again = elsewhere.hutch("sessions", "list", HUTCH_SERVER=url, HUTCH_TOKEN=token)
    assert again.returncode == exit_codes.OK


def test_a_password_creates_a_token_that_logout_revokes(
    server: ServerHome, elsewhere: ServerHome, url: str
) -> None:
    with elsewhere.visitor("login", url, "--name", "ada") as ada:
        ada.see("Password: ")
        ada.type(f"{PASSWORD}\r")
        ada.see(f"Logged in to {url} as ada")
        assert ada.leave() == exit_codes.OK
        assert PASSWORD.encode() not in ada.shown
    token = json.loads((elsewhere.place / "home" / "login.json").read_text())["token"]
    listed = server.hutch("tokens", "list", "--user", "ada", "--json").stdout.splitlines()
    assert any(json.loads(line)["name"].startswith("hutch login on ") for line in listed)
    assert elsewhere.hutch("sessions", "list").returncode == exit_codes.OK
    assert elsewhere.hutch("logout").stdout == f"Logged out of {url}.\n"
    refused = elsewhere.hutch("sessions", "list", HUTCH_SERVER=url, HUTCH_TOKEN=token)
    assert refused.returncode == exit_codes.DENIED


def test_a_failed_login_stores_nothing(elsewhere: ServerHome, url: str) -> None:
    wrong = elsewhere.say("login", url, stdin="hutch_nonsense\n")
    assert wrong.returncode == exit_codes.DENIED and "rejects this token" in wrong.stderr
    wrong = elsewhere.say("login", url, "--name", "ada", "--json", stdin="wrong\n")
    assert wrong.returncode == exit_codes.DENIED
    assert json.loads(wrong.stderr)["error"]["code"] == "unauthenticated"
    assert elsewhere.say("login", url, stdin="\n").returncode == exit_codes.BAD_REQUEST
    assert elsewhere.say("login", "ftp://x", stdin="x\n").returncode == exit_codes.BAD_REQUEST
    assert not (elsewhere.place / "home" / "login.json").exists()
    assert elsewhere.hutch("logout").stdout == "You are not logged in anywhere.\n"


def test_an_unencrypted_server_causes_a_warning(elsewhere: ServerHome) -> None:
    done = run(
        [HUTCH, "login", "http://192.0.2.1:9"],
        env=elsewhere.environment(),
        input="\n",
        capture_output=True,
        text=True,
        timeout=TIMEOUT_S,
    )
    assert "WARNING: http://192.0.2.1:9 is not encrypted" in done.stderr


LOCAL_COMMANDS = (
    ["changes", "list"],
    ["changes", "show"],
    ["log"],
    ["log", "last"],
    ["export", "last"],
    ["receipt", "last"],
    ["users", "link"],
    ["tokens", "create"],
    ["approvals", "list"],
    ["workspace", "list"],
    ["config", "secrets"],
    ["prune", "--days", "3", "--dry-run"],
    ["sessions", "prune", "--dry-run"],
    ["resume", "last"],
    ["down"],
    ["logs"],
    ["doctor"],
    ["policy", "list"],
    ["mcp", "serve"],
)


def test_status_follows_the_login(server: ServerHome, elsewhere: ServerHome, url: str) -> None:
    of_owner = server.json("tokens", "create")["token"]
    of_ada = server.json("tokens", "create", "--user", "ada")["token"]
    assert elsewhere.say("login", url, stdin=f"{of_owner}\n").returncode == exit_codes.OK
    seen = elsewhere.json("status")
    assert (seen["running"], seen["url"]) == (True, url) and seen["version"] == server.json("status")[
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


def test_lists_of_users_tokens_and_usage_follow_the_login(
    server: ServerHome, elsewhere: ServerHome, url: str
) -> None:
    of_owner = server.json("tokens", "create", "--name", "elsewhere")["token"]
    run = server.new({"text": "Hello."}, prompt="Greet")
    server.until(run, "idle")
    assert elsewhere.say("login", url, stdin=f"{of_owner}\n").returncode == exit_codes.OK
    try:
        for words in (["users", "list"], ["tokens", "list"], ["usage"], ["usage", "--by", "user"]):
            here, there = server.hutch(*words, "--json"), elsewhere.hutch(*words, "--json")
            assert (there.returncode, there.stderr) == (
                exit_codes.OK,
                "",
            ) and there.stdout == here.stdout != ""
            assert elsewhere.hutch(*words).stdout == server.hutch(*words).stdout
            local = elsewhere.hutch(*words, "--local", "--json")
            assert (local.returncode, local.stdout) == (exit_codes.OK, "")
        unknown = elsewhere.hutch("tokens", "list", "--user", "nobody")
        assert unknown.returncode != exit_codes.OK and "'nobody'" in unknown.stderr
    finally:
        elsewhere.hutch("logout")


@pytest.mark.parametrize("words", LOCAL_COMMANDS, ids=" ".join)
def test_a_command_on_this_machines_data_says_so_after_a_login(
    elsewhere: ServerHome, words: list[str]
) -> None:
    kept = elsewhere.place / "home" / "login.json"
    kept.parent.mkdir(exist_ok=True)
    kept.write_text(json.dumps({"url": "https://hutch.example.com", "token": "x"}))
    name = " ".join(words[:2]) if words[0] == "sessions" else words[0]
    text = f"hutch: `hutch {name}` uses this machine; you are logged in to https://hutch.example.com.\n"
    assert elsewhere.hutch(*words).stderr.startswith(text)
    kept.unlink()
    assert "uses this machine" not in elsewhere.hutch(*words).stderr


def test_a_change_of_the_server_is_found_there(elsewhere: ServerHome) -> None:
    words = ("changes", "diff", "chg_01m7p5gxwckx3ywrzwj5s1f8em")
    there = "review and merge it there: https://hutch.example.com/c/chg_01m7p5gxwckx3ywrzwj5s1f8em"
    ran = elsewhere.hutch(*words, HUTCH_SERVER="https://hutch.example.com")
    assert ran.returncode == exit_codes.BAD_REQUEST and there in ran.stderr
    assert "there:" not in elsewhere.hutch(*words).stderr


def test_commands_on_this_machine_exist_and_help_has_no_notice(elsewhere: ServerHome) -> None:
    assert sorted(command.name for command in COMMANDS) == sorted([*LOCAL, *FOLLOWING, *WITHOUT_DATA])
    shown = elsewhere.hutch("changes", "--help", HUTCH_SERVER="https://hutch.example.com")
    assert (shown.returncode, shown.stderr) == (exit_codes.OK, "")
    shown = elsewhere.hutch("log", HUTCH_SERVER="https://hutch.example.com")
    assert "`hutch log` uses this machine; HUTCH_SERVER names https://hutch.example.com." in shown.stderr


@pytest.mark.parametrize(
    ("words", "hint"),
    [
        (["shell", "--", "true"], "To work there: hutch shell SESSION"),
        (["test"], "To test there: hutch test -s SESSION"),
    ],
)
def test_a_command_that_can_also_work_there_says_how(
    elsewhere: ServerHome, words: list[str], hint: str
) -> None:
    named = {"HUTCH_SERVER": "https://hutch.example.com"}
    text = (
        f"hutch: `hutch {words[0]}` uses this machine; HUTCH_SERVER names https://hutch.example.com. {hint}\n"
    )
    assert elsewhere.hutch(*words, **named).stderr.startswith(text)
    there = [words[0], "-s", "3vbaeh", *words[1:]]
    assert "uses this machine" not in elsewhere.hutch(*there, HUTCH_SERVER="http://127.0.0.1:9").stderr


def test_a_login_to_the_own_server_causes_no_notice(server: ServerHome, url: str) -> None:
    token = server.json("tokens", "create")["token"]
    assert server.hutch("log", HUTCH_SERVER=url, HUTCH_TOKEN=token).stderr.count("uses this machine") == 0
    assert server.json("status", HUTCH_SERVER=url, HUTCH_TOKEN=token)["pid"]
