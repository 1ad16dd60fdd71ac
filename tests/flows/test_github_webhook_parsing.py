"""A webhook of GitHub becomes a request, or is ignored."""

import copy
import hashlib
import hmac
from typing import Any

import pytest

from hutch.domain.request_from_forge import ForgeRequest
from hutch.flows.github_webhook_parsing import is_signed, mentions, to_forge_request

REPOSITORY = {"full_name": "acme/project", "clone_url": "https://github.com/acme/project.git"}
ISSUE = {
    "number": 7,
    "title": "It breaks",
    "body": "Badly.",
    "state": "open",
    "user": {"login": "eve"},
    "html_url": "https://github.com/acme/project/issues/7",
}
SENDER = {"login": "ada", "type": "User"}
LABELED = {
    "action": "labeled",
    "label": {"name": "hutch"},
    "issue": ISSUE,
    "repository": REPOSITORY,
    "sender": SENDER,
}
COMMENT = {
    "action": "created",
    "comment": {"id": 9, "body": "@hutch mend it", "user": SENDER, "html_url": "https://github.com/c/9"},
    "issue": ISSUE,
    "repository": REPOSITORY,
    "sender": SENDER,
}


def read(event: str, output: Any) -> ForgeRequest | str:
    return to_forge_request(event, output, mention="hutch", hosts=("github.com",))


def changed(output: dict[str, Any], path: str, value: Any) -> dict[str, Any]:
    output = copy.deepcopy(output)
    *steps, last = path.split(".")
    place = output
    for step in steps:
        place = place[step]
    place[last] = value
    return output


def test_a_webhook_becomes_a_request() -> None:
    thread = {"number": 7, "title": "It breaks", "body": "Badly.", "author": "eve"}
    where: dict[str, Any] = {"repository": "https://github.com/acme/project.git", "by": "ada", **thread}
    assert read("issues", LABELED) == ForgeRequest(kind="issue", url=str(ISSUE["html_url"]), **where)
    assert read("issue_comment", COMMENT) == ForgeRequest(
        kind="comment", url="https://github.com/c/9", text="@hutch mend it", mentioned=True, **where
    )
    assigned = {**LABELED, "action": "assigned", "assignee": {"login": "Hutch[bot]"}}
    assert isinstance(read("issues", assigned), ForgeRequest)


@pytest.mark.parametrize(
    ("event", "output"),
    [
        ("issues", changed(LABELED, "label.name", "bug")),
        ("issues", changed(LABELED, "issue.number", "7")),
        ("issues", changed(LABELED, "issue.number", True)),
        ("issue_comment", changed(COMMENT, "issue.number", -1)),
        ("issues", changed(LABELED, "action", "unlabeled")),
        ("issues", changed(LABELED, "issue.state", "closed")),
        ("issues", {**LABELED, "action": "assigned", "assignee": {"login": "bob"}}),
        ("issues", changed(LABELED, "sender.type", "Bot")),
        ("issue_comment", changed(COMMENT, "action", "edited")),
        ("issue_comment", changed(COMMENT, "action", "deleted")),
        ("issue_comment", changed(COMMENT, "comment.body", "Done. @hutch <!-- hutch -->")),
        ("issue_comment", changed(COMMENT, "comment.body", None)),
        ("issue_comment", changed(COMMENT, "comment.user", {"login": "eve"})),
        ("issue_comment", changed(COMMENT, "repository.clone_url", "https://evil.example/acme/project.git")),
        ("issue_comment", changed(COMMENT, "repository.clone_url", "https://github.com/acme/other.git")),
        ("issue_comment", changed(COMMENT, "repository.clone_url", "/etc")),
        ("issue_comment", changed(COMMENT, "repository.clone_url", "ext::sh -c id")),
        (
            "issue_comment",
            changed(COMMENT, "repository.clone_url", "https://a:b@github.com/acme/project.git"),
        ),
        ("issue_comment", changed(COMMENT, "repository", [])),
        ("issue_comment", changed(COMMENT, "sender", None)),
        ("push", COMMENT),
        ("issues", []),
        ("issues", {}),
    ],
)
def test_what_is_not(event: str, output: Any) -> None:
    assert isinstance(read(event, output), str)


@pytest.mark.parametrize(
    ("text", "is_called"),
    [
        ("@hutch please", True),
        ("Well, @Hutch: do it", True),
        ("(@hutch)", True),
        ("> quoted\n\n@hutch do it", True),
        ("`code` @hutch `code`", True),
        ("hutch", False),
        ("@hutchling", False),
        ("@hutch-dev", False),
        ("me@hutch", False),
        ("me@hutch.example", False),
        ("@acme/hutch", False),
        ("> @hutch do it", False),
        ("> they said\n@hutch lazily", False),
        ("   > @hutch", False),
        ("`@hutch`", False),
        ("``a ` @hutch``", False),
        ("```\n@hutch\n```", False),
        ("~~~sh\n@hutch\n~~~", False),
        ("```\n@hutch", False),
        ("text\n\n    @hutch in code", False),
        ("<!-- @hutch -->", False),
        ("<!-- @hutch", False),
    ],
)
def test_a_call_is_one_only_in_plain_text(text: str, is_called: bool) -> None:
    assert mentions(text, "hutch") is is_called


def test_only_the_very_bytes_are_signed() -> None:
    body = b'{"action": "labeled"}'
    good = "sha256=" + hmac.new(b"s3cret", body, hashlib.sha256).hexdigest()
    assert is_signed("s3cret", body, good)
    other = hmac.new(b"s3cret", body, hashlib.sha1).hexdigest()
    for header in ("", "sha256=", good[:-1], good.upper(), good[7:], f"sha1={other}", f"{good} ", "sha256=é"):
        assert not is_signed("s3cret", body, header), header
    assert not is_signed("s3cret", body + b" ", good)
    assert not is_signed("other", body, good)
