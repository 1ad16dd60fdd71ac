"""`hutch mcp serve` obeys the policies of the installation: editors and their agents get no way around."""

import pytest

from tests.gateway.mcp_server import Place, by_pipes, text_of

pytestmark = pytest.mark.anyio


async def test_a_policy_binds_the_tools_of_an_editor(place: Place) -> None:
    rules = '[[policy]]\nname = "careful"\nrules = ["deny bash rm", "ask write_file *.lock"]\n'
    (place.root / "home" / "config.toml").write_text(rules)
    async with by_pipes(place) as client:
        denied = await client.call_tool("bash", {"command": "true; rm -rf ."})
        assert denied.is_error and "A rule denies this: deny bash rm (policy careful in" in text_of(denied)
        asked = await client.call_tool("write_file", {"path": "a.lock", "content": "x"})
        assert asked.is_error and "needs a user's approval" in text_of(asked)
        done = await client.call_tool("write_file", {"path": "a.txt", "content": "x"})
        assert not done.is_error, text_of(done)
    assert not (place.work / "a.lock").exists()
    returned = [each for each in place.events() if each["type"] == "tool.returned"]
    assert [each["rule"] for each in returned] == ["deny bash rm", "ask write_file *.lock", ""]
