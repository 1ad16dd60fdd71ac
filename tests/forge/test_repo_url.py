"""An address has one of a few forms, or is refused before git gets it."""

import re
from pathlib import Path

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from hutch.domain.errors import BadRequest
from hutch.forge.repo_url import RepoUrl, parse_repo_url


@pytest.mark.parametrize(
    ("text", "parsed"),
    [
        ("https://example.com/team/project.git", RepoUrl("https", "https://example.com/team/project.git")),
        ("HTTPS://Example.COM/team/project", RepoUrl("https", "https://example.com/team/project")),
        ("http://example.com:8080/p", RepoUrl("http", "http://example.com:8080/p")),
        ("https://[::1]:8443/p", RepoUrl("https", "https://[::1]:8443/p")),
        (
            "https://me:s3cret@example.com/p",
            RepoUrl("https", "https://example.com/p", credentials=("me", "s3cret")),
        ),
        (
            "https://t0ken@example.com/p",
            RepoUrl("https", "https://example.com/p", credentials=("t0ken", "")),
        ),
        (
            "https://me%40example.org:a%2Fb@example.com/p",
            RepoUrl("https", "https://example.com/p", credentials=("me@example.org", "a/b")),
        ),
        ("ssh://git@example.com:2222/p.git", RepoUrl("ssh", "ssh://git@example.com:2222/p.git")),
        ("ssh://git:pw@example.com/p.git", RepoUrl("ssh", "ssh://git@example.com/p.git")),
        ("git@example.com:team/project.git", RepoUrl("ssh", "git@example.com:team/project.git")),
        ("example.com:project", RepoUrl("ssh", "example.com:project")),
        ("http://Example.com.:80/p", RepoUrl("http", "http://example.com:80/p")),
        ("ssh://git@example.com./p", RepoUrl("ssh", "ssh://git@example.com/p")),
        ("git@example.com.:p", RepoUrl("ssh", "git@example.com:p")),
        ("git@[::1]:p", RepoUrl("ssh", "git@[::1]:p")),
        ("file:///srv/git/a%20b", RepoUrl("path", "/srv/git/a b", path=Path("/srv/git/a b"))),
        ("/srv/git/p", RepoUrl("path", "/srv/git/p", path=Path("/srv/git/p"))),
        ("/srv/a:b c", RepoUrl("path", "/srv/a:b c", path=Path("/srv/a:b c"))),
    ],
)
def test_valid_addresses(text: str, parsed: RepoUrl) -> None:
    assert parse_repo_url(text) == parsed


def test_a_relative_path(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    assert parse_repo_url("./a:b").path == tmp_path / "a:b"
    assert parse_repo_url("project").path == tmp_path / "project"


@pytest.mark.parametrize(
    ("text", "why"),
    [
        ("", "1 to 2048 characters"),
        ("x" * 3000, "this one has 3000"),
        ("--upload-pack=touch /tmp/x", "starts with a dash"),
        ("ext::sh -c touch% /tmp/x", "would run a program"),
        ("ext::https://example.com/p", "would run a program"),
        ("persistent-https::x", "would run a program"),
        ("fd::17/foo", "would run a program"),
        ("git://example.com/p", "'git://' is not supported"),
        ("ftp://example.com/p", "'ftp://' is not supported"),
        ("ssh://-oProxyCommand=touch/p", "no usable host"),
        ("ssh://-oProxyCommand=x@example.com/p", "no usable user name"),
        ("-oProxyCommand=x:p", "starts with a dash"),
        ("me@-oProxyCommand=x:p", "not a valid ssh address"),
        ("-l@example.com:p", "starts with a dash"),
        ("example.com:-p", "not a valid ssh address"),
        ("ssh://example.com/-p", "names no repository"),
        ("https://example.com", "names no repository"),
        ("https:///p", "no usable host"),
        ("https://exa mple.com/p", "a space or a control character"),
        ("https://example.com/p\n[core]", "a space or a control character"),
        ("https://example.com/p\r\nHost: x", "a space or a control character"),
        ("git@example.com:p\x1b[2J", "a space or a control character"),
        ("https://example.com:port/p", "its host or port cannot be read"),
        ("https://[::1/p", "its host or port cannot be read"),
        ("https://me:x%0ausername=you@example.com/p", "credentials with a space or control character"),
        ("file://elsewhere/p", "names another machine"),
        ("https://example.com/p?x=y", "has a query after the"),
        ("me:password@example.com/p", "looks like a URL with a password"),
        ("file:///a%00b", "names no directory"),
        ("/a\0b", "a character that is not allowed"),
        ("~nobody-by-this-name/p", "is not expanded"),
        ("~root/p", "is not expanded"),
        ("~/p", "is not expanded"),
    ],
)
def test_what_is_refused(text: str, why: str) -> None:
    with pytest.raises(BadRequest, match=why):
        parse_repo_url(text)


@pytest.mark.parametrize(
    "text",
    [
        "https://me:s3cret@exa mple.com/p",
        "https://me:s3cret@-x/p",
        "https://me:s3cret@h:x/p",
        "https://example.com/p?access_token=s3cret",
        "https://exa mple.com/p?access_token=s3cret",
        "me:s3cret@example.com/p",
        "me:s3cret@example.com:p",
        "me:s3cret@exa mple.com/p",
        "https:me:s3cret@example.com/p",
    ],
)
def test_a_refusal_contains_no_password(text: str) -> None:
    with pytest.raises(BadRequest) as refused:
        parse_repo_url(text)
    assert "s3cret" not in str(refused.value)


def test_credentials_are_not_printed() -> None:
    parsed = parse_repo_url("https://me:s3cret@example.com/p")
    assert "s3cret" not in repr(parsed) and "s3cret" not in str(parsed)


def test_names_and_keys() -> None:
    one, other = parse_repo_url("git@example.com:team/My.Project.git"), parse_repo_url("/srv/My.Project")
    assert (one.name, other.name) == ("My.Project", "My.Project")
    assert one.key.startswith("my-project-") and one.key != other.key
    assert parse_repo_url("https://a:b@example.com/p").key == parse_repo_url("https://example.com/p").key


@given(st.text(max_size=80))
@example("host:path::with::colons")
@example("ext::sh -c id")
def test_nothing_gets_past_that_git_would_take_for_more_than_an_address(text: str) -> None:
    try:
        parsed = parse_repo_url(text)
    except BadRequest:
        return
    assert parsed.address and not parsed.address.startswith("-") and "\0" not in parsed.address
    if parsed.transport == "path":
        assert parsed.address.startswith("/")
    else:
        # git runs the remote helper that is named before a first `::`.
        assert not re.match(r"[A-Za-z0-9][A-Za-z0-9+.-]*::", parsed.address)
        assert not any(ord(letter) <= 32 or ord(letter) == 127 for letter in parsed.address)
