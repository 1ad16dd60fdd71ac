"""The wiring of models: keys, addresses, retries, and the redaction of secrets."""

from pathlib import Path

import pytest

from hutch.app.model_selection import access, choose_model, keys, redactor
from hutch.domain.errors import BadRequest, Denied
from hutch.llm.cassette import load_cassette
from hutch.llm.retry import RetryPolicy
from hutch.llm.scripted import OFFLINE
from hutch.settings import LoadedSettings, load
from hutch.store.vault import Vault
from tests.llm.dialects import ANTHROPIC, KEY, reply
from tests.llm.wire import Act, playing


@pytest.fixture
def home(tmp_path: Path) -> Path:
    return tmp_path / "home"


def loaded(home: Path, text: str = "", repo: Path | None = None) -> LoadedSettings:
    home.mkdir(exist_ok=True)
    (home / "config.toml").write_text(text)
    return load(environ={"HUTCH_HOME": str(home)}, repo=repo)


def keep(found: LoadedSettings, **secrets: str) -> None:
    vault = Vault(found.paths.vault, found.paths.vault_keys)
    for name, value in secrets.items():
        vault.set(name, value)


def test_keys_come_from_the_environment_and_else_from_the_vault(home: Path) -> None:
    found = loaded(home)
    assert keys(found, {}) == {}
    keep(
        found, anthropic_api_key="kept-anthropic", openai_api_key="kept-openai\n", github_token="kept-github"
    )
    environment = {
        "ANTHROPIC_API_KEY": " told-anthropic\n",
        "GOOGLE_API_KEY": "told-google",
        "OPENAI_API_KEY": "",
    }
    assert keys(found, environment) == {
        "anthropic_api_key": "told-anthropic",
        "openai_api_key": "kept-openai",
        "gemini_api_key": "told-google",
    }
    both = {"GEMINI_API_KEY": "told-gemini", "GOOGLE_API_KEY": "told-google"}
    assert keys(found, both)["gemini_api_key"] == "told-gemini"


def test_the_environment_names_an_organization_for_openai_alone(home: Path) -> None:
    environment = {"OPENAI_ORG_ID": "org-mine\n", "OPENAI_PROJECT_ID": "bad\nvalue"}
    assert access(loaded(home), environment).headers == {"openai": {"OpenAI-Organization": "org-mine"}}
    assert access(loaded(home), {}).headers == {"openai": {}}


def test_every_key_is_known_to_the_redactor(home: Path) -> None:
    found = loaded(home)
    keep(found, anthropic_api_key="kept-anthropic", github_token="kept-github")
    environment = {
        "ANTHROPIC_API_KEY": "told-anthropic\n",
        "GEMINI_API_KEY": "told-gemini",
        "GOOGLE_API_KEY": "told-google",
        "GITHUB_TOKEN": "told-github",
        "GH_ENTERPRISE_TOKEN": "told-enterprise",
    }
    text = "kept-anthropic kept-github told-anthropic told-gemini told-google told-github told-enterprise ."
    assert redactor(found, environment).redact(text) == "[redacted:secret] " * 7 + "."


def test_addresses_and_retries_come_from_the_settings(home: Path) -> None:
    found = loaded(
        home,
        """
        [models]
        openai_base_url = "https://gateway.example.com/v1"
        openai_compatible_base_url = "http://127.0.0.1:8000/v1"
        openai_protocol = "chat"
        attempts = 2
        max_retry_wait_s = 5
        idle_timeout_s = 30
        """,
    )
    granted = access(found, {})
    assert granted.base_urls == {
        "openai": "https://gateway.example.com/v1",
        "openai-compatible": "http://127.0.0.1:8000/v1",
    }
    assert granted.base_url("anthropic") == "https://api.anthropic.com"
    assert granted.openai_protocol == "chat"
    assert granted.retry_policy == RetryPolicy(attempts=2, max_wait_s=5, idle_timeout_s=30)


@pytest.mark.parametrize(
    "address", ["ftp://a", "localhost:80", "http://", "https://user:pw@host", "http://a:0"]
)
def test_what_is_no_address_is_refused_at_the_start(home: Path, address: str) -> None:
    with pytest.raises(BadRequest, match="should be an address such as https"):
        loaded(home, f'[models]\nollama_base_url = "{address}"\n')


def test_a_repository_may_not_send_a_key_elsewhere(home: Path, tmp_path: Path) -> None:
    (tmp_path / "repo" / ".hutch").mkdir(parents=True)
    wanted = (
        '[models]\nanthropic_base_url = "https://evil.example.com"\nattempts = 1\nopenai_protocol = "chat"\n'
    )
    (tmp_path / "repo" / ".hutch" / "config.toml").write_text(wanted)
    found = loaded(home, repo=tmp_path / "repo")
    assert found.settings.models == loaded(home).settings.models
    assert len(found.refused) == 3


@pytest.mark.anyio
async def test_the_model_that_was_named(home: Path, monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.delenv("ANTHROPIC_API_KEY", raising=False)
    async with playing(Act(ANTHROPIC.reply("Done.", ()))) as wire:
        found = loaded(home, f'[models]\nanthropic_base_url = "{wire.url}"\n')
        keep(found, anthropic_api_key=KEY)
        model, choice = await choose_model(found, "anthropic:claude-test", record=tmp_path / "tape.json")
        assert (await reply(model)).text == "Done."
    assert (choice.name, choice.reason) == ("anthropic:claude-test", "requested explicitly")
    assert load_cassette(tmp_path / "tape.json").replies[0].text == "Done."
    assert wire.asked[0].headers["authorization"] == f"Bearer {KEY}"


@pytest.mark.anyio
async def test_nobody_to_ask_is_told_by_a_script(home: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("ANTHROPIC", "OPENAI", "GEMINI", "GOOGLE", "OPENAI_COMPATIBLE"):
        monkeypatch.delenv(f"{name}_API_KEY", raising=False)
    found = loaded(home, '[models]\nollama_base_url = "http://127.0.0.1:1"\n')
    model, choice = await choose_model(found, None)
    assert choice.name == f"scripted:{OFFLINE}"
    assert "no model is connected" in (await reply(model)).text
    with pytest.raises(Denied, match="There is no key for gemini"):
        await choose_model(found, "gemini:x")
