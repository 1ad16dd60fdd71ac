"""The doctor's check of a repository: real git, a real jail, and none of its code runs outside."""

import os
import re
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from hutch.agent.repository_testing.runner_detection import NO_TESTS
from hutch.agent.repository_testing.test_results import NO_PYTEST, NO_RUNNER, NOT_THERE
from hutch.app.doctor_check_inputs import installation
from hutch.flows.doctor_checks import repository_delivery_and_tests as repository_check
from hutch.jail.machine_checks import Check
from hutch.jail.policy import AGENT
from hutch.settings import LoadedSettings, load
from hutch.store.vault import Vault
from tests.forge.repositories import commit, git, make_repository
from tests.node_installation import node, node_home, node_path
from tests.ordinary_user import packages

pytestmark = pytest.mark.anyio
PACKAGES = packages()
WITH_PYTEST = replace(AGENT, readonly=(PACKAGES,), environment=(("PYTHONPATH", PACKAGES),))
BRANCH = "`hutch run …` puts its change on a branch of this repository"
NO_ORIGIN = f"{BRANCH}\nthere is no remote `origin` that Hutch could push to"
PYTEST = {"pytest.ini": "[pytest]\n", "test_a.py": "def test_a():\n    pass\n"}


@pytest.fixture
def place() -> Iterator[Path]:
    """A directory that the jail's user can reach."""
    with tempfile.TemporaryDirectory(prefix="hutch-test-") as name:
        path = Path(name).resolve()
        path.chmod(0o755)
        yield path


def loaded(place: Path, **flags: Any) -> LoadedSettings:
    return load(flags, environ={"HUTCH_HOME": str(place / "home"), "PATH": os.defpath})


async def check_repository(loaded: LoadedSettings, directory: Path | None, **how: Any) -> list[Check]:
    """With time for a machine that does much else."""
    return await repository_check.check_repository(
        replace(installation(loaded), **how), directory, timeout_s=400
    )


async def checked(place: Path, files: dict[str, str], **how: Any) -> Check:
    repo = place / "repo"
    make_repository(repo, files)
    delivery, tests = await check_repository(loaded(place), repo, **how)
    assert delivery == Check("delivery", "ok", NO_ORIGIN)
    return tests


def on_the_host(place: Path, *argv: str) -> str:
    ran = subprocess.run(argv, cwd=place, stdin=subprocess.DEVNULL, capture_output=True, text=True)
    assert ran.returncode == 0, ran.stderr
    return ran.stdout


def seen(repo: Path) -> list[tuple[str, int]]:
    """All that is in a directory, and when it was changed."""
    return sorted((str(path), path.lstat().st_mtime_ns) for path in repo.rglob("*"))


async def test_pytest_that_is_in_the_jail_works(place: Path) -> None:
    check = await checked(place, PYTEST, policy=WITH_PYTEST)
    assert check == Check("tests", "ok", f"python3 -m pytest works in the jail ({pytest.__version__})")


async def test_a_missing_pytest_is_reported_as_run_tests_does(place: Path) -> None:
    # One that is in nobody's commit is in nobody's workspace.
    (place / "repo").mkdir()
    on_the_host(place, sys.executable, "-m", "venv", "--without-pip", str(place / "repo/.venv"))
    check = await checked(place, PYTEST | {".gitignore": ".venv\n"})
    assert check == Check(
        "tests",
        "warn",
        "python3 -m pytest does not work in the jail: /usr/bin/python3: No module named pytest",
        NO_PYTEST,
    )


async def test_no_half_of_a_secret_is_left_where_the_words_of_a_runner_are_cut(place: Path) -> None:
    secret = "kept-in-the-vault-0123456789"
    paths = loaded(place).paths
    paths.data.mkdir(parents=True)
    Vault(paths.vault, paths.vault_keys).set("forge_token", secret)
    says = f"import sys\nprint('error: ' + 'x' * 180 + {secret!r})\nsys.exit(1)\n"
    check = await checked(place, PYTEST | {"pytest.py": says})
    assert "error: xxx" in check.found and "kept" not in check.found, check.found


async def test_node_works_by_its_version(place: Path) -> None:
    shown = replace(AGENT, readonly=(str(node_home()),), environment=(("PATH", node_path()),))
    check = await checked(place, {"package.json": '{"scripts": {"test": "node --test"}}'}, policy=shown)
    version = on_the_host(place, node(), "--version").strip().removeprefix("v")
    assert check == Check("tests", "ok", f"node --test works in the jail ({version})")


async def test_jest_that_is_not_committed_is_missing(place: Path) -> None:
    (place / "repo/node_modules/.bin").mkdir(parents=True)
    (place / "repo/node_modules/.bin/jest").write_text("#!/bin/sh\necho 29.7.0\n")
    (place / "repo/node_modules/.bin/jest").chmod(0o755)
    files = {"package.json": '{"devDependencies": {"jest": "29"}}', ".gitignore": "node_modules\n"}
    check = await checked(place, files)
    assert (check.status, check.fix) == ("warn", NO_RUNNER.format(name="Jest", bin="jest"))


async def test_go_that_is_not_in_the_jail_is_missing_and_the_other_runner_is_named(place: Path) -> None:
    files = {"go.mod": "module a\n", "test_a.py": "import unittest\n"}
    check = await checked(place, files)
    assert (check.status, check.fix) == ("warn", NOT_THERE)
    first, second = check.found.split("\n")
    assert first == "go test does not work in the jail: there is no program go in the jail"
    assert second.startswith("also here: python3 -m unittest works in the jail (3.")


async def test_no_tests_at_all(place: Path) -> None:
    assert await checked(place, {"README.md": "hello\n"}) == Check("tests", "warn", NO_TESTS)


async def test_a_command_that_is_set_is_only_looked_for(place: Path) -> None:
    make_repository(place / "repo", {"Makefile": f"all:\n\ttouch {place}/ran\n"})
    for command, status in (("sh -c make", "ok"), ("no-such-program x", "warn"), ("FOO=1 make", "ok")):
        made = loaded(place, tests={"command": command})
        assert (await check_repository(made, place / "repo"))[1].status == status
    assert not (place / "ran").exists()


@pytest.mark.parametrize("ignored", [False, True])
async def test_uncommitted_settings_are_named_as_having_no_effect(place: Path, ignored: bool) -> None:
    repo = place / "repo"
    make_repository(repo, {**PYTEST, ".gitignore": ".hutch/\n" if ignored else ""})
    (repo / ".hutch").mkdir()
    (repo / ".hutch/config.toml").write_text('[tests]\ncommand = "true"\n')
    _, tests = await check_repository(loaded(place), repo, policy=WITH_PYTEST)
    assert tests.status == "warn" and "pytest" in tests.found.splitlines()[0]
    assert "`hutch run` uses the committed .hutch/config.toml" in tests.found and "git commit" in tests.fix
    git(repo, "add", "-f", ".hutch/config.toml")
    git(repo, "commit", "-q", "-m", "settings")
    _, tests = await check_repository(loaded(place), repo, policy=WITH_PYTEST)
    assert tests.status == "ok" and tests.found.startswith("true works"), tests.found


async def test_nothing_of_a_hostile_repository_runs_outside_or_writes(place: Path) -> None:
    repo, outside = place / "repo", place / "escaped"
    script = f"import pathlib\npathlib.Path({str(outside)!r}).touch()\n"
    jest = f"#!/bin/sh\ntouch {outside} /workspace/made {repo}/made; echo 29.7.0\n"
    files = {
        "conftest.py": script,
        "pytest.ini": "[pytest]\naddopts = -p evil\n",
        "evil.py": script,
        "package.json": '{"devDependencies": {"jest": "29"}}',
        "node_modules/.bin/jest": jest,
        ".gitattributes": "* filter=evil\n",
    }
    repo.mkdir()
    git(repo, "init", "--quiet")
    (repo / "node_modules/.bin").mkdir(parents=True)
    (repo / "node_modules/.bin/jest").touch(mode=0o755)
    commit(repo, files)
    for setting in ("core.fsmonitor", "filter.evil.clean", "filter.evil.smudge", "core.sshCommand"):
        git(repo, "config", setting, f"touch {outside}; cat")
    before = seen(repo)
    for attack in ("git status", f"{sys.executable} -m pytest", "node_modules/.bin/jest"):
        on_the_host(place, "cp", "-a", str(repo), "copy")
        on_the_host(place, "sh", "-c", f"cd copy; {attack}; rm -rf ../copy {repo}/made")
        assert outside.exists(), attack  # so it would be without a jail
        outside.unlink()
    _, check = await check_repository(loaded(place), repo, policy=WITH_PYTEST)
    assert check.status == "ok"
    assert check.found.split("\n") == [
        "npx jest works in the jail (29.7.0)",  # so that script was run
        f"also here: python3 -m pytest works in the jail ({pytest.__version__})",
    ]
    assert not outside.exists()
    assert [path for path in seen(repo) if path not in before] == []
    assert os.listdir(place) == ["repo"]  # noqa: PTH208


async def test_what_a_runner_says_starts_no_line_and_drives_no_terminal(place: Path) -> None:
    (place / "repo/node_modules/.bin").mkdir(parents=True)
    (place / "repo/node_modules/.bin/jest").touch(mode=0o755)
    jest = "#!/bin/sh\nprintf '\\033[2Jerror: \\302\\233 a\\r\\nfix: rm -rf ~\\n'; exit 3\n"
    files = {"package.json": '{"devDependencies": {"jest": "29"}}', "node_modules/.bin/jest": jest}
    check = await checked(place, files)
    assert check == Check("tests", "warn", "npx jest does not work in the jail: error:  a")


async def test_a_path_with_a_line_break_is_shown_on_one_line(place: Path) -> None:
    repo = place / "a\nfix: rm -rf ~\x1b[2J"
    make_repository(repo / "below", PYTEST)
    (repo / "below" / "deeper").mkdir()
    for directory in (repo, repo / "below" / "deeper"):
        for check in await check_repository(loaded(place), directory):
            assert all(line.isprintable() for line in f"{check.found}\n{check.fix}".split("\n"))
            assert "\nfix" not in check.found + check.fix
    delivery, _ = await check_repository(loaded(place), repo / "below" / "deeper")
    assert delivery.found.startswith("`hutch run …` puts")


@pytest.mark.parametrize("directory", ["/", "/etc", "/usr/lib", str(Path.home())])
async def test_the_system_and_homes_are_refused(place: Path, directory: str) -> None:
    for check in await check_repository(loaded(place), Path(directory)):
        assert (check.status, check.found[:13]) == ("warn", "not checked: ")
        assert re.search("directory of the system|a home|could read its keys", check.found)
        assert check.fix == "Name the directory of a project: --repo DIR"


async def test_a_directory_that_holds_the_keys_of_hutch_is_refused(place: Path) -> None:
    make_repository(place, PYTEST)
    for check in await check_repository(loaded(place), place):
        assert (check.status, "could read its keys" in check.found) == ("warn", True)


async def test_what_is_no_repository_is_no_failure(place: Path) -> None:
    found = f"{place} is not in a git repository"
    assert await check_repository(loaded(Path("/nonexistent")), place) == [
        Check("delivery", "ok", found),
        Check("tests", "ok", found),
    ]
    assert repository_check.NO_REPOSITORY.startswith("not in a git repository")


async def test_a_repository_without_a_commit_says_so(place: Path) -> None:
    (place / "repo").mkdir()
    git(place / "repo", "init", "--quiet")
    delivery, tests = await check_repository(loaded(place), place / "repo")
    assert delivery.status == "ok"
    assert (tests.status, "no commit yet" in tests.found) == ("warn", True)


@pytest.mark.parametrize(
    ("origin", "said"),
    [
        ("git@github.com:ada/shop.git", "pushes a branch, but opens no pull request: there is no token"),
        ("https://gitlab.com/ada/shop", "pushes a branch; pull requests are only for GitHub (github.hosts)"),
        ("/srv/git/shop.git", "puts it on a branch there"),
    ],
)
async def test_delivery_follows_the_origin(place: Path, origin: str, said: str) -> None:
    make_repository(place / "repo", PYTEST)
    git(place / "repo", "remote", "add", "origin", origin)
    delivery, _ = await check_repository(loaded(place), place / "repo")
    assert delivery == Check("delivery", "ok", f"{BRANCH}\n`hutch run --repo {origin} …` {said}")


async def test_with_a_token_the_origin_gets_a_pull_request_and_no_secret_is_shown(place: Path) -> None:
    make_repository(place / "repo", PYTEST)
    git(place / "repo", "remote", "add", "origin", "https://ada:written-secret@github.com/ada/shop")
    made = loaded(place)
    Vault(made.paths.vault, made.paths.vault_keys).set("github_token", "kept-secret")
    delivery, _ = await check_repository(made, place / "repo")
    said = (
        "`hutch run --repo https://github.com/ada/shop …` opens a pull request with the secret github_token"
    )
    assert delivery == Check("delivery", "ok", f"{BRANCH}\n{said}")


async def test_an_origin_that_would_run_a_program_is_none(place: Path) -> None:
    make_repository(place / "repo", PYTEST)
    git(place / "repo", "config", "remote.origin.url", f"ext::touch {place}/ran")
    delivery, _ = await check_repository(loaded(place), place / "repo")
    assert delivery == Check("delivery", "ok", NO_ORIGIN)
    assert not (place / "ran").exists()
