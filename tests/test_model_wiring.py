"""The wiring of models: keys, addresses, retries, and the redaction of secrets."""

from pathlib import Path

import pytest

from hutch.app.models import access, models_of, user_keys
from hutch.app.vault_secrets_and_redactor import redactor
from hutch.domain.errors import BadRequest, Denied
from hutch.llm.retry import RetryPolicy
from hutch.llm.scripted_model import OFFLINE
from hutch.llm.scripted_reply_file import load_cassette
from hutch.settings import LoadedSettings, load
from hutch.store.vault import Vault
from tests.llm.provider_formats import ANTHROPIC, KEY, reply
from tests.llm.provider_server import Act, playing


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
    assert access(found, {}).keys == {}
    keep(
        found, anthropic_api_key="kept-anthropic", openai_api_key="kept-openai\n", github_token="kept-github"
    )
    environment = {
        "ANTHROPIC_API_KEY": " env-anthropic\n",
        "GOOGLE_API_KEY": "env-google",
        "OPENAI_API_KEY": "",
    }
    assert access(found, environment).keys == {
        "anthropic_api_key": "env-anthropic",
        "openai_api_key": "kept-openai",
        "gemini_api_key": "env-google",
    }
    both = {"GEMINI_API_KEY": "env-gemini", "GOOGLE_API_KEY": "env-google"}
    assert access(found, both).keys["gemini_api_key"] == "env-gemini"


def test_the_source_of_each_key_is_known(home: Path) -> None:
    found = loaded(home, "[secrets]\nopenai_api_key = 'env:MINE'\n")
    keep(found, anthropic_api_key="kept-anthropic", gemini_api_key="kept-gemini")
    user_keys(found).set("usr_ada", "gemini", "adas-gemini")
    environment = {"MINE": "named-openai", "ANTHROPIC_API_KEY": "env-anthropic"}
    sources = {name: source.name for name, source in access(found, environment).key_sources.items()}
    assert sources == {
        "anthropic_api_key": "from the environment variable ANTHROPIC_API_KEY",
        "openai_api_key": "that the setting secrets.openai_api_key names",
        "gemini_api_key": "from the vault",
    }
    own = access(found, {}, user_id="usr_ada").key_sources
    assert (own["gemini_api_key"].name, own["anthropic_api_key"].name) == ("of your own", "from the vault")


def test_the_environment_names_an_organization_for_openai_alone(home: Path) -> None:
    environment = {"OPENAI_ORG_ID": "org-mine\n", "OPENAI_PROJECT_ID": "bad\nvalue"}
    assert access(loaded(home), environment).headers == {"openai": {"OpenAI-Organization": "org-mine"}}
    assert access(loaded(home), {}).headers == {"openai": {}}


def test_every_key_is_known_to_the_redactor(home: Path) -> None:
    found = loaded(home)
    keep(found, anthropic_api_key="kept-anthropic", github_token="kept-github")
    environment = {
        "ANTHROPIC_API_KEY": "env-anthropic\n",
        "GEMINI_API_KEY": "env-gemini",
        "GOOGLE_API_KEY": "env-google",
        "GITHUB_TOKEN": "env-github",
        "GH_ENTERPRISE_TOKEN": "env-enterprise",
    }
    text = "kept-anthropic kept-github env-anthropic env-gemini env-google env-github env-enterprise ."
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
        model, choice = await models_of(found).choose(
            "anthropic:claude-test", tmp_path / "tape.json", "", redactor(found)
        )
        assert (await reply(model)).text == "Done."
    assert (choice.name, choice.reason) == ("anthropic:claude-test", "requested explicitly")
    assert load_cassette(tmp_path / "tape.json").replies[0].text == "Done."
    assert wire.requests[0].headers["authorization"] == f"Bearer {KEY}"


@pytest.mark.anyio
async def test_without_a_provider_the_script_explains_that(
    home: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name in ("ANTHROPIC", "OPENAI", "GEMINI", "GOOGLE", "OPENAI_COMPATIBLE"):
        monkeypatch.delenv(f"{name}_API_KEY", raising=False)
    found = loaded(home, '[models]\nollama_base_url = "http://127.0.0.1:1"\n')
    model, choice = await models_of(found).choose(None, None, "", redactor(found))
    assert choice.name == f"scripted:{OFFLINE}"
    assert "no model is connected" in (await reply(model)).text
    with pytest.raises(Denied, match="There is no key for gemini"):
        await models_of(found).choose("gemini:x", None, "", redactor(found))
