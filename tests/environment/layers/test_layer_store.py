"""Stored layers: found by prefix, removed by age and size, never while a workspace uses them."""

import json
import os
import time
from dataclasses import replace
from pathlib import Path

import pytest

from hutch.domain.errors import BadRequest, Conflict, NotFound, Unavailable
from hutch.environment.layers.layer_store import FILE, ON_DISK, BuildFailure, Layer, LayerStore, boot_id
from hutch.system.file_lock import try_lock
from hutch.workspace.lifecycle.workspace_and_cache_removal import discard
from hutch.workspace.lifecycle.workspace_record_and_directories import Record
from tests.environment.layers.layer_builds import make_store

DAY_S = 86_400
KEYS = ("a" * 64, "b" * 64, "abcd" + "c" * 60)


@pytest.fixture
def store(tmp_path: Path) -> LayerStore:
    return make_store(tmp_path)


def add(store: LayerStore, key: str, *, size: int = 100, days_ago: float = 0, owner: str = "usr_1") -> Layer:
    layer = Layer(key=key, owner=owner, repository="/srv/shop", bytes=size, roots=(".venv",))
    (store.home.layer(key) / "tree/.venv").mkdir(parents=True)
    (store.home.layer(key) / ON_DISK).touch()
    layer.write(store.home.layer(key))
    store.lock_path(key).touch()
    used = time.time() - days_ago * DAY_S
    os.utime(store.lock_path(key), (used, used))
    return layer


def use(store: LayerStore, key: str) -> None:
    directory = store.home.workspace("w")
    directory.mkdir()
    Record(
        id="w",
        source="",
        mode="copy",
        mode_reason="",
        created="",
        quota_bytes=1,
        quota_files=1,
        layers=(key,),
    ).write(directory)


def test_a_layer_is_stored_whole(store: LayerStore) -> None:
    assert store.find(KEYS[0]) is None
    layer = add(store, KEYS[0])
    assert store.find(KEYS[0]) == layer


def test_a_layer_of_a_newer_version_is_read(store: LayerStore) -> None:
    layer = add(store, KEYS[0])
    file = store.home.layer(KEYS[0]) / FILE
    file.write_text(json.dumps({**json.loads(file.read_text()), "unknown": 1}))
    assert store.find(KEYS[0]) == layer


def test_a_damaged_layer_is_removed_unless_a_workspace_uses_it(store: LayerStore) -> None:
    add(store, KEYS[0])
    (store.home.layer(KEYS[0]) / FILE).write_text("{")
    use(store, KEYS[0])
    with pytest.raises(Unavailable, match="is damaged"):
        store.find(KEYS[0])
    discard(store.home.workspace("w"))
    assert store.find(KEYS[0]) is None
    assert not store.home.layer(KEYS[0]).exists()


def test_a_layer_that_was_not_on_disk_when_the_machine_ended_is_dropped(store: LayerStore) -> None:
    layer = add(store, KEYS[0])
    (store.home.layer(KEYS[0]) / ON_DISK).unlink()
    assert store.find(KEYS[0]) is None
    assert store.layers() == []
    (store.home.layer(KEYS[0])).mkdir()
    same_boot = replace(layer, boot_id=boot_id())
    same_boot.write(store.home.layer(KEYS[0]))
    assert store.find(KEYS[0]) == same_boot


def test_old_layers_are_removed(store: LayerStore) -> None:
    add(store, KEYS[0], days_ago=40)
    add(store, KEYS[1], days_ago=20)
    assert store.collect(max_bytes=10_000, max_days=30) == [KEYS[0]]
    assert [layer.key for layer in store.layers()] == [KEYS[1]]


def test_the_least_recently_used_are_removed_beyond_the_size(store: LayerStore) -> None:
    add(store, KEYS[0], days_ago=1)
    add(store, KEYS[1], days_ago=3)
    add(store, KEYS[2], days_ago=2)
    assert store.collect(max_bytes=250, max_days=30) == [KEYS[1]]


def test_the_log_of_a_failure_goes_by_age(store: LayerStore) -> None:
    failure = BuildFailure("It failed.", ("a", "b"), ("x.example: denied",), 5)
    for key, days in ((KEYS[0], 40), (KEYS[1], 1)):
        store.lock_path(key).touch()
        store.log_path(key).write_text("a\nb\n")
        store.note_failure(key, failure)
        used = time.time() - days * DAY_S
        os.utime(store.lock_path(key), (used, used))
    assert store.collect(max_bytes=10_000, max_days=30) == []
    assert (store.failure(KEYS[0]), store.failure(KEYS[1])) == (None, failure)
    assert sorted(path.suffix for path in store.home.layers.iterdir()) == [".failed", ".lock", ".log"]
    store.note_failure(KEYS[1], None)
    assert store.failure(KEYS[1]) is None


def test_a_layer_in_use_stays(store: LayerStore) -> None:
    add(store, KEYS[0], days_ago=90)
    use(store, KEYS[0])
    assert store.collect(max_bytes=0, max_days=1) == []
    with pytest.raises(Conflict, match="is used by w"):
        store.remove(KEYS[0])
    assert store.find(KEYS[0]) is not None


def test_a_layer_that_is_being_attached_stays(store: LayerStore) -> None:
    add(store, KEYS[0], days_ago=90)
    held = try_lock(store.lock_path(KEYS[0]), shared=True)
    assert held is not None
    try:
        assert store.collect(max_bytes=0, max_days=1) == []
    finally:
        os.close(held)
    assert store.collect(max_bytes=0, max_days=1) == [KEYS[0]]


def test_prefixes_name_layers(store: LayerStore) -> None:
    add(store, KEYS[0])
    add(store, KEYS[2], owner="usr_2")
    assert store.resolve("aaaa").key == KEYS[0]
    assert store.resolve("abcd", owner="usr_2").key == KEYS[2]
    with pytest.raises(NotFound):
        store.resolve("abcd", owner="usr_1")
    with pytest.raises(BadRequest, match="too short"):
        store.resolve("a")


@pytest.mark.parametrize("name", ["../x", "*", "a/b", "aaa"])
def test_a_log_is_found_by_a_key_only(store: LayerStore, name: str) -> None:
    with pytest.raises(BadRequest):
        store.read_log(name)
