"""One repository on GitHub, through `gh`.

Whatever is done here can be done again after a crash: a pull request is looked for
before one is opened, and what was said before is said anew.
"""

import asyncio
import re
from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager
from dataclasses import dataclass, replace
from typing import Any, cast, get_args
from urllib.parse import quote

from hutch.domain.errors import Conflict, NotFound, Unavailable
from hutch.forge.gh import Answer, Gh, GitHubFailed
from hutch.forge.repo_url import RepoUrl, parse_repo_url
from hutch.forge.seam import (
    Permission,
    Posted,
    PullRequest,
    PullRequestWanted,
    PullState,
    Review,
    Spoken,
    Target,
)

NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9-]{0,99}(?:\[bot\])?")
FULL_NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9-]{0,99}/[A-Za-z0-9._-]{1,100}")
USER = "x-access-token"
FORK_TRIES = 30
MOST_PAGES = 30  # of a hundred comments each
DIFF = "application/vnd.github.diff"


@dataclass(frozen=True, slots=True)
class GitHub:
    """`Forge` for a repository on github.com or a server of its kind."""

    gh: Gh
    remote: RepoUrl  # as it was named

    @property
    def full_name(self) -> str:
        slug = self.remote.slug
        if slug is None:
            raise NotFound(f"{self.remote} names no repository on {self.gh.host}: it has OWNER/NAME there.")
        return "/".join(slug)

    async def target(self) -> Target:
        async with _plainly():
            about = (await self._ask("GET", "")).told()
            if about.get("archived") or about.get("disabled"):
                raise Conflict(f"{self.full_name} is archived: nobody can push to it.")
            if _at(about, "permissions", "push") is not False:
                owner = _text(about, "owner", "login") or self.full_name.partition("/")[0]
                return Target(await self._remote(self.full_name), owner, _default(about))
            if about.get("allow_forking") is False:
                raise Conflict(f"There is no right to push to {self.full_name}, and it cannot be forked.")
            return await self._fork(_default(about))

    async def open(self, wanted: PullRequestWanted) -> PullRequest:
        async with _plainly():
            found = await self._find(wanted)
            if found is None:
                found = await self._create(wanted)
                told = {"labels": wanted.labels, "reviewers": wanted.reviewers}
                return replace(found, notes=await self._adorn(found.number, **told))
            if found.state != "open":
                return found  # somebody was faster, and it is as they want it
        return await self.update(
            found.number,
            title=wanted.title,
            body=wanted.body,
            labels=wanted.labels,
            reviewers=wanted.reviewers,
        )

    async def update(
        self,
        number: int,
        *,
        title: str | None = None,
        body: str | None = None,
        labels: tuple[str, ...] = (),
        reviewers: tuple[str, ...] = (),
    ) -> PullRequest:
        said = {name: text for name, text in (("title", title), ("body", body)) if text is not None}
        async with _plainly():
            answer = await self._ask("PATCH" if said else "GET", f"/pulls/{number}", said or None)
            notes = await self._adorn(number, labels, reviewers)
            return replace(_pull(answer.told()), notes=notes)

    async def pull(self, number: int) -> PullRequest:
        async with _plainly():
            return _pull((await self._ask("GET", f"/pulls/{number}")).told())

    async def diff(self, number: int) -> bytes:
        async with _plainly():
            return (await self._ask("GET", f"/pulls/{number}", accept=DIFF)).content

    async def comment(self, number: int, body: str, *, id: int | None = None) -> Posted:
        async with _plainly():
            if id is not None:
                try:
                    return _posted(await self._ask("PATCH", f"/issues/comments/{id}", {"body": body}))
                except GitHubFailed as failed:
                    if failed.status != 404:  # it was deleted: say it anew
                        raise
            return _posted(await self._ask("POST", f"/issues/{number}/comments", {"body": body}))

    async def find(self, number: int, marker: str, *, among: Spoken = "comments") -> Posted | None:
        thread = f"/issues/{number}" if among == "comments" else f"/pulls/{number}"
        what = f"{thread}/reviews" if among == "reviews" else f"{thread}/comments"
        async with _plainly():
            for page in range(1, MOST_PAGES + 1):
                listed = (await self._ask("GET", f"{what}?per_page=100&page={page}")).listed()
                for each in listed:
                    if marker in _text(each, "body"):
                        return Posted(_number(each, "id"), _text(each, "html_url"))
                if len(listed) < 100:
                    break
        return None

    async def reply(self, number: int, comment_id: int, body: str) -> Posted:
        async with _plainly():
            return _posted(
                await self._ask("POST", f"/pulls/{number}/comments/{comment_id}/replies", {"body": body})
            )

    async def review(self, number: int, review: Review) -> Posted:
        comments: list[dict[str, Any]] = []
        for each in review.comments:
            about: dict[str, Any] = {"path": each.path, "line": each.line, "side": each.side}
            if each.start_line is not None and each.start_line < each.line:
                about |= {"start_line": each.start_line, "start_side": each.side}
            comments.append({**about, "body": each.body})
        body = {"commit_id": review.commit, "body": review.body, "event": review.verdict}
        async with _plainly():
            return _posted(
                await self._ask("POST", f"/pulls/{number}/reviews", {**body, "comments": comments})
            )

    async def permission(self, user: str) -> Permission:
        if not NAME.fullmatch(user):
            return "none"
        async with _plainly():
            try:
                told = (await self._ask("GET", f"/collaborators/{quote(user, safe='')}/permission")).told()
            except GitHubFailed as failed:
                if failed.status == 404:
                    return "none"
                raise
        for name in (told.get("role_name"), told.get("permission")):
            if name in get_args(Permission):  # a role of the organisation's own has one of these below it
                return cast("Permission", name)
        return "none"

    async def me(self) -> str:
        async with _plainly():
            return _text((await self.gh.api("GET", "user")).told(), "login")

    # --- inside ---

    async def _ask(self, method: str, rest: str, body: Mapping[str, Any] | None = None, **how: Any) -> Answer:
        return await self.gh.api(method, f"repos/{self.full_name}{rest}", body, **how)

    async def _remote(self, full_name: str) -> RepoUrl:
        """Where git is spoken, with the token; on the machine that was named, whatever an answer says."""
        remote, token = self.remote, await self.gh.token()
        if remote.transport == "ssh":
            return replace(
                parse_repo_url(f"https://{remote.host}/{full_name}.git"), credentials=(USER, token)
            )
        start = remote.shown.split("/", 3)[:3]
        return replace(remote, shown="/".join([*start, f"{full_name}.git"]), credentials=(USER, token))

    async def _fork(self, default: str) -> Target:
        made = (await self._ask("POST", "/forks", {}, again=True)).told()
        full_name = _text(made, "full_name")
        if not FULL_NAME.fullmatch(full_name):
            raise Unavailable(f"{self.gh.host} did not say where the fork of {self.full_name} is.")
        for _ in range(FORK_TRIES):  # it is made while we wait
            try:
                await self.gh.api("GET", f"repos/{full_name}")
                owner = full_name.partition("/")[0]
                return Target(await self._remote(full_name), owner, default, forked=True)
            except GitHubFailed as failed:
                if failed.status != 404:
                    raise
            await asyncio.sleep(self.gh.patience.first_pause_s)
        raise Unavailable(f"The fork {full_name} is not ready yet. Deliver it again in a few minutes.")

    async def _find(self, wanted: PullRequestWanted) -> PullRequest | None:
        """The pull request of a branch: one that is open, or one of this very commit that no longer is."""
        head = quote(f"{wanted.head_owner}:{wanted.branch}", safe="")
        listed = (await self._ask("GET", f"/pulls?state=all&per_page=100&head={head}")).listed()
        found = [_pull(each) for each in listed]
        fitting = [each for each in found if each.state == "open" and each.base == wanted.base]
        fitting += [each for each in found if each.state != "open" and each.commit == wanted.commit]
        return fitting[0] if fitting else None

    async def _create(self, wanted: PullRequestWanted) -> PullRequest:
        head = wanted.branch
        if wanted.head_owner.lower() != self.full_name.partition("/")[0].lower():
            head = f"{wanted.head_owner}:{head}"
        words = ["pr", "create", "--repo", f"{self.gh.host}/{self.full_name}", f"--head={head}"]
        words += [f"--base={wanted.base}", f"--title={wanted.title}", "--body-file=-"]
        words += ["--draft"] if wanted.draft else []
        failed = await self._created(words, wanted)
        if failed and wanted.draft and "draft" in failed.said.lower():  # not every plan has drafts
            failed = await self._created([word for word in words if word != "--draft"], wanted)
        # What was opened is looked up, also after an answer that was lost on its way.
        found = await self._find(wanted)
        if found is None:
            raise failed or Unavailable(f"{self.gh.host} opened a pull request that cannot be found.")
        return found

    async def _created(self, words: list[str], wanted: PullRequestWanted) -> GitHubFailed | None:
        code, _, said = await self.gh.run(*words, stdin=wanted.body.encode(errors="replace"))
        return None if code == 0 else self.gh.failed(said)

    async def _adorn(
        self, number: int, labels: tuple[str, ...], reviewers: tuple[str, ...]
    ) -> tuple[str, ...]:
        """Labels and reviewers, as far as they can be had: none of them is worth failing for."""
        notes = []
        if labels:
            try:
                await self._ask("POST", f"/issues/{number}/labels", {"labels": list(labels)}, again=True)
            except GitHubFailed as failed:
                notes.append(f"The labels {', '.join(labels)} were not set: {failed.error}")
        for reviewer in reviewers:
            owner, slash, team = reviewer.rpartition("/")
            asked = {"team_reviewers": [team]} if slash and owner else {"reviewers": [reviewer]}
            try:
                await self._ask("POST", f"/pulls/{number}/requested_reviewers", asked, again=True)
            except GitHubFailed as failed:
                notes.append(f"{reviewer} was not asked for a review: {failed.error}")
        return tuple(notes)


@asynccontextmanager
async def _plainly() -> AsyncIterator[None]:
    """Failures as callers know them."""
    try:
        yield
    except GitHubFailed as failed:
        raise failed.error from None


def _at(told: Any, *names: str) -> Any:
    """What is told there; None when nothing is."""
    for name in names:
        told = told.get(name) if isinstance(told, dict) else None
    return told


def _text(told: Any, *names: str) -> str:
    found = _at(told, *names)
    return found if isinstance(found, str) else ""


def _need(told: Any, *names: str) -> str:
    if found := _text(told, *names):
        return found
    raise _lacks(names)


def _number(told: Any, name: str) -> int:
    found = _at(told, name)
    if isinstance(found, int) and not isinstance(found, bool) and found > 0:
        return found
    raise _lacks((name,))


def _lacks(names: tuple[str, ...]) -> Unavailable:
    return Unavailable(f"GitHub's answer does not say {'.'.join(names)}. Try again later.")


def _default(about: Mapping[str, Any]) -> str:
    return _text(about, "default_branch") or "main"


def _posted(answer: Answer) -> Posted:
    told = answer.told()
    return Posted(_number(told, "id"), _text(told, "html_url"))


def _pull(told: Mapping[str, Any]) -> PullRequest:
    is_open = _need(told, "state") == "open"
    state: PullState = "merged" if told.get("merged_at") else "open" if is_open else "closed"
    return PullRequest(
        number=_number(told, "number"),
        url=_need(told, "html_url"),
        title=_text(told, "title"),
        body=_text(told, "body"),
        state=state,
        draft=told.get("draft") is True,
        author=_text(told, "user", "login"),
        base=_need(told, "base", "ref"),
        base_commit=_text(told, "base", "sha"),
        branch=_need(told, "head", "ref"),
        head_owner=_text(told, "head", "user", "login"),
        commit=_text(told, "head", "sha"),
    )
