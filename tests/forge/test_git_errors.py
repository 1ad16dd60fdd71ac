"""Each error of git has its family and gives advice."""

from dataclasses import replace

import pytest

from hutch.domain.errors import BadRequest, Conflict, Denied, HutchError, NotFound, Unavailable
from hutch.forge.git_errors import explain
from hutch.forge.repo_url import TOKEN_USER, parse_repo_url

URL = parse_repo_url("https://example.com/team/project.git")


@pytest.mark.parametrize(
    ("said", "family", "way_out"),
    [
        (
            "remote: Not Found\nfatal: repository 'https://example.com/team/project.git/' not found",
            NotFound,
            "Check the address",
        ),
        (
            "ERROR: Repository not found.\nfatal: Could not read from remote repository.",
            NotFound,
            "Check the address",
        ),
        (
            "fatal: could not read Username for 'https://example.com': terminal prompts disabled",
            Denied,
            "server's operator to set a token",
        ),
        ("remote: HTTP Basic: Access denied\nfatal: Authentication failed for 'x'", Denied, "set a token"),
        (
            "git@example.com: Permission denied (publickey).\nfatal: Could not read from remote repository.",
            Denied,
            "Only owners may use",
        ),
        (
            "fatal: unable to access 'x': The requested URL returned error: 403",
            Denied,
            "hutch config set-secret github_enterprise_token.",
        ),
        ("Host key verification failed.\nfatal: Could not read", Denied, "check the key"),
        ("fatal: couldn't find remote ref refs/heads/nope", NotFound, "Name a branch"),
        (
            "fatal: unable to access 'x': Could not resolve host: example.com",
            Unavailable,
            "Check its spelling",
        ),
        ("ssh: Could not resolve hostname x: Name or service not known", Unavailable, "the network"),
        ("fatal: unable to access 'x': Failed to connect to example.com port 443", Unavailable, "Retry"),
        ("fatal: unable to access 'x': SSL certificate problem: self-signed", Unavailable, "certificate"),
        ("fatal: write error: No space left on device\nfatal: index-pack failed", Unavailable, "Free some"),
        (
            "error: object 0123456789012345678901234567890123456789: hasDotgit: contains '.git'\n"
            "fatal: fsck error in packed object\nfatal: fetch-pack: invalid index-pack output",
            BadRequest,
            "hasDotgit: contains '.git'. `git fsck`",
        ),
        ("fatal: transport 'file' not allowed", Denied, "not allowed"),
        ("fatal: the remote end hung up unexpectedly", Unavailable, "Retry"),
        ("something new", Unavailable, "by hand"),
        ("", Unavailable, "no reason given"),
    ],
)
def test_the_family_and_the_way_out(said: str, family: type[HutchError], way_out: str) -> None:
    error = explain(said, URL)
    assert type(error) is family
    assert way_out in str(error) and "https://example.com/team/project.git" in str(error)


@pytest.mark.parametrize(
    ("said", "family", "words"),
    [
        ("error: GH006: Protected branch update failed.", Denied, "protects this branch"),
        ("refusing to allow it without `workflow` scope", Denied, "the workflow permission"),
        ("error: GH001: Large files detected.", Conflict, "too large"),
        ("Sign your commits, please.", Denied, "refuses the push: Sign your commits, please"),
    ],
)
def test_a_refused_push_is_reported_with_the_reason_of_the_server(
    said: str, family: type[HutchError], words: str
) -> None:
    error = explain(f"remote: {said}\nTo x\n ! [remote rejected] a -> a (pre-receive hook declined)\n", URL)
    assert type(error) is family
    assert words in str(error) and said.rstrip(".") in str(error)


def test_callers_with_the_accounts_credentials_get_advice_on_them() -> None:
    error = explain("fatal: Authentication failed for 'x'", replace(URL, account=True))
    assert "an ssh key or a git credential helper" in str(error)


@pytest.mark.parametrize(
    "said", ["remote: Repository not found.", "fatal: Authentication failed for 'x'", "returned error: 403"]
)
def test_an_invisible_repository_may_not_exist_and_the_credentials_are_named(said: str) -> None:
    for account in (False, True):
        url = replace(URL, account=account)
        assert "does not exist, or is private" in str(explain(said, url))
        result = str(explain(said, replace(url, credentials=(TOKEN_USER, "s3cret"))))
        assert "does not exist, or Hutch's token for it has no access" in result
        assert "set-secret github_enterprise_token " in result
        written = str(explain(said, replace(url, credentials=("s3cret", ""))))
        assert "or the credentials in its address have no access" in written
        for each in (result, written):
            assert "ssh key" not in each and "owners alone" not in each and "s3cret" not in each
    hub = replace(parse_repo_url("https://github.com/a/b"), credentials=(TOKEN_USER, "s3cret"))
    assert "set-secret github_token " in str(explain(said, hub))


def test_a_directory_that_is_no_repository_wants_no_credentials() -> None:
    error = explain("fatal: '/nowhere' does not appear to be a git repository", parse_repo_url("/nowhere"))
    assert str(error) == "There is no repository at /nowhere. Check the path."


def test_untrusted_text_is_made_harmless() -> None:
    error = explain(f"remote: \x1b[2J\x07{'x' * 5000}\n", URL)
    assert "\x1b" not in str(error) and "\x07" not in str(error) and len(str(error)) < 600
