"""The hosts that members may allow."""

import pytest

from hutch.domain.errors import BadRequest, Denied
from hutch.flows.member_network_cap import parse_network_cap

CAP = parse_network_cap(
    ["*.example.org", "example.com:8443", "files.example.net"], always=["docs.example.net"]
)


@pytest.mark.parametrize(
    "host",
    [
        "a.example.org",
        "*.example.org",
        "*.deep.example.org",
        "a.example.org:443",
        "example.com:8443",
        "files.example.net",
        "Files.Example.NET:80",
        "docs.example.net",
    ],
)
def test_a_host_inside_the_cap(host: str) -> None:
    CAP.check([host])
    assert CAP.covered([host]) == (host,)


@pytest.mark.parametrize(
    "host",
    [
        "example.org",
        "notexample.org",
        "a.example.org:22",
        "*.files.example.net",
        "example.com",
        "example.com:443",
        "files.example.net:22",
        "203.0.113.5",
        "[2001:db8::1]:443",
    ],
)
def test_a_host_outside_the_cap(host: str) -> None:
    with pytest.raises(Denied, match=r"members\.network"):
        CAP.check(["files.example.net", host])
    assert CAP.covered(["files.example.net", host]) == ("files.example.net",)


def test_nothing_is_allowed_by_default_and_a_star_allows_all() -> None:
    with pytest.raises(Denied, match="they may allow: none"):
        parse_network_cap([]).check(["files.example.net"])
    parse_network_cap(["*"]).check(["files.example.net:22", "*.example.org"])
    with pytest.raises(BadRequest, match=r"members\.network: .*top-level"):
        parse_network_cap(["*.org"])
