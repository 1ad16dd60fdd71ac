"""The part of GitHub's API that Hutch uses, with its permissions."""

import re
import subprocess
import time
from collections.abc import Mapping
from typing import Any

from joserfc import jwt
from joserfc.errors import JoseError
from joserfc.jwk import RSAKey

from hutch.domain.git_patch import parse_patch
from tests.forge.github_state import RANKS, Repository, State
from tests.forge.repositories import git

Answer = tuple[int, Any]
MISSING: Answer = (404, {"message": "Not Found"})
OWN = {"APPROVE": "approve", "REQUEST_CHANGES": "request changes on"}
STATES = {"COMMENT": "COMMENTED", "APPROVE": "APPROVED", "REQUEST_CHANGES": "CHANGES_REQUESTED"}
METHODS = {"merge": "merge_commit", "squash": "squash_merge", "rebase": "rebase_merge"}
DENIED: Answer = (403, {"message": "Resource not accessible by personal access token"})


class Api:
    """Answers one request at a time."""

    def __init__(self, state: State) -> None:
        self.state = state
        self.app_id = ""
        self.app_key: RSAKey | None = None
        self.installed: set[str] = set()  # repositories that the App may work on
        self.minted: list[str] = []
        self.valid_s = 3600

    def answer(
        self, line: str, query: Mapping[str, str], data: dict[str, Any], given: str, accept: str
    ) -> Answer:
        method, _, path = line.partition(" ")
        token = given.rpartition(" ")[2]
        if found := re.fullmatch(r"/repos/([^/]+/[^/]+)/installation", path):
            return self._installation(token, found[1])
        if found := re.fullmatch(r"/app/installations/(\d+)/access_tokens", path):
            return self._mint(token)
        login = self.state.tokens.get(token)
        if login is None:
            return 401, {"message": "Bad credentials"}
        if path.startswith("/graphql"):
            return self._graphql(path.partition(" ")[2], data.get("variables", {}), login)
        if path == "/user":
            return 200, {"login": login}
        found = re.fullmatch(r"/repos/([^/]+/[^/]+)(/.*)?", path)
        repo = self.state.find(found[1], login) if found else None
        if found is None or repo is None:
            return MISSING
        return self._repository(method, repo, found[2] or "", query, data, login, accept)

    # --- REST ---

    def _repository(
        self,
        method: str,
        repo: Repository,
        rest: str,
        query: Mapping[str, str],
        data: dict[str, Any],
        login: str,
        accept: str,
    ) -> Answer:
        parts = rest.strip("/").split("/")
        match (method, *parts):
            case ("GET", ""):
                return 200, self._repository_json(repo, login)
            case ("POST", "forks"):
                return 202, self._repository_json(self.state.fork(repo, login), login)
            case ("GET", "collaborators", name, "permission"):
                rank = RANKS[repo.rank(name)]
                return 200, {"permission": rank, "role_name": rank, "user": {"login": name}}
            case ("GET", "pulls"):
                return 200, self._pulls(repo, query)
            case ("GET" | "PATCH", "pulls", number):
                return self._pull(method, repo, int(number), data, login, accept)
            case ("POST", "pulls", number, "requested_reviewers"):
                return self._reviewers(repo, int(number), data, login)
            case ("PUT", "pulls", number, "merge"):
                return self._merge(repo, int(number), data, login)
            case ("POST", "pulls", number, "comments"):
                return self._remark(repo, int(number), data, login)
            case ("GET" | "DELETE", "git", "ref" | "refs", "heads", *branch):
                return self._ref(method, repo, "/".join(branch), login)
            case ("POST", "pulls", number, "reviews"):
                return self._review(repo, int(number), data, login)
            case ("GET", "pulls", number, "reviews"):
                found = repo.pulls.get(int(number))
                return (200, _page(found["reviews"], query)) if found else MISSING
            case ("GET", "issues"):
                return 200, _page([_issue_json(repo, each) for each in repo.issues.values()][::-1], query)
            case ("GET", "issues" | "pulls" as where, number, "comments"):
                issue = repo.issues.get(int(number))
                listed = list(issue["comments"].values()) if issue else []
                said = [each for each in listed if _is_on_a_line(each) == (where == "pulls")]
                return (200, _page(said, query)) if issue else MISSING
            case ("POST", "pulls", number, "comments", comment, "replies"):
                return self._comment(repo, int(number), data | {"in_reply_to": int(comment)}, login)
            case ("POST", "issues", number, "labels"):
                return self._labels(repo, int(number), data, login)
            case ("POST", "issues", number, "comments"):
                return self._comment(repo, int(number), data, login)
            case ("PATCH", "issues", "comments", id):
                return self._reword(repo, int(id), data, login)
        return MISSING

    def _repository_json(self, repo: Repository, login: str) -> dict[str, Any]:
        rank = repo.rank(login)
        allowed = {"pull": rank > 0, "triage": rank > 1, "push": rank > 2, "admin": rank > 4}
        return {
            "full_name": repo.full_name,
            "name": repo.name,
            "owner": {"login": repo.owner},
            "private": repo.private,
            "default_branch": repo.default,
            "fork": repo.fork_of is not None,
            "permissions": allowed,
            **{f"allow_{name}": name in repo.methods for name in METHODS.values()},
        }

    def _pulls(self, repo: Repository, query: Mapping[str, str]) -> list[Any]:
        wanted = query.get("state", "open")
        owner, _, branch = query.get("head", ":").partition(":")
        return [
            _shown(repo, pull)
            for pull in self.state.pulls(repo)
            if wanted in ("all", pull["state"])
            and (not branch or (pull["source"].owner, pull["branch"]) == (owner, branch))
        ]

    def _pull(
        self, method: str, repo: Repository, number: int, data: dict[str, Any], login: str, accept: str
    ) -> Answer:
        pull = repo.pulls.get(number)
        if pull is None:
            return MISSING
        if method == "PATCH":
            if repo.rank(login) < 3 and pull["user"]["login"] != login:
                return DENIED
            if data.get("state") == "closed":
                self.state.close(repo, number)
            pull |= {name: data[name] for name in ("title", "body") if name in data}
        if "diff" in accept:
            words = ["git", "diff", f"{pull['base']}...{pull['source'].tip(pull['branch'])}"]
            return 200, subprocess.run(words, cwd=repo.path, capture_output=True, check=True).stdout
        return 200, _shown(repo, pull)

    def _labels(self, repo: Repository, number: int, data: dict[str, Any], login: str) -> Answer:
        if repo.rank(login) < 2:
            return DENIED
        issue = repo.issues[number]
        issue["labels"] += [label for label in data["labels"] if label not in issue["labels"]]
        return 200, [{"name": label} for label in issue["labels"]]

    def _reviewers(self, repo: Repository, number: int, data: dict[str, Any], login: str) -> Answer:
        if repo.rank(login) < 3:
            return DENIED
        wanted = [*data.get("reviewers", []), *data.get("team_reviewers", [])]
        if unknown := [name for name in data.get("reviewers", []) if name not in repo.permissions]:
            return 422, {"message": f"Reviews may only be requested from collaborators: {unknown[0]}"}
        pull = repo.pulls[number]
        pull["reviewers"] += [name for name in wanted if name not in pull["reviewers"]]
        return 201, _shown(repo, pull)

    def _review(self, repo: Repository, number: int, data: dict[str, Any], login: str) -> Answer:
        pull = repo.pulls.get(number)
        if pull is None:
            return MISSING
        if data.get("event") in OWN and pull["user"]["login"] == login:
            result = f"Review Can not {OWN[data['event']]} your own pull request"
            return 422, {"message": "Unprocessable Entity", "errors": [result]}
        words = ["git", "diff", "--unified=3", f"{pull['base']}...{pull['source'].tip(pull['branch'])}"]
        ran = subprocess.run(words, cwd=repo.path, capture_output=True, check=True)
        for comment in data.get("comments", []):
            if f"b/{comment['path']}".encode() not in ran.stdout:
                return 422, {"message": "Unprocessable Entity", "errors": ["Path could not be resolved"]}
        return 200, self._given(repo, number, data, login)

    def _given(self, repo: Repository, number: int, data: dict[str, Any], login: str) -> dict[str, Any]:
        review = {"id": self.state.next_id(), "user": {"login": login}, **data}
        review["state"] = STATES[data.get("event", "COMMENT")]
        review["html_url"] = _url(repo, number, f"#review-{review['id']}")
        writes = "OWNER" if login == repo.owner else "COLLABORATOR"
        review["author_association"] = writes if repo.rank(login) > 2 else "NONE"
        repo.pulls[number]["reviews"].append(review)
        return {"id": review["id"], "html_url": review["html_url"]}

    def judge(self, repo: Repository, number: int, login: str, event: str, body: str) -> None:
        """Review as a user on the page, not by the API."""
        self._given(repo, number, {"event": event, "body": body}, login)

    def _remark(self, repo: Repository, number: int, data: dict[str, Any], login: str) -> Answer:
        pull = repo.pulls.get(number)
        if pull is None:
            return MISSING
        words = ["git", "diff", f"{pull['base']}...{data['commit_id']}"]
        ran = subprocess.run(words, cwd=repo.path, capture_output=True, check=True)
        side = "new" if data["side"] == "RIGHT" else "old"
        if not parse_patch(ran.stdout).shows(data["path"], side, data["line"]):  # type: ignore[arg-type]
            return 422, {"message": "Validation Failed", "errors": ["line must be part of the diff"]}
        return self._comment(repo, number, data, login)

    def _merge(self, repo: Repository, number: int, data: dict[str, Any], login: str) -> Answer:
        pull = repo.pulls.get(number)
        if pull is None:
            return MISSING
        method = METHODS[data.get("merge_method", "merge")]
        if repo.rank(login) < 3:
            return DENIED
        if pull["state"] != "open" or pull["draft"]:
            return 405, {"message": "Pull Request is not mergeable"}
        if method not in repo.methods:
            return 405, {"message": f"{method.replace('_', ' ').capitalize()}s are not allowed."}
        if data["sha"] != pull["source"].tip(pull["branch"]):
            return 409, {"message": "Head branch was modified. Review and try the merge again."}
        made = self.state.merge(repo, pull, method)
        if made is None:
            return 405, {"message": "Pull Request is not mergeable"}
        return 200, {"sha": made, "merged": True, "message": "Pull Request successfully merged"}

    def _ref(self, method: str, repo: Repository, branch: str, login: str) -> Answer:
        tip = repo.tip(branch)
        if tip is None:
            return MISSING if method == "GET" else (422, {"message": "Reference does not exist"})
        if method == "GET":
            return 200, {"ref": f"refs/heads/{branch}", "object": {"sha": tip, "type": "commit"}}
        if repo.rank(login) < 3:
            return DENIED
        git(repo.path, "update-ref", "-d", f"refs/heads/{branch}")
        return 204, None

    def _comment(self, repo: Repository, number: int, data: dict[str, Any], login: str) -> Answer:
        issue = repo.issues.get(number)
        if issue is None:
            return MISSING
        id = self.state.next_id()
        issue["comments"][id] = {"id": id, "user": {"login": login}, **data}
        return 201, {"id": id, "html_url": _url(repo, number, f"#issuecomment-{id}"), **data}

    def _reword(self, repo: Repository, id: int, data: dict[str, Any], login: str) -> Answer:
        for number, issue in repo.issues.items():
            if comment := issue["comments"].get(id):
                if comment["user"]["login"] != login and repo.rank(login) < 3:
                    return DENIED
                comment["body"] = data["body"]
                return 200, {"id": id, "html_url": _url(repo, number, f"#issuecomment-{id}")}
        return MISSING

    # --- an App ---

    def _claims(self, token: str) -> bool:
        if self.app_key is None:
            return False
        try:
            claims = jwt.decode(token, self.app_key, algorithms=["RS256"]).claims
        except (JoseError, ValueError):
            return False
        now = time.time()
        in_time = claims["iat"] <= now < claims["exp"] <= now + 600
        return in_time and str(claims["iss"]) == self.app_id

    def _installation(self, token: str, full_name: str) -> Answer:
        if not self._claims(token):
            return 401, {"message": "A JSON web token could not be decoded"}
        return (200, {"id": 77}) if full_name in self.installed else MISSING

    def _mint(self, token: str) -> Answer:
        if not self._claims(token):
            return 401, {"message": "A JSON web token could not be decoded"}
        made = f"ghs_{len(self.minted):036d}"
        self.minted.append(made)
        self.state.tokens[made] = "hutch[bot]"
        until = time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime(time.time() + self.valid_s))
        return 201, {"token": made, "expires_at": until}

    # --- GraphQL, as gh asks it ---

    def _graphql(self, operation: str, given: Mapping[str, Any], login: str) -> Answer:
        if operation == "PullRequestCreate":
            return self._create(given["input"], login)
        name = f"{given.get('owner')}/{given.get('name') or given.get('repo')}"
        repo = self.state.find(name, login)
        if repo is None:
            said = f"Could not resolve to a Repository with the name '{name}'."
            return 200, {"errors": [{"type": "NOT_FOUND", "path": ["repository"], "message": said}]}
        if operation == "RepositoryInfo":
            return 200, {"data": {"repository": _info(repo, login)}}
        if operation == "PullRequestForBranch":
            nodes = [
                {
                    "number": pull["number"],
                    "url": _url(repo, pull["number"]),
                    "state": pull["state"].upper(),
                    "baseRefName": pull["base"],
                    "headRefName": pull["branch"],
                    "isCrossRepository": pull["source"] is not repo,
                    "headRepositoryOwner": {"login": pull["source"].owner},
                }
                for pull in self.state.pulls(repo)
                if pull["branch"] == given["headRefName"] and pull["state"].upper() in given["states"]
            ]
            found = {"pullRequests": {"nodes": nodes}, "defaultBranchRef": {"name": repo.default}}
            return 200, {"data": {"repository": found}}
        return 200, {"errors": [{"message": f"{operation} is not supported here"}]}

    def _create(self, wanted: Mapping[str, Any], login: str) -> Answer:
        repo = next(each for each in self.state.repositories.values() if _id(each) == wanted["repositoryId"])
        made = self.state.new_pull(
            repo,
            login,
            head=wanted["headRefName"],
            base=wanted["baseRefName"],
            title=wanted["title"],
            body=wanted["body"],
            draft=wanted.get("draft", False),
        )
        if isinstance(made, str):
            return 200, {"data": {"createPullRequest": None}, "errors": [{"message": made}]}
        shown = {"id": made["id"], "url": _url(repo, made["number"])}
        return 200, {"data": {"createPullRequest": {"pullRequest": shown}}}


def _is_on_a_line(comment: Mapping[str, Any]) -> bool:
    return "in_reply_to" in comment or "path" in comment


def _page(items: list[Any], query: Mapping[str, str]) -> list[Any]:
    size, number = int(query.get("per_page", "30")), int(query.get("page", "1"))
    return items[size * (number - 1) : size * number]


def _issue_json(repo: Repository, issue: dict[str, Any]) -> dict[str, Any]:
    number = issue["number"]
    names = ("number", "title", "body", "labels", "state", "state_reason", "user")
    shown = {name: issue[name] for name in names if name in issue}
    shown["html_url"] = _url(repo, number).replace("/pull/", "/issues/")
    return {**shown, "pull_request": {}} if number in repo.pulls else shown


def _id(repo: Repository) -> str:
    return f"R_{repo.full_name}"


def _url(repo: Repository, number: int, rest: str = "") -> str:
    return f"https://127.0.0.1/{repo.full_name}/pull/{number}{rest}"


def _info(repo: Repository, login: str) -> dict[str, Any]:
    return {
        "id": _id(repo),
        "name": repo.name,
        "owner": {"login": repo.owner},
        "hasIssuesEnabled": True,
        "viewerPermission": RANKS[repo.rank(login)].upper(),
        "defaultBranchRef": {"name": repo.default},
    }


def _shown(repo: Repository, pull: Mapping[str, Any]) -> dict[str, Any]:
    return {
        "number": pull["number"],
        "html_url": _url(repo, pull["number"]),
        "title": pull["title"],
        "body": pull["body"],
        "state": pull["state"],
        "draft": pull["draft"],
        "merged_at": "2024-01-01T00:00:00Z" if pull["merged"] else None,
        "merge_commit_sha": pull.get("merge_commit"),
        "user": pull["user"],
        "labels": [{"name": label} for label in pull["labels"]],
        "base": {"ref": pull["base"], "sha": repo.tip(pull["base"])},
        "head": {
            "ref": pull["branch"],
            "sha": pull.get("sha") or pull["source"].tip(pull["branch"]),
            "user": {"login": pull["source"].owner},
            "repo": {"full_name": pull["source"].full_name},
        },
    }
