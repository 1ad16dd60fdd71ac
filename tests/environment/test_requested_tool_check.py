"""Tools that a repository asks for, compared with those that jails have."""

from pathlib import Path
from tempfile import TemporaryDirectory

import pytest

from hutch.domain.dependency_plan import RequestedTool
from hutch.environment.requested_tool_check import describe_tools, fits
from hutch.workspace.admission.directory_checks import OwnDirectories


def program(place: Path, name: str, version: str) -> None:
    (place / "bin").mkdir(parents=True)
    (place / "bin" / name).write_text(f"#!/bin/sh\necho {name} v{version}\n")
    (place / "bin" / name).chmod(0o755)


def test_a_tool_that_jails_lack_is_named_with_the_way_out(monkeypatch: pytest.MonkeyPatch) -> None:
    with TemporaryDirectory(prefix="hutch-test-") as name:
        home = Path(name)
        home.chmod(0o755)  # jails of a server that runs as root see what every user can read
        monkeypatch.setenv("HOME", name)
        installed = "~/.local/share/mise/installs/node"
        program(Path(installed, "22.1.0").expanduser(), "node", "22.1.0")
        program(Path(installed, "20.9.0").expanduser(), "node", "20.9.0")
        program(home / "shown", "deno", "2.1.0")
        tools = [
            RequestedTool("mise.toml", "node", "22"),
            RequestedTool(".tool-versions", "nosuchtool", "3.2.1"),
            RequestedTool("mise.toml", "deno", "2.1"),
            RequestedTool(".tool-versions", "deno", "1"),
        ]
        found = list(describe_tools(tools, [str(home / "shown")], OwnDirectories(home / "data")))
    first = found.pop(0)
    assert first.startswith("mise.toml asks for node 22; jails have ")
    assert first.endswith(f'Show it to jails: [jail] toolchains = ["{installed}/22.1.0"] in your settings.')
    assert found == [
        ".tool-versions asks for nosuchtool 3.2.1; jails have none. Install it on this machine (mise install "
        "nosuchtool@3.2.1), and name its directory in jail.toolchains.",
        ".tool-versions asks for deno 1; jails have 2.1.0. Install it on this machine (mise install deno@1), "
        "and name its directory in jail.toolchains.",
    ]


def test_versions_fit_by_their_first_two_numbers() -> None:
    assert [fits("3.11.2", wanted) for wanted in ("3", "3.11", "3.11.9", "3.12", "latest", "system")] == [
        *(True, True, True, False, True, True),
    ]
