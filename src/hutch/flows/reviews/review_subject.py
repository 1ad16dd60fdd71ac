"""The subject of a review: a change of Hutch or any pull request, at one commit."""

import re
from dataclasses import replace

from hutch.domain.errors import BadRequest, Conflict
from hutch.domain.git_patch import Patch, parse_patch
from hutch.domain.proposed_change import Change
from hutch.flows.change_flow_services import ChangeContext
from hutch.forge.github_forge import web_address
from hutch.forge.repo_url import parse_repo_url
from hutch.store.proposed_changes import Changes
from hutch.system.lazy_dataclass import dataclass

PULL = re.compile(r"(https?://[^/?#\s@]+/[^/?#\s]+/[^/?#\s]+)/pull/(\d{1,9})(?:[/?#]\S*)?")
MAX_READS = 3  # of a pull request that changes in the meantime


@dataclass(frozen=True, slots=True, kw_only=True)
class Subject:
    """The change or pull request under review."""

    change_id: str = ""  # one of the two
    pull_url: str = ""
    title: str
    body: str
    base: str
    base_commit: str
    commit: str
    diff: bytes
    moved_to: str = ""  # by later pushes: the diff at `commit` is no longer available

    @property
    def patch(self) -> Patch:
        return parse_patch(self.diff)


def parse_pull_url(text: str) -> tuple[str, int]:
    """The repository and the number of a pull request, by its address."""
    found = PULL.fullmatch(text.strip())
    if not found or not int(found[2]):
        raise BadRequest(
            f"'{ascii(text[:200])[1:-1]}' is not a pull request. One looks like "
            "https://github.com/OWNER/NAME/pull/7. Work that is not on GitHub is reviewed as a change of a "
            "clone on this machine."
        )
    return found[1], int(found[2])


async def find_subject(
    context: ChangeContext, target: str, *, user: str = "", commit: str = ""
) -> tuple[str, Subject]:
    """The repository and the subject of a review, by a change's name or a pull request's address.

    With `commit`, the subject at that commit; if a pull request has moved on since, only that is known. A
    pull request named by its address does not count as a change of Hutch, see `find_change_at`.
    """
    if "://" in target:
        ours = await find_change_at(context, target)
        change = pull_request(_address(ours) if ours else target)
    else:
        change = await Changes(context.rows).find(target)
        change = replace(change, commit=commit or change.commit)
    forge = await context.forge_of(change, user)
    now, diff = await forge.read(change), b""
    for _ in range(MAX_READS):
        if commit not in ("", now.commit):
            break
        diff, before = await forge.diff(change), now
        now = await forge.read(change)
        if now.commit == before.commit:
            break
    else:
        raise Conflict(f"{now.pull_url} changes too often. Try again later.")
    is_moved = commit not in ("", now.commit)
    subject = Subject(
        change_id=change.id,
        pull_url=now.pull_url,
        title=now.title,
        body=now.body,
        base=now.base,
        base_commit=now.base_commit,
        commit=commit or now.commit,
        diff=b"" if is_moved else diff,
        moved_to=now.commit if is_moved else "",
    )
    return now.repository, subject


async def find_change_at(context: ChangeContext, url: str) -> Change | None:
    """The newest change of Hutch behind a pull request, however its address is spelled."""
    repository, number = parse_pull_url(url)
    ours = await Changes(context.rows).of_number(number)
    place = _place(repository)
    exactly = (each for each in ours if _place(each.repository) == place)
    called = (each for each in ours if each.web_url.partition("://")[2].lower() == f"{place}/pull/{number}")
    return next(exactly, None) or next(called, None)


def pull_request(url: str) -> Change:
    """A pull request that is not a change of Hutch, with the facts in its address."""
    repository, number = parse_pull_url(url)
    repository = parse_repo_url(repository).address.removesuffix(".git").lower()  # one spelling of many
    return Change(
        id="",
        session_id="",
        run_id="",
        repository=repository,
        branch="",
        base="",
        base_commit="",
        commit="",
        title="",
        body="",
        tests="",
        created_ms=0,
        forge="github",
        number=number,
    )


def _place(repository: str) -> str:
    """A repository's address in the form used for comparison."""
    return web_address(repository).partition("://")[2].lower()


def _address(change: Change) -> str:
    """The address of a pull request, from the address that it was pushed to: the forge's own name may lack
    the port."""
    return f"{web_address(change.repository)}/pull/{change.number}"
