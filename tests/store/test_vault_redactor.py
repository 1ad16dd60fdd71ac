"""Secrets that are set while a redactor is at work."""

import time
from pathlib import Path

import pytest

from hutch.domain.errors import Unavailable
from hutch.domain.stream_redactor import StreamRedactor
from hutch.settings import Paths, load
from hutch.store.vault import Vault
from hutch.store.vault_redactor import POLL_INTERVAL_S, VaultRedactor

VALUE = "tangerine-dream-71"


@pytest.fixture
def paths(tmp_path: Path) -> Paths:
    return load(environ={"HUTCH_HOME": str(tmp_path)}).paths


def vault(paths: Paths) -> Vault:
    return Vault(paths.vault, paths.vault_keys)


def test_what_is_set_later_is_hidden_and_what_was_one_stays_one(paths: Paths) -> None:
    redactor = VaultRedactor(paths.vault, paths.vault_keys, ["from-the-start"])
    clean, stream = redactor.redact, StreamRedactor(redactor)  # as others hold on to them
    assert clean(f"{VALUE} from-the-start") == f"{VALUE} [redacted:secret]"
    vault(paths).set("a_key", f"{VALUE}\n")
    time.sleep(POLL_INTERVAL_S)
    assert clean(f"{VALUE} from-the-start") == "[redacted:secret] [redacted:secret]"
    assert stream.add(VALUE[:5]) + stream.add(VALUE[5:] + " ") == "[redacted:secret] "
    vault(paths).set("a_key", "another-value-82")
    time.sleep(POLL_INTERVAL_S)
    assert clean(f"{VALUE} another-value-82") == "[redacted:secret] [redacted:secret]"
    vault(paths).delete("a_key")
    time.sleep(POLL_INTERVAL_S)
    assert clean(f"{VALUE} another-value-82") == "[redacted:secret] [redacted:secret]"


def test_an_unreadable_vault_is_reported_at_the_start_and_forgets_nothing_later(paths: Paths) -> None:
    vault(paths).set("a_key", VALUE)
    redactor = VaultRedactor(paths.vault, paths.vault_keys)
    paths.vault.write_text("no vault")
    time.sleep(POLL_INTERVAL_S)
    assert redactor.redact(VALUE) == "[redacted:secret]"
    with pytest.raises(Unavailable):
        VaultRedactor(paths.vault, paths.vault_keys)
