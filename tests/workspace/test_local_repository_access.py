"""Repositories that may be copied and delivered to: never one of Hutch's own directories, by any path."""

import os
import subprocess
import sys
from pathlib import Path

import pytest

from hutch.app.allowed_local_repositories import own_directories
from hutch.domain.errors import BadRequest, Denied, NotARepository
from hutch.settings import find_paths
from hutch.workspace.admission.local_repository_access import Repositories
from tests.forge.repositories import git
from tests.forked_command import PLAIN, run
from tests.sessions.session_server import repository

# In namespaces of its own, where anybody may mount.
PROGRAM = """
import ctypes, os, subprocess, sys
from pathlib import Path
from hutch.app.allowed_local_repositories import own_directories
from hutch.workspace.admission.local_repository_access import Repositories
from hutch.domain.errors import Denied
from hutch.settings import find_paths
CLONE_NEWNS, CLONE_NEWUSER, MS_REC, MS_PRIVATE = 0x20000, 0x10000000, 0x4000, 0x40000
home, named, by, *mounts = sys.argv[1:]
own = Path("/proc/self")
maps = {"setgroups": "deny", "uid_map": f"0 {os.geteuid()} 1", "gid_map": f"0 {os.getegid()} 1"}
libc = ctypes.CDLL(None, use_errno=True)
assert libc.unshare(CLONE_NEWUSER | CLONE_NEWNS) == 0, ctypes.get_errno()
for name, text in maps.items():
    (own / name).write_text(text)
assert libc.mount(b"none", b"/", None, MS_REC | MS_PRIVATE, None) == 0, ctypes.get_errno()
for source, target in zip(mounts[::2], mounts[1::2]):
    subprocess.run(["mount", *by.split(), source, target], check=True)
try:
    Repositories(own_directories(find_paths({"HUTCH_HOME": home}))).find(Path(named), True, True)
except Denied as error:
    print(f"denied: {error}")
else:
    print("taken")
"""


def access_of(home: Path, named: Path, *mounts: tuple[Path, Path], by: str = "--rbind", **env: str) -> str:
    """The answer for a directory, where each of `mounts` shows one directory at another."""
    words = [sys.executable, "-c", PROGRAM, home, named, by, *(path for pair in mounts for path in pair)]
    return run(words, env=PLAIN | env, capture_output=True, text=True, check=True).stdout


def test_a_bind_mount_hides_nothing(tmp_path: Path) -> None:
    home, bound, project = tmp_path / "home", tmp_path / "bound", tmp_path / "project"
    for each in (home / "data/keys/deep", home / "state", bound, project / "sub", tmp_path / "other"):
        each.mkdir(parents=True)
    assert access_of(home, project) == "taken\n"
    assert access_of(home, bound, (tmp_path / "other", bound)) == "taken\n"
    for source in (
        home,
        home / "data",
        home / "data/keys",
        home / "data/keys/deep",
        home / "state",
        tmp_path,
    ):
        assert access_of(home, bound, (source, bound)).startswith("denied"), source
        assert access_of(home, project, (source, project / "sub")).startswith("denied"), source
    # The data directory is itself a mount of another one.
    assert access_of(home, tmp_path / "other", (tmp_path / "other", home / "data/keys")).startswith("denied")


def test_a_link_to_what_hutch_keeps_is_not_followed_to_it(tmp_path: Path) -> None:
    own = own_directories(find_paths({"HUTCH_HOME": str(tmp_path / "home")}))
    keys = own.data / "keys"
    keys.mkdir(parents=True)
    (tmp_path / "link").symlink_to(keys)
    for path in (tmp_path / "link", tmp_path / "link/..", tmp_path, own.data, keys):
        with pytest.raises(Denied):
            Repositories(own).find(path, True, True)


def test_members_name_what_is_below_the_roots_by_its_real_path(tmp_path: Path) -> None:
    own = own_directories(find_paths({"HUTCH_HOME": str(tmp_path / "home")}))
    inside, outside = repository(tmp_path / "git/x"), repository(tmp_path / "private")
    (tmp_path / "git/out").symlink_to(outside)
    (tmp_path / "git/in").symlink_to(inside)
    (tmp_path / "git/round").symlink_to(tmp_path / "git/round")
    may = Repositories(own, (tmp_path / "git",))
    assert may.find(tmp_path / "git/in", False, False) == (inside, "")
    assert may.find(outside, True, False).root == outside
    for path in (outside, tmp_path / "git/out", tmp_path / "git/../private", tmp_path / "private/none"):
        with pytest.raises(Denied, match="Only an owner"):
            may.find(path, False, False)
    with pytest.raises(BadRequest):
        may.find(tmp_path / "git/round", False, False)


def test_other_peoples_homes_and_keys_are_no_projects(tmp_path: Path) -> None:
    own = own_directories(find_paths({"HUTCH_HOME": str(tmp_path / "home")}))
    home = Path.home().resolve()
    (tmp_path / "project").mkdir()
    for path in (home, home.parent, Path("/etc/ssh"), Path("/var/log"), Path("/usr")):
        with pytest.raises(Denied):
            Repositories(own).find(path, True, True)
    assert Repositories(own).find(tmp_path / "project", True, True) == (tmp_path / "project", "")


@pytest.mark.parametrize(
    "path",
    [
        *("/", "/etc", "/etc/", "//etc", "/etc/../etc", "/proc/self/root/etc", "/proc/self/root", "/etc/ssl"),
        *("/bin", "/lib", "/usr", "/usr/share", "/usr/local", "/usr/local/lib", "/usr/lib/python3", "/opt"),
        *("/var", "/var/lib", "/var/lib/dpkg", "/var/log", "/var/cache", "/var/spool", "/var/tmp"),
        *("/home", "/root", "/tmp", "/srv", "/mnt", "/media", "/run", "/proc", "/proc/self", "/sys", "/dev"),
        *("/dev/shm", "/var/cache/apt"),
    ],
)
def test_the_system_is_no_project(tmp_path: Path, path: str) -> None:
    own = own_directories(find_paths({"HUTCH_HOME": str(tmp_path / "home")}))
    (tmp_path / "link").symlink_to(path)
    for named in (Path(path), tmp_path / "link"):
        with pytest.raises(Denied):
            Repositories(own).find(named, True, True)


@pytest.mark.parametrize(
    "source",
    ["/", "/etc", "/etc/ssl", "/usr", "/usr/share", "/var/lib", "/var/log", "/opt", "/home", "/root"],
)
def test_a_mount_of_the_system_is_the_system(tmp_path: Path, source: str) -> None:
    home, bound, project = tmp_path / "home", tmp_path / "bound", tmp_path / "project"
    for each in (bound, project / "sub"):
        each.mkdir(parents=True)
    assert access_of(home, bound, (Path(source), bound)).startswith("denied")
    assert access_of(home, project, (Path(source), project / "sub")).startswith("denied")


@pytest.mark.parametrize("source", ["/etc", "/etc/ssl", "/usr/share", "/var/lib"])
def test_an_overlay_of_the_system_is_the_system(tmp_path: Path, source: str) -> None:
    home, bound, project = tmp_path / "home", tmp_path / "bound", tmp_path / "project"
    for each in (bound, project, tmp_path / "other"):
        each.mkdir()
    overlay = f"-t overlay -o lowerdir={source}:{tmp_path / 'other'}"
    assert access_of(home, bound, (Path("none"), bound), by=overlay).startswith("denied")
    harmless = f"-t overlay -o lowerdir={project}:{tmp_path / 'other'}"
    assert access_of(home, bound, (Path("none"), bound), by=harmless) == "taken\n"


def test_only_repositories_are_taken_from_where_programs_keep_things(tmp_path: Path) -> None:
    home, me = tmp_path / "home", tmp_path / "me"
    for name in ("project/.github", ".config/gh", ".dot", ".ssh/deep", "backup/bob/.ssh", "x"):
        (me / name).mkdir(parents=True)
    repository(me / ".dotfiles")
    repository(me / ".config/editor")
    repository(me / ".password-store")

    def of_me(name: str, *mounts: tuple[Path, Path]) -> str:
        return access_of(home, me / name, *mounts, HOME=str(me)).partition(":")[0].strip()

    refused = ("", ".config", ".config/gh", ".dot", ".ssh", ".ssh/deep", "backup/bob/.ssh", ".password-store")
    assert {name: of_me(name) for name in refused} == dict.fromkeys(refused, "denied")
    taken = ("project", "project/.github", ".dotfiles", ".config/editor", "backup")
    assert {name: of_me(name) for name in taken} == dict.fromkeys(taken, "taken")
    for name in ("", ".config", ".config/gh", ".ssh"):
        assert of_me("x", (me / name, me / "x")) == "denied", name
    (me / ".config/.git").mkdir()
    assert of_me(".config") == "denied"


def test_in_opt_only_what_is_in_a_real_repository_is_a_project(tmp_path: Path) -> None:
    home, opt = tmp_path / "home", tmp_path / "opt"
    project = repository(opt / "project")
    subprocess.run(["git", "-C", str(project), "worktree", "add", "-q", str(opt / "linked")], check=True)
    for each in (
        "project/src/deep",
        "linked/src",
        "program/lib",
        "empty/.git",
        "empty/src",
        "nowhere",
        "word",
    ):
        (opt / each).mkdir(parents=True)
    (opt / "nowhere/.git").write_text("gitdir: /nothing/there\n")
    (opt / "word/.git").write_text("a file of something else\n")
    os.mkfifo(opt / "program/.git")
    named = ["project", "project/src", "project/src/deep", "linked/src", "program", "program/lib"]
    named += ["empty", "empty/src", "nowhere", "word", "."]
    found = {
        each: access_of(home, Path("/opt") / each, (opt, Path("/opt"))).split(":")[0].strip()
        for each in named
    }
    taken = {each for each, said in found.items() if said == "taken"}
    assert taken == {"project", "project/src", "project/src/deep", "linked/src"}, found


@pytest.mark.parametrize(
    "path",
    [
        *(".config/gcloud", ".config/gcloud/deep", ".mozilla", ".mozilla/firefox/profile", ".config/gh"),
        *(".thunderbird", ".config/google-chrome/Default", ".ssh", "backup/.aws/cli"),
    ],
)
@pytest.mark.parametrize("git", [False, True])
def test_directories_that_hold_credentials_are_no_projects_wherever_they_are(
    tmp_path: Path, path: str, git: bool
) -> None:
    own = own_directories(find_paths({"HUTCH_HOME": str(tmp_path / "home")}))
    (tmp_path / "disk" / path).mkdir(parents=True)
    if git:
        subprocess.run(["git", "init", "-q", str(tmp_path / "disk" / path)], check=True)
    with pytest.raises(Denied, match="keys of a user"):
        Repositories(own).find(tmp_path / "disk" / path, True, True)
    for near in ("gcloud", ".config/nvim", "mozilla"):
        (tmp_path / "disk" / near).mkdir(parents=True)
        assert Repositories(own).find(tmp_path / "disk" / near, True, True)


def test_a_directory_in_a_repository_leads_to_its_root(tmp_path: Path) -> None:
    own = own_directories(find_paths({"HUTCH_HOME": str(tmp_path / "home")}))
    root, bare = repository(tmp_path / "git/x"), tmp_path / "git/bare.git"
    git(tmp_path, "init", "-q", "--bare", str(bare))
    (root / "lib/deep").mkdir(parents=True)
    (root / "plain").mkdir()
    every, members = Repositories(own), Repositories(own, (root / "lib",))
    assert every.find(root / "lib/deep", True, False) == (root, "lib/deep")
    assert every.find(root / "lib/deep", True, True) == (root / "lib/deep", ""), "as it was asked for"
    for inside in (root / ".git/objects", bare / "refs"):
        with pytest.raises(NotARepository):  # no files of the repository
            every.find(inside, True, False)
    with pytest.raises(NotARepository):  # its root is not theirs
        members.find(root / "lib/deep", False, False)


def test_a_home_that_is_a_repository_is_no_root_of_the_projects_in_it(tmp_path: Path) -> None:
    own = own_directories(find_paths({"HUTCH_HOME": str(tmp_path / "x/home")}))
    outer = repository(tmp_path / "x")  # it contains the data of Hutch, and may not be used
    (outer / "project").mkdir()
    with pytest.raises(NotARepository):
        Repositories(own).find(outer / "project", True, False)
