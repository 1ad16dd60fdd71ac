"""One repository on GitHub, through `gh`.

Every call can be repeated after a crash: it first searches for an existing pull request.
"""

import asyncio
import re
from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager
from dataclasses import replace
from typing import Any, cast, get_args
from urllib.parse import quote

from hutch.domain.errors import Conflict, LimitReached, NotFound, Unavailable
from hutch.forge.gh_command import ApiResponse, Gh, GitHubFailed
from hutch.forge.github_api_types import (
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
from hutch.forge.github_responses import (
    get_default_branch,
    get_page_url,
    get_text,
    get_value,
    parse_posted,
    parse_pull_request,
    require_text,
)
from hutch.forge.repo_url import TOKEN_USER, RepoUrl, parse_repo_url
from hutch.system.lazy_dataclass import dataclass

NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9-]{0,99}(?:\[bot\])?")
FULL_NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9-]{0,99}/[A-Za-z0-9._-]{1,100}")
USER = TOKEN_USER
MAX_FORK_POLLS = 30
MAX_PAGES = 30  # with a hundred comments each
DIFF = "application/vnd.github.diff"
TOO_LARGE = 406  # of a diff: more than 300 files or 20,000 lines
# Without write access.
OUTSIDERS = ("CONTRIBUTOR", "FIRST_TIMER", "FIRST_TIME_CONTRIBUTOR", "MANNEQUIN", "NONE")
METHODS: dict[MergeMethod, str] = {
    "merge": "allow_merge_commit",
    "squash": "allow_squash_merge",
    "rebase": "allow_rebase_merge",
}


@dataclass(frozen=True, slots=True)
class GitHub:
    """The API of a repository on github.com or a GitHub Enterprise Server."""

    gh: Gh
    remote: RepoUrl  # as the user gave it

    @property
    def full_name(self) -> str:
        slug = self.remote.slug
        if slug is None:
            raise NotFound(f"{self.remote} is not a repository on {self.gh.host}, which has OWNER/NAME.")
        return "/".join(slug)

    async def target(self) -> Target:
        """Where to push. Creates a fork if there is no write access."""
        async with _raise_hutch_errors():
            about = await self._pushable()
            if get_value(about, "permissions", "push") is not False:
                owner = get_text(about, "owner", "login") or self.full_name.partition("/")[0]
                return Target(await self._remote(self.full_name), owner, get_default_branch(about))
            return await self._fork(get_default_branch(about))

    async def check(self) -> None:
        """Raise the errors that `target` would raise, and create no fork."""
        async with _raise_hutch_errors():
            await self._pushable()

    async def open(self, new: NewPullRequest) -> PullRequest:
        """Open a pull request for a pushed branch, or update the existing one."""
        async with _raise_hutch_errors():
            found = await self._find(new)
            if found is None:
                found = await self._create(new)
                notes = await self._add_labels_and_reviewers(found.number, new.labels, new.reviewers)
                return replace(found, notes=notes)
            if found.state != "open":
                return found  # a user has already merged or closed it
        return await self.update(
            found.number, title=new.title, body=new.body, labels=new.labels, reviewers=new.reviewers
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
        fields = {name: words for name, words in (("title", title), ("body", body)) if words is not None}
        async with self._pull_request_errors(number):
            response = await self._request("PATCH" if fields else "GET", f"/pulls/{number}", fields or None)
            notes = await self._add_labels_and_reviewers(number, labels, reviewers)
            return replace(self._pull(response.json_object(), number), notes=notes)

    async def pull(self, number: int) -> PullRequest:
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
                    f"The patch of #{number} is too large for the API of {self.gh.host}. View it in a "
                    f"clone: git fetch origin pull/{number}/head && git diff HEAD...FETCH_HEAD",
                    limit="output_bytes",
                ) from None

    async def merge(self, number: int, *, commit: str, method: MergeMethod | None = None) -> str:
        """Merge a pull request if it is at `commit`, and return the new commit, empty if unknown.

        Without a method, uses one that the repository allows. It may already be merged.
        """
        async with self._pull_request_errors(number):
            how = {"sha": commit, "merge_method": method or await self._default_method()}
            try:
                return require_text(
                    (await self._request("PUT", f"/pulls/{number}/merge", how)).json_object(), "sha"
                )
            except Unavailable:  # it may be merged: the response was lost, or another user merged it
                found = await self.pull(number)
                if found.state != "merged":
                    raise
                return found.merged_commit

    async def close(self, number: int) -> PullRequest:
        async with self._pull_request_errors(number):
            response = (await self._request("PATCH", f"/pulls/{number}", {"state": "closed"})).json_object()
            return self._pull(response, number)

    async def delete_branch(self, pull: PullRequest) -> str:
        """Delete the branch of a closed pull request. Returns why it was not deleted, if so."""
        if not FULL_NAME.fullmatch(pull.head_repository):
            return ""  # the fork was deleted with the branch
        refs = f"repos/{pull.head_repository}/git"
        branch = quote(pull.branch, safe="/")
        try:
            response = (await self.gh.api("GET", f"{refs}/ref/heads/{branch}")).json_object()
            if get_text(response, "object", "sha") != pull.commit:
                return f"{pull.branch} was not deleted: it has new commits."
            await self.gh.api("DELETE", f"{refs}/refs/heads/{branch}")
        except GitHubFailed as failed:
            # Both mean that there is no such branch: many repositories delete it automatically.
            return "" if failed.status in (404, 422) else f"{pull.branch} was not deleted: {failed.error}"
        return ""

    async def comment(self, number: int, body: str, *, id: int | None = None) -> Posted:
        """Comment on an issue or pull request, or replace the text of comment `id`."""
        async with _raise_hutch_errors():
            if id is not None:
                try:
                    return self._posted(
                        await self._request("PATCH", f"/issues/comments/{id}", {"body": body})
                    )
                except GitHubFailed as failed:
                    if failed.status != 404:  # it was deleted: post it again
                        raise
            return self._posted(await self._request("POST", f"/issues/{number}/comments", {"body": body}))

    async def find(self, number: int, marker: str, *, among: ThreadKind = "comments") -> Posted | None:
        """The first comment or review that contains this text."""
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
        """Comment on a single line at `commit`."""
        async with self._pull_request_errors(number):
            about = {"commit_id": commit, **_line_fields(comment)}
            return self._posted(await self._request("POST", f"/pulls/{number}/comments", about))

    async def review(self, number: int, review: NewReview) -> Posted:
        fields: dict[str, Any] = {"commit_id": review.commit, "body": review.body, "event": review.verdict}
        fields["comments"] = [_line_fields(each) for each in review.comments]
        async with self._pull_request_errors(number):
            return self._posted(await self._request("POST", f"/pulls/{number}/reviews", fields))

    async def verdicts(self, number: int) -> Verdicts:
        """The verdicts of users with write access. Others do not count: anybody can post them."""
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
                        last[get_text(each, "user", "login") or "an unknown user"] = verdict
                        urls.add(get_page_url(each, self.gh.host))
                if len(listed) < 100:
                    break
        against = tuple(login for login, verdict in last.items() if verdict == "CHANGES_REQUESTED")
        return Verdicts(against, frozenset(urls - {""}))

    async def permission(self, user: str) -> Permission:
        """The permission of a user in the repository."""
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
            if name in get_args(Permission):  # a custom role is based on one of these
                return cast("Permission", name)
        return "none"

    async def me(self) -> str:
        """The login that the token belongs to."""
        async with _raise_hutch_errors():
            return get_text((await self.gh.api("GET", "user")).json_object(), "login")

    # --- inside ---

    def _pull(self, response: Mapping[str, Any], number: int = 0) -> PullRequest:
        """Parse a pull request, and check that it has the requested number."""
        found = parse_pull_request(response, self.gh.host)
        if number not in (0, found.number):
            raise Unavailable(f"GitHub's response is about #{found.number} instead of #{number}.")
        page = f"https://{self.gh.host}/{self.full_name}/pull/{found.number}"
        return found if found.url else replace(found, url=page)

    def _posted(self, response: ApiResponse) -> Posted:
        return parse_posted(response.json_object(), self.gh.host)

    async def _pushable(self) -> dict[str, Any]:
        """The repository's fields. Refuses one that can be neither pushed to nor forked."""
        about: dict[str, Any] = (await self._request("GET", "")).json_object()
        if about.get("archived") or about.get("disabled"):
            raise Conflict(f"{self.full_name} is archived, so it accepts no pushes.")
        if get_value(about, "permissions", "push") is False and about.get("allow_forking") is False:
            raise Conflict(f"The token may not push to {self.full_name}, which cannot be forked.")
        return about

    async def _request(
        self, method: str, rest: str, body: Mapping[str, Any] | None = None, **how: Any
    ) -> ApiResponse:
        return await self.gh.api(method, f"repos/{self.full_name}{rest}", body, **how)

    @asynccontextmanager
    async def _pull_request_errors(self, number: int) -> AsyncIterator[None]:
        """Raise Hutch errors. A 404 may mean a missing repository or a missing pull request."""
        async with _raise_hutch_errors():
            try:
                yield
            except GitHubFailed as failed:
                if failed.status != 404:
                    raise
                await self._request("GET", "")  # raises an error if the repository is missing
                raise NotFound(
                    f"There is no pull request #{number} in {self.full_name} on {self.gh.host}, or this "
                    "token lacks the permission."
                ) from None

    async def _default_method(self) -> MergeMethod:
        """The first merge method that the repository allows."""
        about = (await self._request("GET", "")).json_object()
        for method, name in METHODS.items():
            if about.get(name) is not False:  # the field is missing for some users
                return method
        return "merge"

    async def _remote(self, full_name: str) -> RepoUrl:
        """The address for git, with the token. Its host never depends on a response."""
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
            raise Unavailable(f"{self.gh.host} did not name the fork of {self.full_name}.")
        for _ in range(MAX_FORK_POLLS):  # GitHub creates it asynchronously
            try:
                await self.gh.api("GET", f"repos/{full_name}")
                owner = full_name.partition("/")[0]
                return Target(await self._remote(full_name), owner, default, forked=True)
            except GitHubFailed as failed:
                if failed.status != 404:
                    raise
            await asyncio.sleep(self.gh.retry_policy.first_delay_s)
        raise Unavailable(f"The fork {full_name} is not ready yet. Deliver again in a few minutes.")

    async def _find(self, new: NewPullRequest) -> PullRequest | None:
        """The open pull request of a branch, or a closed one of this commit."""
        head = quote(f"{new.head_owner}:{new.branch}", safe="")
        listed = (await self._request("GET", f"/pulls?state=all&per_page=100&head={head}")).json_list()
        found = [self._pull(each) for each in listed]
        matching = [each for each in found if each.state == "open" and each.base == new.base]
        matching += [each for each in found if each.state != "open" and each.commit == new.commit]
        return matching[0] if matching else None

    async def _create(self, new: NewPullRequest) -> PullRequest:
        head = new.branch
        if new.head_owner.lower() != self.full_name.partition("/")[0].lower():
            head = f"{new.head_owner}:{head}"
        words = ["pr", "create", "--repo", f"{self.gh.host}/{self.full_name}", f"--head={head}"]
        words += [f"--base={new.base}", f"--title={new.title}", "--body-file=-"]
        words += ["--draft"] if new.draft else []
        failed = await self._run_create(words, new)
        if failed and new.draft and "draft" in failed.message.lower():  # not every plan supports drafts
            failed = await self._run_create([word for word in words if word != "--draft"], new)
        # Search for it even after a failure: the response may have been lost.
        found = await self._find(new)
        if found is None:
            raise failed or Unavailable(f"{self.gh.host} opened a pull request but does not list it.")
        return found

    async def _run_create(self, words: list[str], new: NewPullRequest) -> GitHubFailed | None:
        code, _, stderr = await self.gh.run(*words, stdin=new.body.encode(errors="replace"))
        return None if code == 0 else self.gh.failed(stderr)

    async def _add_labels_and_reviewers(
        self, number: int, labels: tuple[str, ...], reviewers: tuple[str, ...]
    ) -> tuple[str, ...]:
        """Set labels and request reviewers. Returns notes about failures instead of raising."""
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
                notes.append(f"No review was requested from {reviewer}: {failed.error}")
        return tuple(notes)


@asynccontextmanager
async def _raise_hutch_errors() -> AsyncIterator[None]:
    """Raise the Hutch error of a failed request."""
    try:
        yield
    except GitHubFailed as failed:
        raise failed.error from None


def _line_fields(comment: LineComment) -> dict[str, Any]:
    about: dict[str, Any] = {"path": comment.path, "line": comment.line, "side": comment.side}
    if comment.start_line is not None and comment.start_line < comment.line:
        about |= {"start_line": comment.start_line, "start_side": comment.side}
    return {**about, "body": comment.body}
