"""gh runs with what it needs, in a directory of its own that is gone afterwards."""

# ruff: noqa: ASYNC240 (files of a test block nobody)

import stat
from pathlib import Path

import pytest

from hutch.domain.errors import Unavailable
from hutch.forge.gh import Gh

pytestmark = pytest.mark.anyio

SHOW = """#!/bin/sh
echo "$PWD" > {place}/seen
stat -c %a "$PWD" >> {place}/seen
cat "$GH_CONFIG_DIR/config.yml" >> {place}/seen
env | sort > {place}/environment
echo "the token is $GH_TOKEN" >&2
exit 3
"""


async def token_of() -> str:
    return "tok_0123456789"


async def test_where_it_runs_and_what_it_says(tmp_path: Path) -> None:
    program = tmp_path / "gh"
    program.write_text(SHOW.format(place=tmp_path))
    program.chmod(0o755)
    gh = Gh("github.com", token_of, {"PATH": f"{tmp_path}:/usr/bin:/bin", "SECRET": "x"}, "/run/api.sock")
    code, printed, said = await gh.run("anything")
    assert (code, printed, said) == (3, b"", "the token is …\n")
    home, mode, *config = (tmp_path / "seen").read_text().splitlines()
    assert (mode, Path(home).exists()) == (f"{stat.S_IRWXU:o}", False)
    assert 'http_unix_socket: "/run/api.sock"' in config
    assert "tok_0123456789" not in (tmp_path / "seen").read_text()
    assert "SECRET" not in (tmp_path / "environment").read_text()


async def test_it_may_not_be_installed(tmp_path: Path) -> None:
    with pytest.raises(Unavailable, match="apt-get install -y gh"):
        await Gh("github.com", token_of, {"PATH": str(tmp_path)}).run("api", "user")
