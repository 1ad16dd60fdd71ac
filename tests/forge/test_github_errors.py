"""Each refusal of GitHub says who must act; a rate limit says when it ends."""

import pytest

from hutch.domain.errors import BadRequest, Conflict, Denied, HutchError, NotFound, Unavailable
from hutch.forge.github_errors import clean_line, explain, rate_limited_until


@pytest.mark.parametrize(
    ("status", "message", "family"),
    [
        (401, "Bad credentials", Denied),
        (403, "Resource not accessible by integration", Denied),
        (404, "Not Found", NotFound),
        (405, "Pull Request is not mergeable", Conflict),
        (409, "Conflict", Conflict),
        (422, "Validation Failed", Conflict),
        (410, "Gone", BadRequest),
        (500, "Server Error", Unavailable),
        (None, "error connecting to github.example.com", Unavailable),
        (None, "GraphQL: Could not resolve to a Repository with the name 'a/b'. (repository)", NotFound),
        (None, "pull request create failed: GraphQL: A pull request already exists for a:b.", Conflict),
        (421, "it leads to 'example.com'", Unavailable),
        (None, "HTTP 403: Resource not accessible by personal access token", Denied),
    ],
)
def test_errors_say_who_must_act(status: int | None, message: str, family: type[HutchError]) -> None:
    failed = explain(status, message, "github.com")
    assert type(failed.error) is family
    assert failed.is_transient == (status is None or status >= 500)


@pytest.mark.parametrize(
    ("host", "secret"),
    [
        ("github.com", "github_token"),
        ("github.example.com", "github_enterprise_token"),
        ("github.example.com:8443", "github_enterprise_token"),
    ],
)
def test_a_wrong_token_names_the_secret_of_its_host(host: str, secret: str) -> None:
    assert f"set-secret {secret}`" in str(explain(401, "Bad credentials", host))


@pytest.mark.parametrize(
    ("status", "headers", "until"),
    [
        (429, {"retry-after": "30"}, 1030.0),
        (403, {"retry-after": "30"}, 1030.0),
        (403, {"x-ratelimit-remaining": "0", "x-ratelimit-reset": "1500"}, 1500.0),
        (403, {"x-ratelimit-remaining": "9", "x-ratelimit-reset": "1500"}, None),
        (403, {"x-ratelimit-remaining": "0", "x-ratelimit-reset": "990"}, 1000.0),  # by another clock
        (403, {"x-ratelimit-remaining": "0", "x-ratelimit-reset": "0"}, 1060.0),  # by none
        (429, {"retry-after": "soon"}, 1060.0),
        (500, {"retry-after": "30"}, None),
    ],
)
def test_until_when_a_limit_lasts(status: int, headers: dict[str, str], until: float | None) -> None:
    failed = explain(status, "no", "github.com")
    failed.headers = headers
    assert rate_limited_until(failed, 1000.0) == until
    assert ("used up until 1970-01-01" in str(failed)) == (until is not None)


def test_untrusted_text_drives_no_terminal() -> None:
    assert clean_line("one\n\x1b[2Jtwo\n" + "x" * 1000)[:9] == "?[2Jtwo x"
    assert clean_line("") == "no reason given"
