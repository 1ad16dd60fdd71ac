"""`hutch login` and `logout`, against a real server from another installation."""

import json
import stat
from collections.abc import Iterator

import pytest

from hutch.cli import exit_codes
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
