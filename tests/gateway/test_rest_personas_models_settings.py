"""Personas, models, settings, and the record of a session."""

import asyncio
import json
import subprocess
import sys
from pathlib import Path

import pytest

from hutch.llm.model_and_key_names import PROVIDERS
from tests.gateway.api_server import V1, Api, serving

pytestmark = pytest.mark.anyio


async def test_personas(api: Api) -> None:
    listed = (await api.get(f"{V1}/personas")).json()["items"]
    names = [each["name"] for each in listed]
    assert {"engineer", "pair", "reviewer"} <= set(names)
    assert names == sorted(names)
    one = (await api.get(f"{V1}/personas/engineer")).json()
    assert one["prompt"]
    assert {key: one[key] for key in listed[0]} == listed[names.index("engineer")]
    for name in ("nobody", "..%2f..%2fetc%2fpasswd", "%00", "a" * 101):
        assert (await api.get(f"{V1}/personas/{name}")).status_code in (404, 422), name


async def test_a_persona_of_the_users_own(tmp_path: Path) -> None:
    async with serving(tmp_path) as api:
        own = Path(api.server.loaded.paths.config_file).parent / "personas"
        own.mkdir(parents=True)
        (own / "poet.md").write_text("---\ndescription: Writes verse.\n---\nRhyme.\n")
        (own / "broken.md").write_text("---\nno: [end\n")
        listed = (await api.get(f"{V1}/personas")).json()["items"]
        assert [each["description"] for each in listed if each["name"] == "poet"] == ["Writes verse."]
        broken = await api.get(f"{V1}/personas/broken")
        assert (broken.status_code, broken.json()["code"]) == (400, "bad_request")


async def test_models_are_listed_without_keys(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("ANTHROPIC_API_KEY", "sk-ant-secret-0123456789abcdef")
    monkeypatch.delenv("OPENAI_API_KEY", raising=False)
    async with serving(tmp_path, model=None) as api:
        answered = await api.get(f"{V1}/models")
        result = answered.json()
        usable = {each["name"]: each["usable"] for each in result["providers"]}
        assert list(usable) == list(PROVIDERS)
        assert (usable["anthropic"], usable["openai"]) == (True, False)
        assert result["default"].startswith("anthropic:")
        assert "secret-0123" not in answered.text


async def test_only_owners_see_the_path_of_a_script(api: Api) -> None:
    bob = await api.as_user("bob")
    assert (await api.get(f"{V1}/models")).json()["default"].startswith("scripted:/")
    assert (await bob.get(f"{V1}/models")).json()["default"] == "scripted"


async def test_settings_are_for_owners(api: Api) -> None:
    settings = (await api.get(f"{V1}/settings")).json()["settings"]
    assert settings["server.requests_per_minute"]["value"] == 1_000_000
    assert settings["server.host"] == {"value": "127.0.0.1", "origin": "default"}
    bob = await api.as_user("bob")
    refused = await bob.get(f"{V1}/settings")
    assert (refused.status_code, refused.json()["code"]) == (403, "denied")


async def test_anyone_can_verify_a_record(api: Api, tmp_path: Path) -> None:
    session = await api.ready_session(prompt="Say it")
    receipt = await api.get(f"{V1}/sessions/{session}/receipt")
    record = await api.get(f"{V1}/sessions/{session}/record")
    assert (record.status_code, record.headers["content-type"]) == (200, "application/zip")
    (tmp_path / "record.zip").write_bytes(record.content)
    (tmp_path / "receipt.json").write_bytes(receipt.content)
    hutch = str(Path(sys.executable).with_name("hutch"))
    args = ["verify", "record.zip", "--receipt", "receipt.json"]
    done = await asyncio.to_thread(
        subprocess.run, [hutch, *args], cwd=tmp_path, capture_output=True, text=True
    )
    assert done.returncode == 0, done.stdout + done.stderr
    head = (await api.get(f"{V1}/sessions/{session}")).json()["head"]
    assert (receipt.json()["seq"], receipt.json()["hash"]) == (head["seq"], head["hash"])


async def test_the_document_is_served_as_it_is_in_docs(api: Api) -> None:
    nobody = await api.as_nobody()
    served = (await nobody.get("/api/openapi.json")).json()
    written = Path(__file__).parents[2] / "docs/openapi.json"
    assert served == json.loads(written.read_text())
