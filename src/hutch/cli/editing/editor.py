"""The user's editor: which one, and its process on the terminal."""

import asyncio
import shlex
import shutil
import signal
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from types import FrameType

from hutch import settings
from hutch.cli.api_client import Client
from hutch.domain.errors import BadRequest, HutchError, NotFound
from hutch.system.signals_that_stay_ignored import is_handled
from hutch.system.terminal_safe_text import visible

USUAL = ("sensible-editor", "editor", "nano", "vi")


async def choose_editor(named: str, client: Client | None) -> list[str]:
    """The command of the editor: an option, $VISUAL, $EDITOR, the user's preference, or a usual one.

    A preference counts only on a server of this machine: another one could name any command.
    """
    text = named or settings.editor_variable()
    if not text and client is not None and client.address.kind == "local":
        with suppress(HutchError):  # it has no preferences
            text = str((await client.get("/users/me/preferences")).get("editor") or "")
    if not text:
        text = next((each for each in USUAL if shutil.which(each)), "")
    try:
        words = shlex.split(text)
    except ValueError:
        raise BadRequest(f"The editor {visible(text)!r} has an open quotation. Correct $EDITOR.") from None
    if not words:
        raise NotFound("There is no editor. Name one: export EDITOR=nano, or --editor COMMAND.")
    if shutil.which(words[0]) is None:
        raise NotFound(f"There is no editor {visible(words[0])!r}. Correct $EDITOR, or use --editor COMMAND.")
    return words


async def run_editor(words: list[str], path: Path) -> int:
    """Run the editor on a file and wait for its end; the keys of the terminal are the editor's."""
    with keys_ignored():
        process = await asyncio.create_subprocess_exec(*words, str(path))
        try:
            return await process.wait()
        except asyncio.CancelledError:
            if process.returncode is None:
                with suppress(ProcessLookupError):
                    process.send_signal(signal.SIGTERM)
                await process.wait()
            raise


KEYS = (signal.SIGINT, signal.SIGQUIT)


@contextmanager
def keys_ignored() -> Iterator[None]:
    """Ctrl-C and Ctrl-\\ reach the whole process group, and mean something in an editor.

    They are handled by doing nothing: ignored signals would stay ignored in the editor.
    """
    handled = [key for key in KEYS if is_handled(key)]
    before = [signal.signal(key, _do_nothing) for key in handled]
    try:
        yield
    finally:
        for key, handler in zip(handled, before, strict=True):
            signal.signal(key, handler if handler is not None else signal.SIG_DFL)


def _do_nothing(number: int, frame: FrameType | None) -> None:
    pass
