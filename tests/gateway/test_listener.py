"""Where a server listens, and what is said when it cannot."""

import os
import re
import socket

import pytest

from hutch.domain.errors import Unavailable
from hutch.gateway.listener import exposure, holder_of, listen, url_of
from hutch.settings.server_sections import Server


def test_a_free_port_is_taken_and_told() -> None:
    with listen("127.0.0.1", 0) as listener:
        port = listener.getsockname()[1]
        assert url_of(listener, tls=False) == f"http://127.0.0.1:{port}"
        assert url_of(listener, tls=True) == f"https://127.0.0.1:{port}"


def test_somebody_here_reaches_what_listens_everywhere() -> None:
    with listen("0.0.0.0", 0) as listener:
        assert url_of(listener, tls=False).startswith("http://127.0.0.1:")


def test_a_port_that_is_taken_is_told_with_who_has_it_and_one_that_is_free() -> None:
    with socket.create_server(("127.0.0.1", 0)) as first:
        port = first.getsockname()[1]
        with pytest.raises(Unavailable) as refused:
            listen("127.0.0.1", port)
        said = str(refused.value)
        assert f"127.0.0.1:{port} is taken by" in said
        assert f"(process {os.getpid()})" in said
        free = re.search(r"hutch up --port (\d+)$", said)
        assert free
        listen("127.0.0.1", int(free[1])).close()


def test_nobody_holds_a_port_that_is_free() -> None:
    with socket.create_server(("127.0.0.1", 0)) as first:
        port = first.getsockname()[1]
    assert holder_of(port) == "another process"


def test_an_address_of_another_machine_is_refused() -> None:
    with pytest.raises(Unavailable, match=r"192\.0\.2\.1 is not an address of this machine"):
        listen("192.0.2.1", 0)


@pytest.mark.parametrize("host", ["127.0.0.1", "::1", "127.8.8.8"])
def test_nothing_is_said_of_an_address_that_only_this_machine_reaches(host: str) -> None:
    assert exposure(Server(host=host)) == ""


@pytest.mark.parametrize("host", ["0.0.0.0", "::", "192.168.1.5"])
def test_an_address_that_others_reach_without_tls_is_warned_of(host: str) -> None:
    said = exposure(Server(host=host))
    assert host in said and "server.tls_cert" in said and "server.trusted_proxies" in said


def test_tls_or_a_trusted_proxy_is_enough() -> None:
    assert exposure(Server(host="0.0.0.0", tls_cert="c.pem", tls_key="k.pem")) == ""
    assert exposure(Server(host="0.0.0.0", trusted_proxies=("10.0.0.0/8",))) == ""


def test_what_is_accepted_does_not_wait_for_acknowledgements() -> None:
    with listen("127.0.0.1", 0) as listener, socket.create_connection(listener.getsockname()):
        accepted, _ = listener.accept()
        with accepted:
            assert accepted.getsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY)
