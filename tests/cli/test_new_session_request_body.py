"""The request for a new session, to a local or a remote server."""

import os
from pathlib import Path

import pytest

from hutch.cli.new_session_request_body import model_name, repository_address, request_body
from hutch.domain.errors import BadRequest
from hutch.domain.generation_options import Generation
from hutch.domain.run_limits import RunLimits
from hutch.domain.session import NewSession
from hutch.domain.session_jail_resource_limits import Resources


def test_only_set_limits_are_requested(tmp_path: Path) -> None:
    new = NewSession(
        prompt="Do it",
        repository=str(tmp_path),
        limits=RunLimits(turns=3),
        network=("a.org",),
        resources=Resources(cpus=0.5),
        generation=Generation(effort="low"),
    )
    assert request_body(new, is_local=True) == {
        "prompt": "Do it",
        "repository": str(tmp_path),
        "plain_directory": False,
        "revision": "",
        "purpose": "",
        "role": "",
        "company": "",
        "expectations": "",
        "persona": "",
        "model": "",
        "network": ["a.org"],
        "variables": {},
        "secrets": [],
        "deliver": False,
        "limits": {"turns": 3},
        "resources": {"cpus": 0.5},
        "generation": {"effort": "low"},
        "delivery": {"author": "", "unattended": False},
    }


@pytest.mark.parametrize("address", ["https://example.com/a.git", "git@example.com:a/b.git", "host:repo", ""])
def test_an_address_is_unchanged(address: str) -> None:
    assert repository_address(address, True) == repository_address(address, False) == address


def test_a_missing_directory_is_refused(tmp_path: Path) -> None:
    with pytest.raises(BadRequest, match=r"does not exist\. Use a directory, or an address"):
        repository_address(str(tmp_path / "no"), True)
    (tmp_path / "file").touch()
    with pytest.raises(BadRequest, match="is not a directory"):
        repository_address(str(tmp_path / "file"), True)
    assert repository_address("/srv/of/the/server", False) == "/srv/of/the/server"
    with pytest.raises(BadRequest, match="which the server cannot read"):
        repository_address(str(tmp_path), False)


def test_a_script_is_named_by_its_full_path_where_the_server_can_read_it() -> None:
    assert model_name("scripted:x.json", True) == f"scripted:{Path.cwd() / 'x.json'}"
    assert model_name("scripted:x.json", False) == "scripted:x.json"
    assert model_name("anthropic:some", True) == "anthropic:some"


def test_names_that_are_not_utf_8_are_refused_in_words(tmp_path: Path) -> None:
    directory = Path(os.fsdecode(os.fsencode(tmp_path) + b"/b\xe4d"))
    directory.mkdir()
    with pytest.raises(BadRequest, match=r"b\\xe4d' is not valid UTF-8, .* Rename the directory"):
        request_body(NewSession(repository=str(directory)), is_local=True)
    with pytest.raises(BadRequest, match=r"The prompt 'caf\\xe9' is not valid UTF-8"):
        request_body(NewSession(prompt=os.fsdecode(b"caf\xe9")), is_local=True)
