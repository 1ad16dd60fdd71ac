"""Installations to back up, and backups with entries that no Hutch would write."""

import asyncio
import atexit
import io
import os
import shutil
import tempfile
from collections.abc import Sequence
from contextlib import closing
from dataclasses import replace
from functools import cache
from hashlib import sha256
from pathlib import Path

from hutch.domain.events import MessageSent, SessionEnded, SessionOpened
from hutch.domain.ids import SessionId, new_session_id
from hutch.flows.backups.backup_format import FILES, LOGS, MANIFEST, About, Manifest, file_line
from hutch.flows.backups.backup_writer import Installation, Progress, Written, write_backup
from hutch.flows.backups.restoration import Restored, restore_backup
from hutch.flows.backups.tar_entries import END, Entry, TarReader, entry_header, padding, sparse_map
from hutch.store.event_log import open_log

TREE = "workspaces/session-1/tree"


def silent(_: Progress) -> None:
    """No progress."""


def home(place: Path) -> Installation:
    return Installation(data=place / "data", settings=place)


def installation(place: Path, sessions: int = 2) -> tuple[Installation, list[SessionId]]:
    """An installation with logs, one of them ended, each with a large payload in a blob."""
    made, ids = _made(sessions)
    shutil.copytree(made, place, dirs_exist_ok=True)
    return home(place), list(ids)


@cache
def _made(sessions: int) -> tuple[Path, Sequence[SessionId]]:
    """Made once: a copy takes a tenth of the time."""
    place = Path(tempfile.mkdtemp())
    atexit.register(shutil.rmtree, place)
    ids = [new_session_id() for _ in range(sessions)]

    async def write() -> None:
        data = place / "data"
        async with open_log(data / "hutch.db", data / "blobs", data / "keys" / "signing.pem") as log:
            for number, each in enumerate(ids):
                large = MessageSent(author="agent", text=f"{number} " + "x" * 20_000)
                ended = [SessionEnded(outcome="done")] if number == 0 else []
                await log.append(each, [SessionOpened(purpose="test"), large, *ended])

    asyncio.run(write())
    (place / "config.toml").write_text("# settings\n")
    (place / "data/vault.json").write_text("{}\n")
    (place / "data/keys/vault.keys").write_text("secret\n")
    (place / "data" / TREE).mkdir(parents=True)
    return place, ids


def backed_up(source: Installation, file: Path, *, gzip: bool = False, keys: bool = True) -> Written:
    with file.open("xb") as output:
        return write_backup(source, output, gzip=gzip, keys=keys, on_progress=silent)


def restored(file: Path, place: Path, *, move_aside: bool = False) -> Restored:
    return restore_backup(file, home(place), move_aside=move_aside, on_progress=silent)


def entries_of(file: Path) -> list[tuple[Entry, bytes]]:
    """The entries of a small backup with their content."""
    with closing(file.open("rb")) as stream:
        reader, found = TarReader(stream.read), []
        while (entry := reader.next()) is not None:
            found.append((entry, b"".join(iter(lambda: reader.content(1 << 20), b""))))
    return found


def forged(file: Path, added: Sequence[tuple[Entry, bytes]], *, about: About | None = None) -> Path:
    """A copy of a backup with further entries, whose lists and manifest fit them."""
    first, *others = entries_of(file)
    kept = [each for each in others if each[0].path not in (FILES, LOGS, MANIFEST)]
    lists = {each[0].path: each[1] for each in others if each[0].path in (FILES, LOGS, MANIFEST)}
    about = about or About.parse(first[1])
    listing, output = io.BytesIO(lists[FILES]), io.BytesIO()
    listing.seek(0, os.SEEK_END)
    _write(output, replace(first[0], size=len(about.to_json())), about.to_json())
    for entry, content in (*kept, *added):
        _write(output, entry, content)
    for entry, content in added:
        before = sparse_map(entry.parts) if entry.parts is not None else b""
        listing.write(file_line(entry, _sha256(before + content) if entry.kind == "file" else ""))
    manifest = replace(Manifest.parse(lists[MANIFEST]), files_sha256=_sha256(listing.getvalue()))
    for path, text in (
        (LOGS, lists[LOGS]),
        (FILES, listing.getvalue()),
        (MANIFEST, manifest.to_json(about)),
    ):
        _write(output, Entry(path=path, kind="file", size=len(text)), text)
    output.write(END)
    handle, name = tempfile.mkstemp(dir=file.parent)
    with os.fdopen(handle, "wb") as target:
        target.write(output.getvalue())
    return Path(name)


def _write(output: io.BytesIO, entry: Entry, content: bytes) -> None:
    output.write(entry_header(entry))
    output.write(sparse_map(entry.parts) if entry.parts is not None else b"")
    output.write(content + padding(len(content)))


def _sha256(content: bytes) -> str:
    return sha256(content).hexdigest()
