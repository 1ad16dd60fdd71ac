"""Approved extensions answer from a jail of their own, which has only what their manifest names."""

import json
from dataclasses import replace
from pathlib import Path

import pytest

from hutch.agent.extensions.extension_manifest import parse_manifest
from hutch.agent.extensions.extension_trial import TrialCall
from hutch.domain.errors import Conflict, Denied, HutchError
from hutch.domain.redaction import Redactor
from hutch.jail.policy import AGENT
from tests.agent.extensions.extension_fixtures import open_extension_rig
from tests.agent.extensions.extension_programs import interpreter_paths, official_server, python, raw_server

pytestmark = pytest.mark.anyio
WORDS = {"words.txt": b"one two three\n"}


@pytest.mark.long
async def test_a_server_of_the_official_library_is_tried_approved_and_called(place: Path) -> None:
    entry = {**official_server(place / "words"), "workspace": "read"}
    async with open_extension_rig(place / "home", WORDS) as rig:
        manifest = parse_manifest("words", entry)
        tried = await rig.try_(manifest, [TrialCall("count_words", {"path": "words.txt"})])
        assert tried.trial.server == "words 1.2"
        assert [each.name for each in tried.trial.tools] == ["count_words", "write_note", "show_environment"]
        assert tried.replies[0].text == "3"
        assert "/workspace/words.txt" in tried.trial.activity["files_read"]
        assert any("server.py" in each for each in tried.trial.activity["processes"])
        await rig.approve("words", entry)
        found = await rig.use("words__count_words", path="words.txt")
        assert found.ok and "<<<words\n3\n>>>" in found.text and "not the user" in found.text
        refused = await rig.use("words__write_note", path="x", text="y")
        assert not refused.ok and (await rig.use("bash", command="test -e x")).data["exit_code"] != 0
        missing = await rig.use("words__count_words", path="missing.txt")
        assert not missing.ok and "Error executing tool" in missing.text
        assert not (await rig.use("words__delete")).ok


async def test_a_server_writes_files_only_if_its_manifest_says_so(place: Path) -> None:
    code = (
        "def answer(name, arguments):\n    pathlib.Path('/workspace/new').write_text('x')\n    return 'wrote'"
    )
    async with open_extension_rig(place / "home", WORDS) as rig:
        for use, works in (("none", False), ("read", False), ("write", True)):
            await rig.approve(use, {**raw_server(place / use, code), "workspace": use})
            assert (await rig.use(f"{use}__go")).ok is works
            listed = (await rig.use("bash", command="ls")).text
            assert ("new" in listed) is works
        code = "def answer(name, arguments):\n    return repr(os.listdir('/workspace'))"
        await rig.approve("lists", raw_server(place / "lists", code))
        assert "words.txt" not in (await rig.use("lists__go")).text


async def test_a_server_gets_the_variables_and_secrets_of_its_manifest_only(place: Path) -> None:
    code = "def answer(name, arguments):\n    return repr(sorted(os.environ.items()))"
    policy = replace(
        AGENT, environment=(("SESSION_SETTING", "yes"),), secrets=(("SESSION_KEY", "k-123456789"),)
    )
    entry = {**raw_server(place / "env", code), "env": {"MODE": "fast"}, "secrets": ["API_KEY"]}
    secret = "s3cr3t-of-the-owner"
    rig = open_extension_rig(
        place / "home", WORDS, policy=policy, secrets={"API_KEY": secret}, redactor=Redactor([secret])
    )
    async with rig as opened:
        await opened.approve("env", entry)
        found = (await opened.use("env__go")).text
        assert "('MODE', 'fast')" in found and "API_KEY" in found
        assert "SESSION" not in found and secret not in found


async def test_a_program_of_ones_own_is_a_tool(place: Path) -> None:
    folder = place / "upper"
    folder.mkdir(mode=0o755)
    (folder / "upper.py").write_text(
        "import json, sys\n"
        "asked = json.load(sys.stdin)\n"
        "print(json.dumps({'text': asked['arguments']['text'].upper(), 'ok': asked['tool'] == 'upper'}))\n"
    )
    schema = {"type": "object", "properties": {"text": {"type": "string"}}, "required": ["text"]}
    manifest = {
        "command": python(),
        "args": [str(folder / "upper.py")],
        "declares": [{"name": "upper", "description": "Upper case.", "inputSchema": schema}],
    }
    (folder / "extension.json").write_text(json.dumps(manifest))
    async with open_extension_rig(place / "home", WORDS) as rig:
        entry = {"folder": str(folder), "paths": interpreter_paths()}
        await rig.approve("upper", entry)
        found = await rig.use("upper__upper", text="abc")
        assert found.ok and "\nABC\n" in found.text
        specs = {each.name: each for each in rig.env.toolbox.specs}
        assert specs["upper__upper"].parameters["required"] == ["text"]
        (folder / "upper.py").write_text("print('{}')")
        assert "changed after it was approved" in (await rig.use("upper__upper", text="abc")).text


async def test_a_changed_program_manifest_or_trial_must_be_approved_anew(place: Path) -> None:
    code = "def answer(name, arguments):\n    return 'first'"
    entry = raw_server(place / "one", code)
    async with open_extension_rig(place / "home", WORDS) as rig:
        manifest = await rig.approve("one", entry)
        assert "first" in (await rig.use("one__go")).text
        wider = parse_manifest("one", {**entry, "network": ["example.com"]})
        with pytest.raises(Denied, match="manifest"):
            rig.approvals.check(wider, "")
        await rig.host.close()
        (place / "one" / "server.py").write_text((place / "one" / "server.py").read_text() + "\n# changed")
        found = await rig.use("one__go")
        assert not found.ok and "program" in found.text and "hutch extensions try one" in found.text
        with pytest.raises(Conflict, match="changed after its trial"):
            rig.approvals.approve(manifest, "another digest", by="usr_owner")
        await rig.approve("one", entry)
        assert (await rig.use("one__go")).ok
        assert rig.approvals.withdraw("one")
        await rig.host.close()
        assert "not approved" in (await rig.use("one__go")).text


@pytest.mark.long
async def test_a_server_that_hangs_dies_or_talks_nonsense_ends_as_a_result(place: Path) -> None:
    code = (
        "print('hello', flush=True)\n"
        "def answer(name, arguments):\n"
        "    if arguments['how'] == 'hang':\n        time.sleep(600)\n"
        "    if arguments['how'] == 'die':\n        os._exit(3)\n"
        "    return 'fine'"
    )
    async with open_extension_rig(place / "home", WORDS) as rig:
        await rig.approve("odd", {**raw_server(place / "odd", code), "timeout_s": 10})
        hung = await rig.use("odd__go", how="hang")
        assert not hung.ok and "did not answer in 10 s" in hung.text
        died = await rig.use("odd__go", how="die")
        assert not died.ok and "ended during the call" in died.text
        assert (await rig.use("odd__go", how="well")).ok  # it is started again


async def test_a_server_that_does_not_start_is_explained(place: Path) -> None:
    folder = place / "broken"
    folder.mkdir(mode=0o755)
    (folder / "server.py").write_text("import sys\nprint('no library', file=sys.stderr)\nsys.exit(3)\n")
    (folder / "elsewhere.sh").write_text("#!/missing/python\n")
    (folder / "elsewhere.sh").chmod(0o755)
    entry = {"paths": [str(folder), *interpreter_paths()]}
    async with open_extension_rig(place / "home", WORDS) as rig:
        for argv, why in (
            ([python(), str(folder / "server.py")], r"it ended, with exit code 3\. It wrote: no library"),
            ([str(folder / "elsewhere.sh")], "There is no program '.*' in the jail"),
        ):
            manifest = parse_manifest("broken", {**entry, "command": argv[0], "args": argv[1:]})
            with pytest.raises(HutchError, match=why):
                await rig.try_(manifest)
