"""Personas of the installation over REST: written by owners, read by all."""

from pathlib import Path

import pytest

from tests.gateway.api_server import V1, serving

pytestmark = pytest.mark.anyio

DEPS = {
    "description": "Updates dependencies: one at a time.",
    "prompt": "Update one dependency.\n---\nThen stop.",
    "tools": ["read_file", "bash", "finish"],
    "rules": ["deny bash git push"],
    "limits": {"turns": 40},
}


async def test_an_owner_writes_a_persona_that_runs_use_and_others_only_read(tmp_path: Path) -> None:
    async with serving(tmp_path) as api:
        url, bob = f"{V1}/personas/deps", await api.as_user("bob")
        assert [(await bob.put(url, json=DEPS)).status_code, (await bob.delete(url)).status_code] == [
            403,
            403,
        ]
        made = await api.put(url, json=DEPS)
        assert made.status_code == 200, made.text
        assert (await bob.get(url)).json() == made.json()
        shown = made.json()
        assert {name: shown[name] for name in ("prompt", "tools", "rules", "own")} == {
            "prompt": DEPS["prompt"],
            "tools": DEPS["tools"],
            "rules": DEPS["rules"],
            "own": True,
        }
        assert shown["limits"]["turns"] == 40 and shown["extensions"] == []
        named = await api.put(url, json={**DEPS, "extensions": ["files", "tracker__read_*"]})
        assert named.json()["extensions"] == ["files", "tracker__read_*"]
        assert (await api.put(url, json=DEPS)).json()["extensions"] == ["files", "tracker__read_*"]
        assert (await api.put(url, json={**DEPS, "extensions": []})).json()["extensions"] == []
        session = await bob.new_session(persona="deps")
        assert session["persona"] == "deps"
        # One that comes with Hutch can be replaced, and comes back.
        engineer = f"{V1}/personas/engineer"
        before = (await api.get(engineer)).json()
        assert (await api.delete(engineer)).status_code == 404
        assert (await api.put(engineer, json={"prompt": "Be brief."})).json()["prompt"] == "Be brief."
        assert (await api.delete(engineer)).status_code == 204
        assert (await api.get(engineer)).json() == before


async def test_wrong_fields_are_named_and_nothing_is_written(tmp_path: Path) -> None:
    async with serving(tmp_path) as api:
        wrong = {
            "prompt": "x",
            "tools": ["bash", "nothing"],
            "rules": ["deny bash", "forbid all"],
            "model": "a\nb",
        }
        answered = await api.put(f"{V1}/personas/deps", json=wrong)
        assert answered.status_code == 422
        assert [each["at"] for each in answered.json()["errors"]] == [
            "body.tools.1",
            "body.rules.1",
            "body.model",
        ]
        limited = await api.put(f"{V1}/personas/deps", json={"prompt": "x", "limits": {"turns": 0}})
        assert limited.json()["errors"][0]["at"] == "body.limits.turns"
        for name in ("../deps", "..%2Fdeps", "Deps", "a" * 65):
            assert (await api.put(f"{V1}/personas/{name}", json={"prompt": "x"})).status_code in (
                404,
                405,
                422,
            )
        assert (await api.get(f"{V1}/personas/deps")).status_code == 404
