"""The `[secrets]` of the settings, and every use of a secret that they name."""

import asyncio
from collections.abc import Iterator
from pathlib import Path

import pytest

from hutch.app import models, vault_secrets_and_redactor
from hutch.app.forge_triggers import webhook_secret
from hutch.app.forges import tokens_of
from hutch.app.user_directory_tools import find_mcp_token
from hutch.domain.errors import BadRequest, Unavailable
from hutch.domain.hutch_secret_names import SECRETS
from hutch.domain.redaction import Redactor
from hutch.forge.repo_url import parse_repo_url
from hutch.settings import LoadedSettings, load
from hutch.settings.schema import FIELDS
from hutch.store.secret_sources import seen_values
from hutch.store.vault import Vault

VALUE = "nutmeg-lantern-55"


@pytest.fixture(autouse=True)
def forgetting() -> Iterator[None]:
    """The values of a test are no secrets of the next."""
    yield
    seen_values().clear()


def loading(place: Path, text: str, **environ: str) -> LoadedSettings:
    (place / "config.toml").write_text(text)
    return load(environ={"HUTCH_HOME": str(place), **environ})


def sources(place: Path, *names: str) -> LoadedSettings:
    (place / "secret").write_text(f"{VALUE}\n")
    lines = "".join(f'{name} = "file:{place}/secret"\n' for name in names)
    return loading(place, f"[secrets]\n{lines}")


def test_every_secret_can_have_a_source() -> None:
    assert [name.removeprefix("secrets.") for name in FIELDS if name.startswith("secrets.")] == [*SECRETS]


@pytest.mark.parametrize(
    "source",
    [
        "sk-ant-api03-abcdefghijklmnopqrstuvwxyz",
        "file:relative/path",
        "file:",
        "env:NOT A NAME",
        "env:",
        "command:",
        "command:  ",
        "command:echo 'open",
        "vault:x",
        "command:a\\u0007b",
    ],
)
def test_a_wrong_source_is_refused_without_showing_it(tmp_path: Path, source: str) -> None:
    with pytest.raises(BadRequest) as caught:
        loading(tmp_path, f'[secrets]\nanthropic_api_key = "{source}"\n')
    assert "secrets.anthropic_api_key is a value that is not shown" in str(caught.value)
    assert "sk-ant" not in str(caught.value)


def test_an_unknown_name_gets_the_nearest_one(tmp_path: Path) -> None:
    with pytest.raises(BadRequest, match=r"Did you mean secrets\.anthropic_api_key"):
        loading(tmp_path, '[secrets]\nantropic_api_key = "env:A"\n')


def test_a_variable_can_name_a_source_and_a_repository_cannot(tmp_path: Path) -> None:
    loaded = loading(tmp_path, "", HUTCH_SECRETS__GITHUB_TOKEN="env:MINE")
    assert loaded.settings.secrets.github_token == "env:MINE"
    hostile = loading(tmp_path, "").with_repository(b'[secrets]\ngithub_token = "command:id"\n')
    assert hostile.settings.secrets.github_token is None
    assert "a repository may not set it" in hostile.refused[0]


def test_all_uses_of_secrets_read_the_source(tmp_path: Path) -> None:
    loaded = sources(
        tmp_path,
        "anthropic_api_key",
        "github_token",
        "mcp_token",
        "github_webhook_secret",
        "oidc_client_secret",
    )
    vault = Vault(loaded.paths.vault, loaded.paths.vault_keys)
    vault.set("mcp_token", "of the vault")
    vault.set("openai_api_key", "also-of-the-vault")
    keys = models.access(loaded, {}).keys
    assert (keys["anthropic_api_key"], keys["openai_api_key"]) == (VALUE, "also-of-the-vault")
    assert find_mcp_token(loaded) == VALUE
    assert webhook_secret(loaded) == VALUE
    assert vault_secrets_and_redactor.secrets_of(loaded, {"oidc_client_secret"}) == {
        "oidc_client_secret": VALUE
    }
    token = tokens_of(loaded).find_token(parse_repo_url("https://github.com/a/b"), "")
    assert token is not None and asyncio.run(token()) == VALUE
    assert vault_secrets_and_redactor.redactor(loaded, {}).redact(f"x {VALUE}") == "x [redacted:secret]"


def test_a_key_that_cannot_be_read_is_an_error_where_it_is_needed(tmp_path: Path) -> None:
    loaded = loading(tmp_path, '[secrets]\nopenai_api_key = "file:/none/such"\n')
    vault_secrets_and_redactor.redactor(loaded, {})  # starts all the same
    models.models_of(loaded).check("ollama:qwen3")
    with pytest.raises(Unavailable, match="openai_api_key comes from a file that cannot be read"):
        models.models_of(loaded).check("openai:gpt-5")
    with pytest.raises(Unavailable, match="openai_api_key"):
        asyncio.run(models.models_of(loaded).choose(None, None, "", Redactor()))
    listed = asyncio.run(models.models_of(loaded).list_usable())
    state = next(each for each in listed.providers if each.name == "openai")
    assert not state.usable and "cannot be read" in state.reason
