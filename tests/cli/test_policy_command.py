"""`hutch policy`, and the commands of `hutch users` for invitations, preferences, keys and erasure."""

import json
from pathlib import Path

import pytest

from tests.cli.test_tokens_command import hutch

SETTINGS = """
[categories]
payments = ["github.com/acme/pay-*"]

[[policy]]
name = "payments-ask"
categories = ["payments"]
rules = ["ask bash", "deny bash git push"]
approvers = ["owner"]

[[policy]]
name = "candidates-offline"
roles = ["candidate"]
network = []
"""


@pytest.fixture
def home(tmp_path: Path) -> Path:
    home = tmp_path / "home"
    home.mkdir()
    (home / "config.toml").write_text(SETTINGS)
    return home


def test_a_call_is_explained(home: Path) -> None:
    asked = ("policy", "check", "--role", "member", "--repo", "git@github.com:acme/pay-api.git")
    denied = hutch(home, *asked, "bash", "ls; git push").stdout
    assert denied.startswith("deny: deny bash git push, policy payments-ask in ")
    found = json.loads(hutch(home, *asked, "--json", "bash ls").stdout)
    assert (found["action"], found["rule"], found["approvers"]) == ("ask", "ask bash", ["owner"])
    assert "allow: default" in hutch(home, "policy", "check", "bash ls").stdout
    host = hutch(home, "policy", "check", "--role", "candidate", "network example.com").stdout
    assert host.startswith("deny: network = [], policy candidates-offline in ")
    assert "not a role" in hutch(home, "policy", "check", "--role", "boss", "bash", code=2).stderr


def test_policies_are_added_listed_and_removed(home: Path) -> None:
    hutch(home, "policy", "add", "night", "--role", "member", "--rule", "deny bash git push", "--no-network")
    listed = json.loads(hutch(home, "policy", "list", "--json").stdout)
    assert [each["name"] for each in listed] == ["payments-ask", "candidates-offline", "night"]
    assert (listed[2]["network"], listed[2]["source"]) == ([], "the database")
    assert "no network" in hutch(home, "policy", "list").stdout
    assert "already" in hutch(home, "policy", "add", "night", "--no-network", code=2).stderr
    assert "restricts nothing" in hutch(home, "policy", "add", "void", code=2).stderr
    assert "Remove it there" in hutch(home, "policy", "rm", "payments-ask", code=2).stderr
    hutch(home, "policy", "rm", "night")
    assert "no policy" in hutch(home, "policy", "rm", "night", code=2).stderr


@pytest.mark.parametrize(
    ("wrong", "problem"),
    [
        ('[[policy]]\nname = "x"\nroles = ["boss"]', "In policy x: `roles.0` must be"),
        ('[[policy]]\nname = "x"\nrules = ["perhaps bash"]', "`rules.0` should be a rule"),
        ('[[policy]]\nrules = ["ask bash"]', "In policy 1: `name` is missing"),
        ('[policy]\nname = "x"', "list of tables"),
        ('categories = ["x"]', "table of the settings file"),
        ('[[policy]]\nname = "x"\ncategories = ["none"]\nrules = ["ask bash"]', "no value of categories"),
        (
            '[[policy]]\nname = "x"\nnetwork = []\n[[policy]]\nname = "x"\nnetwork = []',
            "two policies named x",
        ),
    ],
)
def test_a_wrong_policy_in_the_settings_is_named(home: Path, wrong: str, problem: str) -> None:
    (home / "config.toml").write_text(wrong)
    assert problem in hutch(home, "policy", "list", code=2).stderr


def test_a_settings_file_with_policies_is_shown_as_toml(home: Path) -> None:
    shown = hutch(home, "config", "show").stdout
    (home / "config.toml").write_text("\n".join(line for line in shown.splitlines() if "policy" in line[:8]))
    assert "categories" in hutch(home, "policy", "list", code=2).stderr  # its category is in the other line
    both = [line for line in shown.splitlines() if line.startswith(("policy", "categories"))]
    (home / "config.toml").write_text("\n".join(both))
    assert "payments-ask" in hutch(home, "policy", "list").stdout


def test_preferences_and_keys_without_a_server(home: Path) -> None:
    hutch(home, "users", "preferences", "--theme", "dark", "--persona", "reviewer")
    found = json.loads(hutch(home, "users", "preferences", "--json").stdout)
    assert found == {"model": "", "persona": "reviewer", "theme": "dark", "editor": ""}
    assert "no theme" in hutch(home, "users", "preferences", "--theme", "pink", code=2).stderr
    hutch(home, "users", "model-key", "openai", stdin="my-own-key-0123456789\n")
    assert json.loads(hutch(home, "users", "model-key", "--json").stdout) == ["openai"]
    assert "no provider" in hutch(home, "users", "model-key", "foo", code=2).stderr
    assert "no warning" not in hutch(home, "config", "secrets").stderr
    hutch(home, "users", "model-key", "openai", "--unset")
    assert "no key of your own" in hutch(home, "users", "model-key", "openai", "--unset", code=2).stderr


def test_a_user_is_erased_without_a_server(home: Path) -> None:
    hutch(home, "users", "add", "ada")
    assert "--yes" in hutch(home, "users", "erase", "ada", code=2).stderr
    erased = json.loads(hutch(home, "users", "erase", "ada", "--yes", "--json").stdout)
    assert erased["sessions_erased"] == 0 and erased["remains"]
    assert "ada" not in hutch(home, "users", "list").stdout
    assert "no user" in hutch(home, "users", "erase", "ada", "--yes", code=2).stderr


def test_an_invitation_names_what_is_wrong(home: Path) -> None:
    assert "#hutchinvite_" in hutch(home, "users", "invite", "candidate").stdout
    assert "no scope" in hutch(home, "users", "invite", "--scope", "all", code=2).stderr
    gone = "ses_01jd2m4c9k7w6t0q8n5x3vbaeh"
    assert "no session" in hutch(home, "users", "invite", "--session", gone, code=2).stderr
    assert "cannot create an owner" in hutch(home, "users", "invite", "owner", code=2).stderr
