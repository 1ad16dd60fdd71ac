"""Checks what Hutch can do with a repository of this machine, for `hutch doctor`.

The content of the repository is hostile. Git and its test runners run in a jail with the limits
of an agent's jail, without a network, where the repository is read-only. As in a run, only
committed files are there. They are checked out into the jail's own /tmp, so nothing is written
on this machine.
"""

import asyncio
import shlex
import shutil
from collections.abc import Awaitable, Callable
from dataclasses import replace
from pathlib import Path

from hutch.agent.repository_testing.runner_definition import Runner
from hutch.agent.repository_testing.runner_detection import NO_TESTS, detect_all
from hutch.agent.repository_testing.runner_start_check import Probed, probe
from hutch.domain.errors import HutchError
from hutch.domain.redaction import Redactor
from hutch.forge.github_token_selection import Tokens
from hutch.forge.repo_url import parse_repo_url
from hutch.jail.machine_checks import Check, Status
from hutch.jail.pid_stamped_names import make_directory
from hutch.jail.policy import Policy
from hutch.system.lazy_dataclass import dataclass
from hutch.system.terminal_safe_text import printable
from hutch.workspace.admission.directory_checks import OwnDirectories, refusal
from hutch.workspace.lifecycle.initial_repository_settings import SETTINGS_FILE
from hutch.workspace.lifecycle.repository_and_head_detection import Layout, find_repository
from hutch.workspace.lifecycle.repository_reader_in_jail import JailedRepository, open_jailed_repository

TIMEOUT_S = 20.0  # for all checks; a repository may contain files that never end
MAX_NAMES = 5000  # as many as `run_tests` looks at
VIEW = "/tmp/view"
NO_REPOSITORY = "not in a git repository; name one with --repo DIR"
UNCOMMITTED_SETTINGS = (
    f"`hutch run` uses the committed {SETTINGS_FILE}; the one here differs, or is not committed"
)
COMMIT_SETTINGS = f"git add -f {SETTINGS_FILE} && git commit, or: hutch run --uncommitted …"
GH = "sudo apt-get install -y gh"


@dataclass(frozen=True, slots=True)
class Installation:
    """The parts of an installation that a check of a repository needs."""

    own: OwnDirectories
    policy: Policy  # of an agent's jail; no network is used here
    tokens: Tokens
    read_redactor: Callable[[], Redactor]  # Blocks the thread.
    # Of the settings, with a repository's settings file.
    test_command: Callable[[bytes], str | None] = lambda config: None


async def check_repository(
    here: Installation, directory: Path | None, *, timeout_s: float = TIMEOUT_S
) -> list[Check]:
    """Check how a change would be delivered and whether the tests can run; None: the current directory."""
    try:
        found, layout = await asyncio.to_thread(_find, directory or Path())
        if layout is None and directory is None:
            return _same("ok", NO_REPOSITORY)
        place = layout.root if layout else found
        if refused := await asyncio.to_thread(refusal, place, here.own):
            fix = "Name the directory of a project: --repo DIR"
            return _same("warn", f"not checked: {refused.reason}", fix)
        if layout is None:
            return _same("ok", f"{found} is not in a git repository")
        clean = (await asyncio.to_thread(here.read_redactor)).redact
        scratch = await asyncio.to_thread(make_directory, "hutch-doctor")
        try:
            policy = replace(here.policy, network=())
            async with asyncio.timeout(timeout_s), open_jailed_repository(layout, scratch, policy) as local:
                return [
                    await _attempt("delivery", _delivery(here.tokens, local)),
                    await _attempt("tests", _tests(local, here.test_command, timeout_s, clean)),
                ]
        finally:
            await asyncio.to_thread(scratch.rmdir)
    except TimeoutError:
        return _same("warn", f"not checked: {place} was not read within {timeout_s:g} s", "git fsck")
    except (HutchError, OSError) as error:
        return _same("warn", f"not checked: {error}")


def _find(directory: Path) -> tuple[Path, Layout | None]:
    """The repository of a directory. Only file names are read."""
    here = directory.resolve()
    for place in (here, *here.parents):
        if layout := find_repository(place):
            return here, layout
    return here, None


async def _delivery(tokens: Tokens, local: JailedRepository) -> Check:
    """Where a change goes: to the repository that a run names, which need not be its origin."""
    lines = ["`hutch run …` puts its change on a branch of this repository"]
    origin = await local.origin()
    if origin is None:
        lines.append("there is no remote `origin` that Hutch could push to")
        return Check("delivery", "ok", _joined(lines))
    url = parse_repo_url(origin)
    run = f"`hutch run --repo {shlex.quote(origin)} …`"
    if url.path is not None:
        lines.append(f"{run} puts it on a branch there")
    elif not tokens.is_github(url):
        lines.append(f"{run} pushes a branch; pull requests are only for GitHub (github.hosts)")
    elif not (source := tokens.source(url)):
        lines.append(f"{run} pushes a branch, but opens no pull request: there is no token")
    elif shutil.which("gh") is None:
        return Check(
            "delivery", "warn", _joined([*lines, f"{run} cannot open a pull request without gh"]), GH
        )
    else:
        lines.append(f"{run} opens a pull request with {source}")
    return Check("delivery", "ok", _joined(lines))


async def _tests(
    local: JailedRepository,
    test_command: Callable[[bytes], str | None],
    timeout_s: float,
    clean: Callable[[str], str],
) -> Check:
    """Check whether the command of `run_tests` can be started."""
    check = await _probe_tests(local, test_command, timeout_s, clean)
    if await local.is_uncommitted(SETTINGS_FILE):
        fix = "\n".join(filter(None, [check.fix, COMMIT_SETTINGS]))
        return Check("tests", "warn", _joined([*check.found.splitlines(), UNCOMMITTED_SETTINGS]), fix)
    return check


async def _probe_tests(
    local: JailedRepository,
    test_command: Callable[[bytes], str | None],
    timeout_s: float,
    clean: Callable[[str], str],
) -> Check:
    runners = await _runners(local, test_command)
    if not runners:
        return Check("tests", "warn", NO_TESTS)
    check_out_s, probe_s = timeout_s / 4, timeout_s / 2
    whole = await local.check_out(VIEW, timeout_s=check_out_s)
    cwd = VIEW if whole else "/tmp"
    first, *others = await asyncio.gather(
        *(probe(local.jail, runner, cwd=cwd, timeout_s=probe_s, clean=clean) for runner in runners)
    )
    lines = [_describe(runners[0], first)]
    lines += [f"also here: {_describe(*other)}" for other in zip(runners[1:], others, strict=True)]
    if not whole:
        lines.append(f"tried without the repository's files: to check them out took over {check_out_s:g} s")
    return Check("tests", "ok" if first.works else "warn", _joined(lines), first.fix)


async def _runners(local: JailedRepository, test_command: Callable[[bytes], str | None]) -> list[Runner]:
    names, loop = await local.names(MAX_NAMES), asyncio.get_running_loop()
    config = await local.read(SETTINGS_FILE) if SETTINGS_FILE in names else None
    command = test_command(config or b"")

    def read(path: str) -> bytes | None:
        if path not in names:
            return None
        return asyncio.run_coroutine_threadsafe(local.read(path), loop).result()

    return await asyncio.to_thread(lambda: list(detect_all(read, names, command=command)))


def _describe(runner: Runner, probed: Probed) -> str:
    if probed.works:
        return f"{runner} works in the jail ({probed.found})"
    return f"{runner} does not work in the jail: {probed.found}"


async def _attempt(name: str, work: Awaitable[Check]) -> Check:
    try:
        return await work
    except HutchError as error:
        return Check(name, "warn", printable(str(error)))


def _same(status: Status, found: str, fix: str = "") -> list[Check]:
    return [Check(name, status, printable(found), fix) for name in ("delivery", "tests")]


def _joined(lines: list[str]) -> str:
    """Join our own lines; their content cannot start another line."""
    return "\n".join(printable(line) for line in lines)
