"""Registries come from the user's own configuration, never from a repository."""

import os
from pathlib import Path

import pytest

from hutch.domain.errors import BadRequest
from hutch.environment.package_registry_hosts import Registries, resolve_registries
from hutch.settings.host_package_index_variables import index_variables

pytestmark = pytest.mark.anyio


async def test_variables_of_the_user_name_the_hosts_and_credentials_stay_out(tmp_path: Path) -> None:
    indexes = index_variables(
        {
            "UV_DEFAULT_INDEX": "https://me:secret@python.example.com/simple/",
            "npm_config_registry": "http://node.example.com:4873/",
            "GOPROXY": "https://go.example.com|direct,off",
            "AWS_SECRET": "x",
        }
    )
    found = await resolve_registries(["uv", "npm", "go"], indexes=indexes, ask_in=tmp_path)
    assert found == Registries(
        hosts=("python.example.com", "node.example.com:4873", "go.example.com"),
        variables={
            "PIP_INDEX_URL": "https://python.example.com/simple/",
            "UV_DEFAULT_INDEX": "https://python.example.com/simple/",
            "npm_config_registry": "http://node.example.com:4873/",
            "YARN_NPM_REGISTRY_SERVER": "http://node.example.com:4873",
            "GOPROXY": "https://go.example.com",
        },
    )


@pytest.fixture
def unconfigured(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Path:
    """The home of a user who configured neither pip nor npm, whatever the machine says."""
    for name in os.environ:
        if name.lower().startswith(("pip_", "uv_", "npm_config_")):
            monkeypatch.delenv(name)
    monkeypatch.setenv("PIP_CONFIG_FILE", os.devnull)
    monkeypatch.setenv("npm_config_globalconfig", os.devnull)
    home = tmp_path / "home"
    home.mkdir()
    monkeypatch.setenv("HOME", str(home))
    return home


@pytest.mark.usefixtures("unconfigured")
async def test_npm_is_asked_away_from_any_repository(tmp_path: Path) -> None:
    repository, elsewhere = tmp_path / "repository", tmp_path / "elsewhere"
    for each in (repository, elsewhere):
        each.mkdir()
    (repository / "package.json").write_text("{}")
    (repository / ".npmrc").write_text("registry=https://evil.example.com/\n")
    asked_there = await resolve_registries(["npm"], indexes={}, ask_in=repository)
    assert asked_there.hosts == ("evil.example.com",)  # the reason why it is asked elsewhere
    (default,) = (await resolve_registries(["npm"], indexes={}, ask_in=elsewhere)).hosts
    assert default != "evil.example.com"


@pytest.mark.usefixtures("unconfigured")
async def test_the_default_of_pip_is_known_without_configuration(tmp_path: Path) -> None:
    found = await resolve_registries(["pip"], indexes={}, ask_in=tmp_path)
    assert len(found.hosts) == 2, "the index, and the host of its files"
    assert found.variables["PIP_INDEX_URL"].startswith("http")


async def test_configuration_is_known_where_the_user_has_neither_pip_nor_npm(
    tmp_path: Path, unconfigured: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    programs = tmp_path / "programs"
    programs.mkdir()
    python = programs / "python3"
    python.write_text('#!/bin/sh\nexec /usr/bin/python3 -S "$@"\n')  # -S: without its packages
    python.chmod(0o755)
    monkeypatch.setenv("PATH", str(programs))
    pip_settings = tmp_path / "pip.conf"
    pip_settings.write_text("[global]\nindex-url = https://python.example.com/simple\n")
    monkeypatch.setenv("PIP_CONFIG_FILE", str(pip_settings))
    (unconfigured / ".npmrc").write_text("registry=https://node.example.com/\n")
    found = await resolve_registries(["pip", "npm"], indexes={}, ask_in=tmp_path)
    assert (found.hosts, found.notes) == (("python.example.com", "node.example.com"), ())


async def test_each_tool_is_asked_once_for_all_package_managers_that_share_its_registry(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    programs = tmp_path / "programs"
    programs.mkdir()
    for name, answer in (("python3", "https://python.example.com"), ("npm", "https://node.example.com")):
        (programs / name).write_text(f"#!/bin/sh\necho {name} >>'{tmp_path}/started'\necho {answer}\n")
        (programs / name).chmod(0o755)
    monkeypatch.setenv("PATH", str(programs))
    names = ["pip", "npm", "uv", "pnpm", "poetry", "yarn"]
    found = await resolve_registries(names, indexes={}, ask_in=tmp_path)
    assert found.hosts == ("python.example.com", "node.example.com")
    # Python is asked for its default and for the user's settings.
    assert (tmp_path / "started").read_text().split() == ["python3", "python3", "npm"]


async def test_hosts_are_taken_as_they_are_and_others_are_refused(tmp_path: Path) -> None:
    found = await resolve_registries(["files.example.com", "*.example.org"], indexes={}, ask_in=tmp_path)
    assert found.hosts == ("files.example.com", "*.example.org")
    for wrong in ("*", "https://x.example", "-x", "a b", "localhost"):
        with pytest.raises(BadRequest, match="neither a package manager nor a host"):
            await resolve_registries([wrong], indexes={}, ask_in=tmp_path)


async def test_a_preset_without_configuration_says_what_to_do(tmp_path: Path) -> None:
    found = await resolve_registries(["cargo"], indexes={}, ask_in=tmp_path)
    assert found.hosts == ()
    assert "Name its hosts in environment.registries" in found.notes[0]


async def test_an_index_in_a_directory_is_left_out(tmp_path: Path) -> None:
    indexes = {"PIP_INDEX_URL": "https://a.example.com/simple", "PIP_EXTRA_INDEX_URL": "file:///opt/x /opt/y"}
    found = await resolve_registries(["pip"], indexes=indexes, ask_in=tmp_path)
    assert found.hosts == ("a.example.com",)
    assert found.variables == {
        "PIP_INDEX_URL": "https://a.example.com/simple",
        "UV_DEFAULT_INDEX": "https://a.example.com/simple",
    }
