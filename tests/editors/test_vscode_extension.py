"""The VS Code extension against a real server, in Node with the editor in memory; and its package.

`test_code_server.py` runs the package in a real editor, in a browser.
"""

import json
import os
import re
import subprocess
import zipfile
from pathlib import Path
from typing import Any

import hutch
from tests.cli.hutch_up_process import Home
from tests.deadline import DEADLINE_S
from tests.editors.sample_repository import make_repository
from tests.node_installation import node, npm

ROOT = Path(__file__).resolve().parents[2]
EXTENSION = ROOT / "editors" / "vscode"
MANIFEST = json.loads((EXTENSION / "package.json").read_text())
CONTRIBUTED = MANIFEST["contributes"]


def run(*words: str, **env: str) -> str:
    """The output of a program that must succeed in the extension's directory."""
    path = f"{Path(node()).parent}:{os.environ['PATH']}"
    ran = subprocess.run(
        words,
        cwd=EXTENSION,
        env={**os.environ, "PATH": path, **env},
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        timeout=DEADLINE_S,
    )
    assert ran.returncode == 0, ran.stdout
    return ran.stdout


def test_the_extension_works_with_a_server(tmp_path: Path) -> None:
    program = tmp_path / "tests.cjs"
    run(*npm(), "run", "--silent", "build-tests", "--", f"--outfile={program}")
    models = tmp_path / "models"
    models.mkdir()
    prices = f"scripted:{models / 'priced.json'}=2.5/0.25/10"
    repository = make_repository(tmp_path / "project")
    home = Home(tmp_path)
    with home.up(HUTCH_MODELS__PRICES=prices):
        printed = run(
            *(node(), "--test-force-exit", "--test-reporter=spec", str(program)),
            HUTCH_TEST_HOME=home.environment()["HUTCH_HOME"],
            HUTCH_TEST_REPOSITORY=str(repository),
            HUTCH_TEST_MODELS=str(models),
            HUTCH_TEST_EXTENSION=str(EXTENSION),
        )
    counts = {name: int(number) for name, number in re.findall(r"ℹ (pass|fail|skipped|todo) (\d+)", printed)}
    written = sum(
        len(re.findall(r"^ *test\(", file.read_text(), re.M))
        for file in (EXTENSION / "test").glob("*.test.ts")
    )
    assert counts == {"pass": written, "fail": 0, "skipped": 0, "todo": 0}, printed


def test_the_package_has_the_program_and_nothing_else(tmp_path: Path) -> None:
    run(*npm(), "run", "--silent", "build")
    package = tmp_path / "hutch.vsix"
    run(*npm(), "run", "--silent", "package", "--", "--out", str(package))
    with zipfile.ZipFile(package) as opened:
        names = {name for name in opened.namelist() if not name.endswith("/")}
        assert names == {
            "[Content_Types].xml",
            "extension.vsixmanifest",
            "extension/package.json",
            "extension/readme.md",
            "extension/LICENSE.txt",
            "extension/dist/extension.cjs",
            "extension/media/hutch.svg",
        }
        program = opened.read("extension/dist/extension.cjs").decode()
        assert json.loads(opened.read("extension/package.json"))["version"] == hutch.__version__
    loaded = set(re.findall(r'\brequire\("([^"]+)"\)', program))
    builtin = set(json.loads(run(node(), "-p", 'JSON.stringify(require("module").builtinModules)')))
    outside = {name for name in loaded if name.removeprefix("node:") not in builtin}
    # The socket library looks for its own faster parts, and works without them.
    assert outside == {"vscode", "bufferutil", "utf-8-validate"}


def test_everything_that_the_manifest_names_exists() -> None:
    commands = {each["command"] for each in CONTRIBUTED["commands"]}
    named = {each["command"] for menu in CONTRIBUTED["menus"].values() for each in menu}
    named |= {each["command"] for each in CONTRIBUTED["keybindings"]}
    welcome = json.dumps(CONTRIBUTED["viewsWelcome"])
    named |= set(re.findall(r"\(command:([\w.]+)\)", welcome))
    assert named <= commands
    source = "\n".join(file.read_text() for file in (EXTENSION / "src").glob("*.ts"))
    read = set(re.findall(r'get<\w+>\("(\w+)"', source))
    assert {f"hutch.{name}" for name in read} == set(CONTRIBUTED["configuration"]["properties"])
    states = set(re.findall(r"hutch\.state == '(\w+)'", json.dumps(MANIFEST)))
    assert states == {"none", "unreachable", "refused", "connected"}


def test_a_folder_that_is_not_trusted_cannot_steer_the_extension() -> None:
    properties: dict[str, Any] = CONTRIBUTED["configuration"]["properties"]
    of_folders = {name for name, each in properties.items() if each["scope"] == "resource"}
    restricted = set(MANIFEST["capabilities"]["untrustedWorkspaces"]["restrictedConfigurations"])
    assert of_folders == restricted
    # A folder cannot set the server that gets the token.
    assert properties["hutch.home"]["scope"] == "machine"
    assert not [name for name in properties if re.search("url|server|token", name, re.I)]


def test_the_readme_names_every_setting_and_command() -> None:
    page = (EXTENSION / "README.md").read_text()
    settings = set(CONTRIBUTED["configuration"]["properties"])
    hidden = {each["command"] for each in CONTRIBUTED["menus"]["commandPalette"]}
    titles = {each["title"] for each in CONTRIBUTED["commands"] if each["command"] not in hidden}
    assert {name for name in settings if f"`{name}`" not in page} == set()
    assert {title for title in titles if f"{title}" not in page} == set()
