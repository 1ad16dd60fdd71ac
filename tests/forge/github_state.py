"""The state of a GitHub: real bare repositories, users, tokens, pull requests."""

import subprocess
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from tests.forge.repositories import git

RANKS = ("none", "read", "triage", "write", "maintain", "admin")


@dataclass
class Repository:
    """One repository, with a bare one of git's behind it."""

    owner: str
    name: str
    path: Path
    private: bool = False
    default: str = "main"
    permissions: dict[str, str] = field(default_factory=dict)
    fork_of: "Repository | None" = None
    pulls: dict[int, dict[str, Any]] = field(default_factory=dict)
    issues: dict[int, dict[str, Any]] = field(default_factory=dict)  # pull requests are issues, too
    labels: set[str] = field(default_factory=set)
    methods: tuple[str, ...] = ("merge_commit", "squash_merge", "rebase_merge")  # that are allowed
    number: int = 0

    @property
    def full_name(self) -> str:
        return f"{self.owner}/{self.name}"

    def rank(self, login: str) -> int:
        given = "admin" if login == self.owner else self.permissions.get(login, "none")
        return max(RANKS.index(given), 0 if self.private else 1)

    def tip(self, branch: str) -> str | None:
        loose = self.path / "refs" / "heads" / branch
        if loose.is_file():  # it mostly is, and is read for almost every answer
            return loose.read_text().strip()
        ran = subprocess.run(
            ["git", "rev-parse", "--verify", "--quiet", f"refs/heads/{branch}"],
            cwd=self.path,
            capture_output=True,
            check=False,
        )
        return ran.stdout.decode().strip() or None

    def branches(self) -> list[str]:
        return git(self.path, "for-each-ref", "--format=%(refname:short)", "refs/heads").split()


class State:
    """All of it. `tokens` says whose each is."""

    def __init__(self, root: Path) -> None:
        self.root = root
        self.repositories: dict[str, Repository] = {}
        self.tokens: dict[str, str] = {}
        self.ids = 1000

    def next_id(self) -> int:
        self.ids += 1
        return self.ids

    def add(self, full_name: str, source: Path | None, **given: Any) -> Repository:
        """A repository as a copy of another, or an empty one."""
        owner, name = full_name.split("/")
        path = self.root / owner / f"{name}.git"
        path.parent.mkdir(parents=True, exist_ok=True)
        if source is None:
            git(path.parent, "init", "--quiet", "--bare", path.name)
        else:
            git(path.parent, "clone", "--quiet", "--bare", str(source), path.name)
        git(path, "config", "http.receivepack", "true")
        git(path, "config", "uploadpack.allowFilter", "true")
        git(path, "config", "uploadpack.allowAnySHA1InWant", "true")
        repo = Repository(owner, name, path, **given)
        self.repositories[full_name.lower()] = repo
        return repo

    def find(self, full_name: str, login: str) -> Repository | None:
        """A repository, if it is there for this person."""
        repo = self.repositories.get(full_name.lower())
        return repo if repo and repo.rank(login) > 0 else None

    def fork(self, repo: Repository, login: str) -> Repository:
        there = self.repositories.get(f"{login}/{repo.name}".lower())
        return there or self.add(f"{login}/{repo.name}", repo.path, default=repo.default, fork_of=repo)

    def head_of(self, repo: Repository, head: str) -> tuple[Repository, str] | None:
        """The repository and the branch that `branch` or `owner:branch` means."""
        owner, _, branch = head.rpartition(":")
        if not owner or owner == repo.owner:
            return repo, branch
        there = self.repositories.get(f"{owner}/{repo.name}".lower())
        return (there, branch) if there and there.fork_of is repo else None

    def new_issue(self, repo: Repository, login: str, title: str, body: str) -> dict[str, Any]:
        repo.number += 1
        issue = {
            "number": repo.number,
            "title": title,
            "body": body,
            "user": {"login": login},
            "labels": [],
            "comments": {},
            "state": "open",
        }
        repo.issues[repo.number] = issue
        return issue

    def new_pull(
        self, repo: Repository, login: str, *, head: str, base: str, title: str, body: str, draft: bool
    ) -> dict[str, Any] | str:
        """A pull request, or why there can be none."""
        found = self.head_of(repo, head)
        if found is None or found[0].tip(found[1]) is None:
            return "Head sha can't be blank, Head ref must be a branch"
        source, branch = found
        if repo.tip(base) is None:
            return "Base ref must be a branch"
        if source.tip(branch) == repo.tip(base):
            return f"No commits between {repo.owner}:{base} and {source.owner}:{branch}"
        for pull in self.pulls(repo):
            if (pull["source"], pull["branch"], pull["base"], pull["state"]) == (
                source,
                branch,
                base,
                "open",
            ):
                return f"A pull request already exists for {source.owner}:{branch}."
        issue = self.new_issue(repo, login, title, body)
        issue |= {"source": source, "branch": branch, "base": base, "draft": draft, "merged": False}
        issue |= {"reviewers": [], "reviews": [], "id": f"PR_{issue['number']}"}
        repo.pulls[issue["number"]] = issue
        return issue

    def pulls(self, repo: Repository) -> Iterator[dict[str, Any]]:
        yield from reversed(repo.pulls.values())

    def close(self, repo: Repository, number: int, *, merged: bool = False) -> None:
        """Close it as a user; later pushes are no longer part of it."""
        pull = repo.pulls[number]
        pull |= {"state": "closed", "merged": merged, "sha": pull["source"].tip(pull["branch"])}

    def merge(self, repo: Repository, pull: dict[str, Any], method: str) -> str | None:
        """The commit that the base is at then; None when both have changed the same."""
        tip, head = repo.tip(pull["base"]), pull["source"].tip(pull["branch"])
        git(repo.path, "fetch", "-q", str(pull["source"].path), head)
        ran = subprocess.run(
            ["git", "merge-tree", "--write-tree", tip, head], cwd=repo.path, capture_output=True, check=False
        )
        if ran.returncode:
            return None
        tree = ran.stdout.decode().split("\n")[0]
        parents = ["-p", tip, "-p", head] if method == "merge_commit" else ["-p", tip]
        made = git(repo.path, "commit-tree", tree, *parents, "-m", f"{pull['title']} ({method})")
        git(repo.path, "update-ref", f"refs/heads/{pull['base']}", made)
        self.close(repo, pull["number"], merged=True)
        pull["merge_commit"] = made
        return made
