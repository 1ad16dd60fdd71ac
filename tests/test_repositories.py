"""What may be copied from, and delivered into: nothing of Hutch's own, by whatever path."""

import subprocess
import sys
from pathlib import Path

import pytest

from hutch.app.repositories import Repositories
from hutch.domain.errors import BadRequest, Denied
from hutch.settings import find_paths
from tests.sessions.hosting import repository

# In namespaces of its own, where anybody may mount.
PROGRAM = """
import sys
from pathlib import Path
from hutch.app.repositories import Repositories
from hutch.domain.errors import Denied
from hutch.settings import find_paths
home, named = sys.argv[1:]
try:
    Repositories(find_paths({"HUTCH_HOME": home})).find(Path(named), True, True)
except Denied as error:
    print(f"denied: {error}")
else:
    print("taken")
"""


def told(home: Path, named: Path, *mounts: tuple[Path, Path]) -> str:
    script = "".join('mount --bind "$1" "$2"; shift 2; ' for _ in mounts) + 'exec "$@"'
    words = [str(path) for pair in mounts for path in pair]
    words += [sys.executable, "-c", PROGRAM, str(home), str(named)]
    ran = subprocess.run(
        ["unshare", "--user", "--map-root-user", "--mount", "sh", "-ec", script, "sh", *words],
        capture_output=True,
        text=True,
        check=True,
    )
    return ran.stdout


def test_a_bind_mount_hides_nothing(tmp_path: Path) -> None:
    home, bound, project = tmp_path / "home", tmp_path / "bound", tmp_path / "project"
    for each in (home / "data/keys/deep", home / "state", bound, project / "sub", tmp_path / "other"):
        each.mkdir(parents=True)
    assert told(home, project) == "taken\n"
    assert told(home, bound, (tmp_path / "other", bound)) == "taken\n"
    for source in (
        home,
        home / "data",
        home / "data/keys",
        home / "data/keys/deep",
        home / "state",
        tmp_path,
    ):
        assert told(home, bound, (source, bound)).startswith("denied"), source
        assert told(home, project, (source, project / "sub")).startswith("denied"), source
    # The data directory is itself a mount of another one.
    assert told(home, tmp_path / "other", (tmp_path / "other", home / "data/keys")).startswith("denied")


def test_a_link_to_what_hutch_keeps_is_not_followed_to_it(tmp_path: Path) -> None:
    paths = find_paths({"HUTCH_HOME": str(tmp_path / "home")})
    paths.keys.mkdir(parents=True)
    (tmp_path / "link").symlink_to(paths.keys)
    for path in (tmp_path / "link", tmp_path / "link/..", tmp_path, paths.data, paths.keys):
        with pytest.raises(Denied):
            Repositories(paths).find(path, True, True)


def test_members_name_what_is_below_the_roots_by_its_real_path(tmp_path: Path) -> None:
    paths = find_paths({"HUTCH_HOME": str(tmp_path / "home")})
    inside, outside = repository(tmp_path / "git/x"), repository(tmp_path / "private")
    (tmp_path / "git/out").symlink_to(outside)
    (tmp_path / "git/in").symlink_to(inside)
    (tmp_path / "git/round").symlink_to(tmp_path / "git/round")
    may = Repositories(paths, (tmp_path / "git",))
    assert may.find(tmp_path / "git/in", False, False) == inside
    assert may.find(outside, True, False) == outside
    for path in (outside, tmp_path / "git/out", tmp_path / "git/../private", tmp_path / "private/none"):
        with pytest.raises(Denied, match="Only an owner"):
            may.find(path, False, False)
    with pytest.raises(BadRequest):
        may.find(tmp_path / "git/round", False, False)


def test_other_peoples_homes_and_keys_are_no_projects(tmp_path: Path) -> None:
    paths = find_paths({"HUTCH_HOME": str(tmp_path / "home")})
    home = Path.home().resolve()
    (tmp_path / "project").mkdir()
    for path in (home, home.parent, Path("/etc/ssh"), Path("/var/log"), Path("/usr")):
        with pytest.raises(Denied):
            Repositories(paths).find(path, True, True)
    assert Repositories(paths).find(tmp_path / "project", True, True) == tmp_path / "project"
