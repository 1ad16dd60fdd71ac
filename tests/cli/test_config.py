"""`hutch config` shows settings and no secrets; data goes to stdout, messages to stderr."""

import json
import os
import pty
import re
import subprocess
import sys
import termios
import time
import tomllib
from pathlib import Path

import pytest
from typer.testing import CliRunner, Result

from hutch.app.forge_triggers import SECRET as WEBHOOK_SECRET
from hutch.app.user_directory_tools import TOKEN as MCP_TOKEN
from hutch.cli import exit_codes
from hutch.cli.commands.config_and_secrets import app
from hutch.domain.errors import BadRequest, Conflict, NotFound, Unavailable
from hutch.domain.ids import new_user_id
from hutch.forge.github_token_selection import own_token_name, token_name
from hutch.forge.repo_url import parse_repo_url
from hutch.gateway.auth.optional_oidc_import import SECRET as OIDC_SECRET
from hutch.llm.model_and_key_names import PROVIDERS, key_name
from hutch.settings import Settings, find_paths, load
from hutch.settings.schema import FIELDS
from hutch.store.vault import Vault
from tests.deadline import DEADLINE_S

HUTCH = Path(sys.executable).with_name("hutch")
SECRET = "sk-ant-api03-abcdefghijklmnopqrstuvwxyz"


class Home:
    """An installation of its own, and the command run in it."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self.environ = {"HUTCH_HOME": str(path)}
        self.paths = find_paths(self.environ)
        self.vault = Vault(self.paths.vault, self.paths.vault_keys)

    def run(self, *args: str, stdin: str | bytes | None = None, **variables: str) -> Result:
        return CliRunner().invoke(app, args, input=stdin, env={**self.environ, **variables})

    def out(self, *args: str, stdin: str | bytes | None = None, **variables: str) -> str:
        result = self.run(*args, stdin=stdin, **variables)
        assert result.exit_code == 0, result.output
        return result.stdout


@pytest.fixture
def home(tmp_path: Path) -> Home:
    (tmp_path / "home").mkdir()
    return Home(tmp_path / "home")


def test_show_names_every_setting_and_its_origin(home: Home) -> None:
    home.paths.config_file.write_text("jail.processes = 100")
    shown = home.out("show", HUTCH_LOG__LEVEL="debug").splitlines()
    assert [line.removeprefix("# ").split(" ")[0] for line in shown] == list(FIELDS)
    assert f"jail.processes = 100  # {home.paths.config_file}" in shown
    assert 'log.level = "debug"  # HUTCH_LOG__LEVEL' in shown
    assert 'jail.memory_bytes = "2GiB"  # default' in shown
    assert "# model is not set" in shown


def test_the_output_of_show_is_an_equivalent_settings_file(home: Home) -> None:
    home.paths.config_file.write_text(
        'ignore = ["a b", "q\\"uote", "back\\\\slash", "\\u001b[2J\\u009b\\u202e"]\n'
        'jail.memory_bytes = 1500000001\njail.tmp_bytes = "1500MiB"\nmodel = "anthropic:x"'
    )
    before = load(environ=home.environ).settings
    shown = home.out("show")
    assert re.search(r"[^\n -~]", shown) is None
    tomllib.loads(shown)
    home.paths.config_file.write_text(shown)
    assert load(environ=home.environ).settings == before


def test_show_prints_json(home: Home) -> None:
    shown = json.loads(home.out("show", "--json", HUTCH_JAIL__NETWORK="docs.example.com"))
    assert shown["settings"]["jail.network"] == {
        "value": ["docs.example.com"],
        "origin": "HUTCH_JAIL__NETWORK",
    }
    assert shown["settings"]["jail.memory_bytes"] == {"value": 2 * 1024**3, "origin": "default"}
    assert shown["settings"]["model"] == {"value": None, "origin": "default"}
    assert shown["refused"] == []


def test_show_includes_a_repository_and_warns_on_stderr(home: Home, tmp_path: Path) -> None:
    (tmp_path / "repo" / ".hutch").mkdir(parents=True)
    file = tmp_path / "repo" / ".hutch" / "config.toml"
    file.write_text('persona = "reviewer"\nmodel = "evil:one"')
    result = home.run("show", "--repo", str(tmp_path / "repo"))
    assert f'persona = "reviewer"  # {file}' in result.stdout
    assert result.stderr == (
        f"warning: '{file}' sets model to 'evil:one', ignored: a repository may not set it; "
        "set it in your own settings if you want it.\n"
        f"hutch: '{file}' is shown as it is now. `hutch run` uses the one in the commit that it starts from; "
        "`hutch shell` and `hutch mcp serve` use this one.\n"
    )
    shown = json.loads(home.out("show", "--json", "--repo", str(tmp_path / "repo")))
    assert len(shown["refused"]) == 1


def test_show_refuses_wrong_settings_and_hides_a_misplaced_secret(home: Home) -> None:
    assert isinstance(home.run("show", HUTCH_LOG__LEVEL="loud").exception, BadRequest)
    assert SECRET not in home.out("show", HUTCH_TESTS__COMMAND=f"KEY={SECRET} make")
    assert SECRET not in home.out("show", "--json", HUTCH_TESTS__COMMAND=f"KEY={SECRET} make")


@pytest.mark.parametrize("wrong", [{"HUTCH_ZZZ": "1"}, {"HUTCH_LOG__LEVEL": "loud"}])
def test_defaults_are_shown_although_the_settings_are_invalid(home: Home, wrong: dict[str, str]) -> None:
    home.paths.config_file.write_text("broken")
    shown = home.out("show", "--defaults", **wrong)
    for name, field in FIELDS.items():
        result = re.search(rf"^# {re.escape(field.description or '')}\n(# )?{re.escape(name)} ", shown, re.M)
        assert result, name
    home.paths.config_file.write_text(shown)
    assert load(environ=home.environ).settings == Settings()
    rows = json.loads(home.out("show", "--defaults", "--json", **wrong))["settings"]
    assert list(rows) == list(FIELDS)
    assert rows["log.level"] == {
        "default": "info",
        "variable": "HUTCH_LOG__LEVEL",
        "description": FIELDS["log.level"].description,
    }


def test_defaults_and_a_repository_exclude_each_other(home: Home) -> None:
    assert isinstance(home.run("show", "--defaults", "--repo", "/").exception, BadRequest)


def test_the_hint_for_an_unknown_variable_works(home: Home) -> None:
    refused = home.run("show", HUTCH_ZZZ="1").exception
    command = re.search(r"`hutch config (.*?)`", str(refused))
    assert command
    assert home.out(*command[1].split(), HUTCH_ZZZ="1")


def test_path_prints_exact_bytes(home: Home) -> None:
    strange = os.fsdecode(bytes(home.path) + b"/\xff")
    result = home.run("path", HUTCH_HOME=strange)
    assert (result.exit_code, result.stdout_bytes) == (0, os.fsencode(f"{strange}/config.toml\n"))


def test_path_works_although_the_settings_are_invalid(home: Home) -> None:
    home.paths.config_file.write_text("broken")
    assert home.out("path") == f"{home.path}/config.toml\n"
    assert f"vault        {home.path}/data/vault.json" in home.out("path", "--all").splitlines()
    assert json.loads(home.out("path", "--json")) == {"config_file": f"{home.path}/config.toml"}
    assert json.loads(home.out("path", "--all", "--json"))["database"] == f"{home.path}/data/hutch.db"


@pytest.mark.parametrize("ending", ["", "\n", "\r\n"])
def test_a_secret_is_read_from_standard_input(home: Home, ending: str) -> None:
    result = home.run("set-secret", "anthropic_api_key", stdin=SECRET + ending)
    assert (result.exit_code, result.stdout, result.stderr) == (0, "", "Secret anthropic_api_key is set.\n")
    assert home.vault.get("anthropic_api_key") == SECRET


def test_a_secret_is_read_from_a_file(home: Home, tmp_path: Path) -> None:
    (tmp_path / "key.pem").write_text("line one\nline two\n")
    home.out("set-secret", "github_app_key", "--from-file", str(tmp_path / "key.pem"))
    assert home.vault.get("github_app_key") == "line one\nline two"


def type_secret(home: Home, secret: bytes) -> tuple[int, bytes]:
    """Type a secret at the prompt; return the exit code and the screen."""
    terminal, inside = pty.openpty()
    command = [HUTCH, "config", "set-secret", "github_token"]
    # In a session of its own it has no other terminal to ask at than this one.
    with subprocess.Popen(
        command,
        stdin=inside,
        stdout=inside,
        stderr=inside,
        env={**os.environ, **home.environ},
        start_new_session=True,
    ) as child:
        try:
            deadline = time.monotonic() + DEADLINE_S
            # Text that is typed before the echo is off is thrown away.
            while termios.tcgetattr(terminal)[3] & termios.ECHO:
                assert time.monotonic() < deadline, "the echo was never switched off"
                time.sleep(0.01)
            os.write(terminal, secret + b"\n")
            code = child.wait(DEADLINE_S)
        finally:
            child.kill()
    screen = os.read(terminal, 4096)
    os.close(inside)
    os.close(terminal)
    return code, screen


def test_a_secret_typed_at_a_terminal_is_not_echoed(home: Home) -> None:
    code, screen = type_secret(home, SECRET.encode())
    assert code == 0
    assert b"Value of github_token (not shown)" in screen
    assert b"Secret github_token is set." in screen
    assert SECRET.encode() not in screen
    assert home.vault.get("github_token") == SECRET


def test_a_typed_secret_that_is_not_text_is_refused(home: Home) -> None:
    code, screen = type_secret(home, b"\xff\xfe")
    assert code == exit_codes.BAD_REQUEST
    assert b"hutch: The value of github_token is not UTF-8 text. Encode it first, as base64.\r\n" in screen
    assert home.vault.names() == []


@pytest.mark.parametrize(
    ("args", "stdin", "error"),
    [
        (["BAD-NAME"], b"value", BadRequest),
        (["github_token"], b"", BadRequest),
        (["github_token"], b"\n", BadRequest),
        (["github_token"], b"\xff\xfe", BadRequest),
        (["github_token"], b"x" * 70_000, BadRequest),
        (["github_token", "--from-file", "/nonexistent/file"], None, NotFound),
        (["github_token", "--from-file", "/"], None, BadRequest),
    ],
)
def test_an_invalid_secret_is_refused(
    home: Home, args: list[str], stdin: bytes | None, error: type[Exception]
) -> None:
    assert isinstance(home.run("set-secret", *args, stdin=stdin).exception, error)
    assert home.vault.names() == []


@pytest.mark.parametrize(
    ("name", "hint"),
    [
        ("antropic_api_key", "Did you mean anthropic_api_key?"),
        ("gihub_token", "Did you mean github_token?"),
        ("github_token_ada", "A user's own one is github_token_ with their id: hutch users list"),
        ("password", "The names are: anthropic_api_key, "),
    ],
)
def test_a_misspelt_name_is_refused_with_the_likely_one(home: Home, name: str, hint: str) -> None:
    refused = home.run("set-secret", name, stdin=b"value").exception
    assert isinstance(refused, BadRequest) and hint in str(refused)
    assert home.vault.names() == []


def test_every_secret_that_hutch_uses_can_be_set(home: Home) -> None:
    used = {key_name(provider) for provider in PROVIDERS if provider != "scripted"}
    hosts = [parse_repo_url(f"https://{host}/a/b") for host in ("github.com", "ghe.example.com")]
    used |= {token_name(url) for url in hosts} | {own_token_name(url, new_user_id()) for url in hosts}
    used |= {WEBHOOK_SECRET, MCP_TOKEN, OIDC_SECRET, "github_app_key"}
    for name in used:
        assert home.run("set-secret", name, stdin=b"value").exit_code == 0, name
    assert set(home.vault.names()) == used


def test_a_secret_is_never_an_argument(home: Home) -> None:
    assert home.run("set-secret", "github_token", SECRET).exit_code == 2
    assert home.vault.names() == []


def test_a_stored_name_that_hutch_does_not_use_is_reported(home: Home) -> None:
    home.vault.set("antropic_api_key", SECRET)
    listed = home.run("secrets")
    assert listed.stdout == "antropic_api_key  vault\n"
    assert listed.stderr == "warning: Hutch uses no secret named antropic_api_key. Is it misspelt?\n"


def test_secrets_lists_names_only(home: Home) -> None:
    nothing = home.run("secrets")
    assert (nothing.stdout, nothing.stderr) == (
        "",
        "There are no secrets. Set one with: hutch config set-secret NAME\n",
    )
    home.vault.set("openai_api_key", SECRET)
    home.vault.set("github_token", SECRET)
    assert home.out("secrets") == "github_token    vault\nopenai_api_key  vault\n"
    assert json.loads(home.out("secrets", "--json")) == [
        {"name": "github_token", "source": "vault"},
        {"name": "openai_api_key", "source": "vault"},
    ]


def test_an_unset_secret_is_deleted(home: Home) -> None:
    home.vault.set("github_token", SECRET)
    result = home.run("unset-secret", "github_token")
    assert (result.stdout, result.stderr) == ("", "Secret github_token is deleted.\n")
    assert home.vault.names() == []
    assert isinstance(home.run("unset-secret", "github_token").exception, NotFound)


def test_rotated_keys_still_open_everything(home: Home) -> None:
    home.vault.set("github_token", SECRET)
    key = home.paths.vault_keys.read_bytes()
    result = home.run("rotate-keys")
    assert (result.stdout, result.stderr) == ("", "1 secret encrypted with a new key.\n")
    assert home.paths.vault_keys.read_bytes() != key
    assert home.vault.get("github_token") == SECRET
    home.paths.vault_keys.unlink()
    assert isinstance(home.run("rotate-keys").exception, Unavailable)


def test_no_command_ever_shows_a_secret(home: Home) -> None:
    said = home.run("set-secret", "github_token", stdin="a value like no other").output
    for command in (["show"], ["show", "--json"], ["secrets"], ["path", "--all"], ["rotate-keys"]):
        said += home.run(*command).output
    assert "like no other" not in said


def test_every_command_explains_itself(home: Home) -> None:
    for command in ("show", "path", "set-secret", "unset-secret", "secrets", "rotate-keys"):
        assert len(home.out(command, "--help").splitlines()) > 3


def test_secrets_from_elsewhere_are_listed_with_their_source(home: Home) -> None:
    (home.path / "key").write_text(SECRET)
    source = f"file:{home.path}/key"
    (home.path / "config.toml").write_text(f'[secrets]\nanthropic_api_key = "{source}"\n')
    home.vault.set("github_token", SECRET)
    assert home.out("secrets") == f"anthropic_api_key  {source}\ngithub_token       vault\n"
    assert json.loads(home.out("secrets", "--json"))[0] == {"name": "anthropic_api_key", "source": source}
    shadowed = home.run("set-secret", "anthropic_api_key", stdin=SECRET)
    assert f"warning: It is not used: your settings take anthropic_api_key from {source}." in shadowed.stderr
    assert SECRET not in home.out("show")


def test_init_writes_a_file_once(home: Home) -> None:
    assert home.out("init") == f"{home.paths.config_file}\n"
    written = home.paths.config_file.read_text()
    assert home.out("init", "--print") == written and "#persona = " in written
    refused = home.run("init")
    assert isinstance(refused.exception, Conflict) and "--force" in str(refused.exception)
    home.paths.config_file.write_text("broken =")
    assert json.loads(home.out("init", "--force", "--json")) == {"path": str(home.paths.config_file)}
    assert home.paths.config_file.read_text() == written
    assert "default" in home.out("show")


def test_init_writes_the_file_of_a_repository(home: Home, tmp_path: Path) -> None:
    repo = tmp_path / "repo"
    repo.mkdir()
    home.out("init", "--repo", str(repo))
    text = (repo / ".hutch/config.toml").read_text()
    assert "#persona" in text and "[server]" not in text and "[secrets]" not in text
    assert home.out("init", "--print", "--repo", str(repo)) == text
    assert isinstance(home.run("init", "--repo", str(repo)).exception, Conflict)
    assert isinstance(home.run("init", "--repo", str(tmp_path / "none")).exception, NotFound)


def test_init_does_not_write_through_a_link_of_a_repository(home: Home, tmp_path: Path) -> None:
    repo, elsewhere = tmp_path / "repo", tmp_path / "elsewhere"
    repo.mkdir()
    elsewhere.mkdir()
    (repo / ".hutch").symlink_to(elsewhere)
    assert isinstance(home.run("init", "--repo", str(repo), "--force").exception, BadRequest)
    (repo / ".hutch").unlink()
    (repo / ".hutch").mkdir()
    (elsewhere / "mine").write_text("mine")
    (repo / ".hutch/config.toml").symlink_to(elsewhere / "mine")
    assert isinstance(home.run("init", "--repo", str(repo)).exception, Conflict)
    home.out("init", "--repo", str(repo), "--force")
    assert (elsewhere / "mine").read_text() == "mine"
    assert not (repo / ".hutch/config.toml").is_symlink()
