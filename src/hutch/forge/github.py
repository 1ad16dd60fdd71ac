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

from hutch.domain.errors import Conflict, LimitReached, NotFound, Unavailable
from hutch.forge.gh import ApiResponse, Gh, GitHubFailed
from hutch.forge.github_responses import (
    get_default_branch,
    get_page_url,
    get_text,
    get_value,
    parse_posted,
    parse_pull_request,
    require_text,
)
from hutch.forge.github_types import (
    LineComment,
    MergeMethod,
    NewPullRequest,
    NewReview,
    Permission,
    Posted,
    PullRequest,
    Target,
    ThreadKind,
    Verdicts,
)
from hutch.forge.repo_url import TOKEN_USER, RepoUrl, parse_repo_url

NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9-]{0,99}(?:\[bot\])?")
FULL_NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9-]{0,99}/[A-Za-z0-9._-]{1,100}")
USER = TOKEN_USER
MAX_FORK_POLLS = 30
MAX_PAGES = 30  # of a hundred comments each
DIFF = "application/vnd.github.diff"
TOO_LARGE = 406  # of a diff: more than 300 files or 20,000 lines
OUTSIDERS = ("CONTRIBUTOR", "FIRST_TIMER", "FIRST_TIME_CONTRIBUTOR", "MANNEQUIN", "NONE")  # may not write
METHODS: dict[MergeMethod, str] = {
    "merge": "allow_merge_commit",
    "squash": "allow_squash_merge",
    "rebase": "allow_rebase_merge",
}


@dataclass(frozen=True, slots=True)
class GitHub:
    """A repository on github.com or a server of its kind, by its API."""

    gh: Gh
    remote: RepoUrl  # as it was named

    @property
    def full_name(self) -> str:
        slug = self.remote.slug
        if slug is None:
            raise NotFound(f"{self.remote} names no repository on {self.gh.host}: it has OWNER/NAME there.")
        return "/".join(slug)

    async def target(self) -> Target:
        """Where to push: a copy is made when there is no write access."""
        async with _raise_hutch_errors():
            about = await self._pushable()
            if get_value(about, "permissions", "push") is not False:
                owner = get_text(about, "owner", "login") or self.full_name.partition("/")[0]
                return Target(await self._remote(self.full_name), owner, get_default_branch(about))
            return await self._fork(get_default_branch(about))

    async def check(self) -> None:
        """Refuse what `target` would refuse, and make nothing."""
        async with _raise_hutch_errors():
            await self._pushable()

    async def open(self, wanted: NewPullRequest) -> PullRequest:
        """Propose a branch that was pushed. One that proposes it already is updated instead."""
        async with _raise_hutch_errors():
            found = await self._find(wanted)
            if found is None:
                found = await self._create(wanted)
                response = {"labels": wanted.labels, "reviewers": wanted.reviewers}
                return replace(found, notes=await self._add_labels_and_reviewers(found.number, **response))
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
        said = {name: words for name, words in (("title", title), ("body", body)) if words is not None}
        async with self._pull_request_errors(number):
            answer = await self._request("PATCH" if said else "GET", f"/pulls/{number}", said or None)
            notes = await self._add_labels_and_reviewers(number, labels, reviewers)
            return replace(self._pull(answer.json_object(), number), notes=notes)

    async def pull(self, number: int) -> PullRequest:
        """A pull request as a patch."""
        async with self._pull_request_errors(number):
            return self._pull((await self._request("GET", f"/pulls/{number}")).json_object(), number)

    async def diff(self, number: int) -> bytes:
        async with self._pull_request_errors(number):
            try:
                return (await self._request("GET", f"/pulls/{number}", accept=DIFF)).content
            except GitHubFailed as failed:
                if failed.status != TOO_LARGE:
                    raise
                raise LimitReached(
                    f"The patch of #{number} is larger than {self.gh.host} tells by its API. Look at it in a "
                    f"clone: git fetch origin pull/{number}/head && git diff HEAD...FETCH_HEAD",
                    limit="output_bytes",
                ) from None

    async def merge(self, number: int, *, commit: str, method: MergeMethod | None = None) -> str:
        """Bring a pull request into its base, if it is at `commit`: the commit that came of it, empty where
        that is not told. Without a method, as the repository allows. One that is merged already is fine."""
        async with self._pull_request_errors(number):
            how = {"sha": commit, "merge_method": method or await self._default_method()}
            try:
                return require_text(
                    (await self._request("PUT", f"/pulls/{number}/merge", how)).json_object(), "sha"
                )
            except (
                Unavailable
            ):  # it may be done all the same: only the answer was lost, or others were faster
                found = await self.pull(number)
                if found.state != "merged":
                    raise
                return found.merged_commit

    async def close(self, number: int) -> PullRequest:
        """Close it; what was proposed is not wanted."""
        async with self._pull_request_errors(number):
            response = (await self._request("PATCH", f"/pulls/{number}", {"state": "closed"})).json_object()
            return self._pull(response, number)

    async def delete_branch(self, pull: PullRequest) -> str:
        """Delete the branch of a pull request that is over; why it stays, if it does."""
        if not FULL_NAME.fullmatch(pull.head_repository):
            return ""  # the copy that it was in is gone, and the branch with it
        refs = f"repos/{pull.head_repository}/git"
        branch = quote(pull.branch, safe="/")
        try:
            response = (await self.gh.api("GET", f"{refs}/ref/heads/{branch}")).json_object()
            if get_text(response, "object", "sha") != pull.commit:
                return f"{pull.branch} stays: somebody has pushed to it since."
            await self.gh.api("DELETE", f"{refs}/refs/heads/{branch}")
        except GitHubFailed as failed:
            # Either is how GitHub says that there is none: many repositories delete it by themselves.
            return "" if failed.status in (404, 422) else f"{pull.branch} stays: {failed.error}"
        return ""

    async def comment(self, number: int, body: str, *, id: int | None = None) -> Posted:
        """Say something below an issue or pull request, or replace what comment `id` says."""
        async with _raise_hutch_errors():
            if id is not None:
                try:
                    return self._posted(
                        await self._request("PATCH", f"/issues/comments/{id}", {"body": body})
                    )
                except GitHubFailed as failed:
                    if failed.status != 404:  # it was deleted: say it anew
                        raise
            return self._posted(await self._request("POST", f"/issues/{number}/comments", {"body": body}))

    async def find(self, number: int, marker: str, *, among: ThreadKind = "comments") -> Posted | None:
        """What was said below an issue or pull request, or on lines of it, and holds this text."""
        thread = f"/issues/{number}" if among == "comments" else f"/pulls/{number}"
        what = f"{thread}/reviews" if among == "reviews" else f"{thread}/comments"
        async with _raise_hutch_errors():
            for page in range(1, MAX_PAGES + 1):
                listed = (await self._request("GET", f"{what}?per_page=100&page={page}")).json_list()
                for each in listed:
                    if marker in get_text(each, "body"):
                        return parse_posted(each, self.gh.host)
                if len(listed) < 100:
                    break
        return None

    async def reply(self, number: int, comment_id: int, body: str) -> Posted:
        """Answer a comment on a line."""
        async with _raise_hutch_errors():
            return self._posted(
                await self._request("POST", f"/pulls/{number}/comments/{comment_id}/replies", {"body": body})
            )

    async def comment_on_line(self, number: int, comment: LineComment, *, commit: str) -> Posted:
        """Say something about a line by itself, as it is at `commit`."""
        async with self._pull_request_errors(number):
            about = {"commit_id": commit, **_line_fields(comment)}
            return self._posted(await self._request("POST", f"/pulls/{number}/comments", about))

    async def review(self, number: int, review: NewReview) -> Posted:
        """Who holds it back there. Of strangers, whom anybody may be, nothing is counted."""
        comments = [_line_fields(each) for each in review.comments]
        body = {"commit_id": review.commit, "body": review.body, "event": review.verdict}
        async with self._pull_request_errors(number):
            response = {**body, "comments": comments}
            return self._posted(await self._request("POST", f"/pulls/{number}/reviews", response))

    async def verdicts(self, number: int) -> Verdicts:
        last: dict[str, str] = {}
        urls = set()
        async with self._pull_request_errors(number):
            for page in range(1, MAX_PAGES + 1):
                way = f"/pulls/{number}/reviews?per_page=100&page={page}"
                listed = (await self._request("GET", way)).json_list()
                for each in listed:
                    verdict = get_text(each, "state")
                    counts = get_text(each, "author_association") not in OUTSIDERS
                    if counts and verdict in ("APPROVED", "CHANGES_REQUESTED", "DISMISSED"):
                        last[get_text(each, "user", "login") or "somebody"] = verdict
                        urls.add(get_page_url(each, self.gh.host))
                if len(listed) < 100:
                    break
        against = tuple(login for login, verdict in last.items() if verdict == "CHANGES_REQUESTED")
        return Verdicts(against, frozenset(urls - {""}))

    async def permission(self, user: str) -> Permission:
        """What a person may do with the repository."""
        if not NAME.fullmatch(user):
            return "none"
        async with _raise_hutch_errors():
            try:
                response = (
                    await self._request("GET", f"/collaborators/{quote(user, safe='')}/permission")
                ).json_object()
            except GitHubFailed as failed:
                if failed.status == 404:
                    return "none"
                raise
        for name in (response.get("role_name"), response.get("permission")):
            if name in get_args(Permission):  # a role of the organisation's own has one of these below it
                return cast("Permission", name)
        return "none"

    async def me(self) -> str:
        """Who we are there: a login."""
        async with _raise_hutch_errors():
            return get_text((await self.gh.api("GET", "user")).json_object(), "login")

    # --- inside ---

    def _pull(self, response: Mapping[str, Any], number: int = 0) -> PullRequest:
        """The pull request that was asked for, and no other."""
        found = parse_pull_request(response, self.gh.host)
        if number not in (0, found.number):
            raise Unavailable(f"GitHub's answer is about #{found.number}, and not about #{number}.")
        page = f"https://{self.gh.host}/{self.full_name}/pull/{found.number}"
        return found if found.url else replace(found, url=page)

    def _posted(self, answer: ApiResponse) -> Posted:
        return parse_posted(answer.json_object(), self.gh.host)

    async def _pushable(self) -> dict[str, Any]:
        """What GitHub says of the repository; refused where neither it nor a copy of it can be pushed to."""
        about: dict[str, Any] = (await self._request("GET", "")).json_object()
        if about.get("archived") or about.get("disabled"):
            raise Conflict(f"{self.full_name} is archived: nobody can push to it.")
        if get_value(about, "permissions", "push") is False and about.get("allow_forking") is False:
            raise Conflict(f"There is no right to push to {self.full_name}, and it cannot be forked.")
        return about

    async def _request(
        self, method: str, rest: str, body: Mapping[str, Any] | None = None, **how: Any
    ) -> ApiResponse:
        return await self.gh.api(method, f"repos/{self.full_name}{rest}", body, **how)

    @asynccontextmanager
    async def _pull_request_errors(self, number: int) -> AsyncIterator[None]:
        """Failures as callers know them, where GitHub has one word for a repository and a pull request that
        are not there."""
        async with _raise_hutch_errors():
            try:
                yield
            except GitHubFailed as failed:
                if failed.status != 404:
                    raise
                await self._request("GET", "")  # which tells of a repository that is missing
                raise NotFound(
                    f"There is no pull request #{number} in {self.full_name} on {self.gh.host}, or this "
                    "token may not do that with it."
                ) from None

    async def _default_method(self) -> MergeMethod:
        """How pull requests are merged here: the first way that the repository allows."""
        about = (await self._request("GET", "")).json_object()
        for method, name in METHODS.items():
            if about.get(name) is not False:  # it is not told to everybody
                return method
        return "merge"

    async def _remote(self, full_name: str) -> RepoUrl:
        """Where git is spoken, with the token; on the machine that was named, whatever an answer says."""
        remote, token = self.remote, await self.gh.token()
        if remote.transport == "ssh":
            return replace(
                parse_repo_url(f"https://{remote.host}/{full_name}.git"), credentials=(USER, token)
            )
        start = remote.address.split("/", 3)[:3]
        return replace(remote, address="/".join([*start, f"{full_name}.git"]), credentials=(USER, token))

    async def _fork(self, default: str) -> Target:
        made = (await self._request("POST", "/forks", {}, is_idempotent=True)).json_object()
        full_name = get_text(made, "full_name")
        if not FULL_NAME.fullmatch(full_name):
            raise Unavailable(f"{self.gh.host} did not say where the fork of {self.full_name} is.")
        for _ in range(MAX_FORK_POLLS):  # it is made while we wait
            try:
                await self.gh.api("GET", f"repos/{full_name}")
                owner = full_name.partition("/")[0]
                return Target(await self._remote(full_name), owner, default, forked=True)
            except GitHubFailed as failed:
                if failed.status != 404:
                    raise
            await asyncio.sleep(self.gh.retry_policy.first_delay_s)
        raise Unavailable(f"The fork {full_name} is not ready yet. Deliver it again in a few minutes.")

    async def _find(self, wanted: NewPullRequest) -> PullRequest | None:
        """The pull request of a branch: one that is open, or one of this very commit that no longer is."""
        head = quote(f"{wanted.head_owner}:{wanted.branch}", safe="")
        listed = (await self._request("GET", f"/pulls?state=all&per_page=100&head={head}")).json_list()
        found = [self._pull(each) for each in listed]
        fitting = [each for each in found if each.state == "open" and each.base == wanted.base]
        fitting += [each for each in found if each.state != "open" and each.commit == wanted.commit]
        return fitting[0] if fitting else None

    async def _create(self, wanted: NewPullRequest) -> PullRequest:
        head = wanted.branch
        if wanted.head_owner.lower() != self.full_name.partition("/")[0].lower():
            head = f"{wanted.head_owner}:{head}"
        words = ["pr", "create", "--repo", f"{self.gh.host}/{self.full_name}", f"--head={head}"]
        words += [f"--base={wanted.base}", f"--title={wanted.title}", "--body-file=-"]
        words += ["--draft"] if wanted.draft else []
        failed = await self._run_create(words, wanted)
        if failed and wanted.draft and "draft" in failed.message.lower():  # not every plan has drafts
            failed = await self._run_create([word for word in words if word != "--draft"], wanted)
        # What was opened is looked up, also after an answer that was lost on its way.
        found = await self._find(wanted)
        if found is None:
            raise failed or Unavailable(f"{self.gh.host} opened a pull request that cannot be found.")
        return found

    async def _run_create(self, words: list[str], wanted: NewPullRequest) -> GitHubFailed | None:
        code, _, said = await self.gh.run(*words, stdin=wanted.body.encode(errors="replace"))
        return None if code == 0 else self.gh.failed(said)

    async def _add_labels_and_reviewers(
        self, number: int, labels: tuple[str, ...], reviewers: tuple[str, ...]
    ) -> tuple[str, ...]:
        """Labels and reviewers, as far as they can be had: none of them is worth failing for."""
        notes = []
        if labels:
            try:
                await self._request(
                    "POST", f"/issues/{number}/labels", {"labels": list(labels)}, is_idempotent=True
                )
            except GitHubFailed as failed:
                notes.append(f"The labels {', '.join(labels)} were not set: {failed.error}")
        for reviewer in reviewers:
            owner, slash, team = reviewer.rpartition("/")
            asked = {"team_reviewers": [team]} if slash and owner else {"reviewers": [reviewer]}
            try:
                await self._request("POST", f"/pulls/{number}/requested_reviewers", asked, is_idempotent=True)
            except GitHubFailed as failed:
                notes.append(f"{reviewer} was not asked for a review: {failed.error}")
        return tuple(notes)


@asynccontextmanager
async def _raise_hutch_errors() -> AsyncIterator[None]:
    """Failures as callers know them."""
    try:
        yield
    except GitHubFailed as failed:
        raise failed.error from None


def _line_fields(comment: LineComment) -> dict[str, Any]:
    about: dict[str, Any] = {"path": comment.path, "line": comment.line, "side": comment.side}
    if comment.start_line is not None and comment.start_line < comment.line:
        about |= {"start_line": comment.start_line, "start_side": comment.side}
    return {**about, "body": comment.body}
