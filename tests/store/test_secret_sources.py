"""Secrets from files, commands and the environment."""

import os
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from hutch.domain.errors import Unavailable
from hutch.store import secret_sources
from hutch.store.secret_sources import MAX_SECRET_BYTES, SecretSources, seen_values
from hutch.store.vault_redactor import POLL_INTERVAL_S, VaultRedactor

NAME = "anthropic_api_key"
VALUE = "marzipan-fountain-93"


@pytest.fixture(autouse=True)
def forgetting() -> Iterator[None]:
    """The values of a test are no secrets of the next."""
    yield
    seen_values().clear()


def reading(source: str, timeout_s: float = 30, **environment: str) -> str:
    env = {"PATH": os.defpath, **environment}
    return SecretSources({NAME: source}, env, timeout_s).read({NAME})[NAME]


def script(path: Path, text: str) -> str:
    path.write_text(f"#!/bin/sh\n{text}\n")
    path.chmod(0o755)
    return f"command:{path}"


def test_a_file_is_read_each_time(tmp_path: Path) -> None:
    file = tmp_path / "key"
    for content, value in ((b"one\n", "one"), (b"two\r\n", "two"), (b" t h r e e", " t h r e e")):
        file.write_bytes(content)
        assert reading(f"file:{file}") == value
    (tmp_path / "link").symlink_to(file)
    assert reading(f"file:{tmp_path}/link") == " t h r e e"
    pem = "-----BEGIN KEY-----\nabc\n-----END KEY-----"
    file.write_text(f"{pem}\n")
    assert reading(f"file:{file}") == pem


def test_a_variable_and_a_command_without_a_shell(tmp_path: Path) -> None:
    assert reading("env:MY_KEY", MY_KEY=f"{VALUE}\n") == VALUE
    assert reading("command:printf '%s %s\\n' 'a b' '$HOME;id'") == "a b $HOME;id"
    assert reading(script(tmp_path / "show", 'echo "$MY_KEY"'), MY_KEY=VALUE) == VALUE


def test_a_command_is_not_repeated_within_its_time(tmp_path: Path) -> None:
    count = tmp_path / "count"
    source = script(tmp_path / "show", f"echo x >> {count}; wc -l < {count}")
    assert [reading(source).strip() for _ in range(3)] == ["1"] * 3
    cached = secret_sources._cache[source.partition(":")[2]]
    assert secret_sources.CACHE_S - 30 < cached.until_s - time.monotonic() <= secret_sources.CACHE_S
    assert cached.output == b"1\n" and "output" not in repr(cached)
    secret_sources._cache.clear()  # as if its time were over
    assert reading(source).strip() == "2"


@pytest.mark.parametrize(
    ("source", "problem"),
    [
        ("file:{0}/none", "a file that cannot be read: No such file"),
        ("file:{0}", "a file that is not a file"),
        ("file:{0}/pipe", "is not a file"),
        ("file:{0}/blank", "a file that is empty"),
        ("file:{0}/large", "gives more than 64 KiB"),
        ("file:{0}/binary", "not text. Encode"),
        ("file:{0}/nul", "not text. Encode"),
        ("env:NOT_SET", "an environment variable that is not set"),
        ("env:BLANK", "is empty"),
        ("command:{0}/none", "a command that cannot be started: No such file"),
        ("command:false", "exited with 1. Try the command"),
        ("command:true", "is empty"),
        ("command:cat /dev/zero", "gives more than 64 KiB"),
    ],
)
def test_a_source_without_a_usable_value_is_refused(tmp_path: Path, source: str, problem: str) -> None:
    os.mkfifo(tmp_path / "pipe")
    (tmp_path / "blank").write_text(" \n")
    (tmp_path / "large").write_text("x" * (MAX_SECRET_BYTES + 1))
    (tmp_path / "binary").write_bytes(b"\xff\xfe")
    (tmp_path / "nul").write_bytes(b"a\0b")
    with pytest.raises(Unavailable) as caught:
        reading(source.format(tmp_path), BLANK="")
    assert problem in str(caught.value)
    assert f"hutch config set-secret {NAME}" in str(caught.value)
    assert str(tmp_path) not in str(caught.value)  # other users see this message


def test_a_command_that_waits_is_killed_with_its_children(tmp_path: Path) -> None:
    alive = tmp_path / "alive"
    os.mkfifo(alive)
    source = script(tmp_path / "slow", f"cat {alive} & echo {VALUE}; wait")
    with pytest.raises(Unavailable, match=r"took more than 0\.5 s"):
        reading(source, timeout_s=0.5)
    with pytest.raises(OSError, match="No such device"):  # nobody reads it any more
        deadline = time.monotonic() + 30
        while time.monotonic() < deadline:
            os.close(os.open(alive, os.O_WRONLY | os.O_NONBLOCK))


def test_an_error_shows_no_output_of_the_command(tmp_path: Path) -> None:
    with pytest.raises(Unavailable) as caught:
        reading(script(tmp_path / "bad", f"echo {VALUE}; echo {VALUE} >&2; exit 3"))
    assert VALUE not in str(caught.value) and "exited with 3" in str(caught.value)


def test_one_broken_source_does_not_affect_another(tmp_path: Path) -> None:
    sources = SecretSources({"github_token": "env:NONE", NAME: "env:KEY"}, {"KEY": VALUE})
    found, problems = sources.read_available()
    assert found == {NAME: VALUE} and list(problems) == ["github_token"]
    assert sources.read({NAME}) == {NAME: VALUE}
    with pytest.raises(Unavailable):
        sources.read()
    assert VALUE not in repr(sources)


def test_values_are_redacted_as_soon_as_they_are_read(tmp_path: Path) -> None:
    file = tmp_path / "key"
    file.write_text("cardamom-hinge-11\n")
    redactor = VaultRedactor(tmp_path / "vault.json", tmp_path / "vault.keys")
    assert "cardamom-hinge-11" not in seen_values()
    for value in ("cardamom-hinge-11", "saffron-hinge-12"):
        file.write_text(value)
        reading(f"file:{file}")
        time.sleep(POLL_INTERVAL_S)
        assert redactor.redact(f"a {value} b") == "a [redacted:secret] b"
    assert redactor.redact("cardamom-hinge-11") == "[redacted:secret]"
