"""A run gets the extensions that its persona names, and never more than a repository or a parent leaves."""

import json
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager
from pathlib import Path
from tempfile import TemporaryDirectory

import pytest

from hutch.agent.extensions.extension_catalogue_file import Catalogue
from hutch.agent.persona import Persona, load_persona
from hutch.agent.run_persona_tools_and_rules import equip
from hutch.agent.tools.builtin import built_in_tools
from hutch.domain.session import HelperRights
from hutch.flows.extensions.approved_extensions_of_run import Extensions, RunExtensions
from hutch.flows.helper_agents.helper_rights import limit_to_rights
from hutch.flows.policies.applicable_policies import Policies
from hutch.store.event_log import open_log
from hutch.store.jail_secret_lookup import JailSecrets
from tests.agent.extensions.extension_fixtures import open_extension_rig
from tests.agent.extensions.extension_programs import raw_server
from tests.new_database import place_database

pytestmark = pytest.mark.anyio
TOOLS = ", ".join(
    f"dict(name={name!r}, description='x', inputSchema=dict(type='object'))" for name in ("read", "write")
)
CODE = "def answer(name, arguments):\n    return name"
OWN = "---\nextensions: [files, notes__re*]\n---\nWork."


@pytest.fixture
def place() -> Iterator[Path]:
    with TemporaryDirectory(prefix="hutch-test-", ignore_cleanup_errors=True) as directory:
        Path(directory).chmod(0o755)
        yield Path(directory)


@asynccontextmanager
async def open_extensions(place: Path, entries: dict[str, dict[str, object]]) -> AsyncIterator[RunExtensions]:
    """Approved extensions of an installation."""
    place_database(place / "data")
    catalogue = Catalogue(place / "extensions.json")
    async with (
        open_extension_rig(place / "home", {"a": b"x"}) as rig,
        open_log(place / "data/hutch.db", place / "data/blobs", place / "data/signing.pem") as log,
    ):
        for name, more in entries.items():
            entry = {**raw_server(place / name, CODE, tools=TOOLS), **more}
            catalogue.add(name, entry)
            await rig.approve(name, entry)
        secrets = JailSecrets(place / "vault", place / "keys")
        extensions = Extensions(
            catalogue=catalogue, approvals=rig.approvals, policies=Policies(log), secrets=secrets
        )
        yield RunExtensions(extensions, rig.host)


def persona(text: str, *, name: str = "deps", place: Path | None = None, repository: str = "") -> Persona:
    folder = (place or Path("/nonexistent")) / "personas"
    if place is not None:
        folder.mkdir(exist_ok=True)
        (folder / f"{name}.md").write_text(text)
    found = repository.encode() if repository else None
    return load_persona(name, known_tools=built_in_tools().names, folder=folder, read=lambda path: found)


async def names(extensions: RunExtensions, persona: Persona) -> list[str]:
    equipment, problems = await extensions.add(equip(persona, built_in_tools()))
    assert problems == ()
    return [each.name for each in equipment.tools if "__" in each.name]


async def test_a_persona_gets_what_it_or_the_catalogue_names(place: Path) -> None:
    more = {"files": {}, "notes": {}, "all": {"personas": ["engineer"], "tools": ["read"]}}
    async with open_extensions(place, more) as extensions:
        own = persona(OWN, place=place)
        assert await names(extensions, own) == ["files__read", "files__write", "notes__read"]
        assert await names(extensions, persona("", name="engineer")) == ["all__read"]
        assert await names(extensions, persona("", name="pair")) == []
        narrowed = persona(OWN, place=place, repository="---\nextensions: [notes, all]\n---\n")
        assert await names(extensions, narrowed) == ["notes__read"]
        assert await names(extensions, persona(OWN, place=place, repository="Hello.")) != []
        chosen = own.narrowed_to(persona("", name="engineer"))  # a repository has chosen it
        assert await names(extensions, chosen) == []


async def test_a_helper_gets_no_more_than_its_parent(place: Path) -> None:
    async with open_extensions(place, {"files": {}, "notes": {"personas": ["engineer"]}}) as extensions:
        own = persona("---\nextensions: [files__read]\n---\n", place=place)
        equipment, _ = await extensions.add(equip(own, built_in_tools()))
        parent = equipment.persona
        rights = HelperRights(depth=1, tools=parent.tools, extensions=parent.extensions)
        assert await names(extensions, limit_to_rights(own, rights)) == ["files__read"]
        wider = persona(OWN, place=place)
        assert await names(extensions, limit_to_rights(wider, rights)) == ["files__read"]
        assert await names(extensions, limit_to_rights(persona("", name="engineer"), rights)) == []
        assert await names(extensions, limit_to_rights(wider, HelperRights(depth=1))) == []


async def test_rules_of_a_manifest_bind_its_tools_only(place: Path) -> None:
    more = {"files": {"personas": ["engineer"], "rules": ["ask wr*", "deny read"]}}
    async with open_extensions(place, more) as extensions:
        equipment, _ = await extensions.add(equip(persona("", name="engineer"), built_in_tools()))
        decisions = {
            tool: equipment.policy.decide(tool).action
            for tool in ("files__write", "files__read", "write_file")
        }
        assert decisions == {"files__write": "ask", "files__read": "deny", "write_file": "allow"}


async def test_an_extension_that_cannot_be_used_is_named_and_stops_nothing(place: Path) -> None:
    more = {"files": {"personas": ["engineer"]}, "notes": {"personas": ["engineer"]}}
    async with open_extensions(place, more) as extensions:
        (place / "notes" / "server.py").write_text("changed")
        whole = json.loads((place / "extensions.json").read_text())
        whole["mcpServers"]["broken"] = {"command": 1}
        (place / "extensions.json").write_text(json.dumps(whole))
        equipment, problems = await extensions.add(equip(persona("", name="engineer"), built_in_tools()))
        assert [each.name for each in equipment.tools if "__" in each.name] == ["files__read", "files__write"]
        assert len(problems) == 1 and "program of the extension notes changed" in problems[0]
        (place / "extensions.json").write_text("{")
        equipment, problems = await extensions.add(equip(persona("", name="engineer"), built_in_tools()))
        assert len(problems) == 1 and "cannot be used" in problems[0]
