"""The address of a server, and errors when it cannot listen."""

import os
import re
import socket

import pytest

from hutch.domain.errors import Unavailable
from hutch.gateway.server_socket import exposure, holder_of, listen, url_of
from hutch.settings.server_sections import Server


def test_port_zero_takes_a_free_port_and_reports_it() -> None:
    with listen("127.0.0.1", 0) as listener:
        port = listener.getsockname()[1]
        assert url_of(listener, tls=False) == f"http://127.0.0.1:{port}"
        assert url_of(listener, tls=True) == f"https://127.0.0.1:{port}"


def test_local_clients_reach_a_listener_on_all_addresses() -> None:
    with listen("0.0.0.0", 0) as listener:
        assert url_of(listener, tls=False).startswith("http://127.0.0.1:")


def test_the_error_for_a_taken_port_names_its_process_and_a_free_port() -> None:
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


def test_a_free_port_has_no_holder() -> None:
    with socket.create_server(("127.0.0.1", 0)) as first:
        port = first.getsockname()[1]
    assert holder_of(port) == "another process"


def test_an_address_of_another_machine_is_refused() -> None:
    with pytest.raises(Unavailable, match=r"192\.0\.2\.1 is not an address of this machine"):
        listen("192.0.2.1", 0)


@pytest.mark.parametrize("host", ["127.0.0.1", "::1", "127.8.8.8"])
def test_a_loopback_address_gets_no_warning(host: str) -> None:
    assert exposure(Server(host=host)) == ""


@pytest.mark.parametrize("host", ["0.0.0.0", "::", "192.168.1.5"])
def test_an_address_that_others_reach_without_tls_is_warned_of(host: str) -> None:
    said = exposure(Server(host=host))
    assert host in said and "server.tls_cert" in said and "server.trusted_proxies" in said


def test_tls_or_a_trusted_proxy_is_enough() -> None:
    assert exposure(Server(host="0.0.0.0", tls_cert="c.pem", tls_key="k.pem")) == ""
    assert exposure(Server(host="0.0.0.0", trusted_proxies=("10.0.0.0/8",))) == ""


def test_accepted_sockets_do_not_wait_for_acknowledgements() -> None:
    with listen("127.0.0.1", 0) as listener, socket.create_connection(listener.getsockname()):
        accepted, _ = listener.accept()
        with accepted:
            assert accepted.getsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY)
