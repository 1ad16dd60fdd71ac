"""Edits a line key by key. Does no input or output itself."""

import codecs
import re
from dataclasses import field

from hutch.system.lazy_dataclass import dataclass

PASTE, PASTED = "\x1b[200~", "\x1b[201~"
SEQUENCE = re.compile(r"\x1b(?:\[[0-9;?]*[ -/]*[@-~]|O[A-Za-z]|\r)")
UNFINISHED = re.compile(r"\x1b(?:\[[0-9;?]*[ -/]*|O)?\Z")
MAX_HISTORY = 200


@dataclass(frozen=True, slots=True)
class Submit:
    """A submitted line."""

    text: str


@dataclass(frozen=True, slots=True)
class Leave:
    """Ctrl-C, or Ctrl-D on an empty line."""


@dataclass(frozen=True, slots=True)
class Suspend:
    """Ctrl-Z."""


Action = Submit | Leave | Suspend


@dataclass(slots=True)
class LineEditor:
    """The text typed so far, with the cursor's position in it."""

    text: str = ""
    cursor: int = 0
    history: list[str] = field(default_factory=list)
    _at: int = 0  # index into the history; its end is the line being typed
    _draft: str = ""
    _pending: str = ""
    _decoder: codecs.IncrementalDecoder = field(
        default_factory=lambda: codecs.getincrementaldecoder("utf-8")("replace")
    )

    def feed(self, data: bytes) -> list[Action]:
        """Process keys as the terminal sends them."""
        self._pending += self._decoder.decode(data)
        actions: list[Action] = []
        while self._pending:
            if self._pending.startswith(PASTE):
                pasted, end, rest = self._pending[len(PASTE) :].partition(PASTED)
                if not end:
                    break
                self._insert(pasted.replace("\r\n", "\n").replace("\r", "\n"))
                self._pending = rest
                continue
            if found := SEQUENCE.match(self._pending):
                self._pending = self._pending[found.end() :]
                self._sequence(found[0])
                continue
            if UNFINISHED.match(self._pending):
                if self._pending != "\x1b":
                    break
                self._pending = ""  # the Escape key alone
                self._set("")
                continue
            key, self._pending = self._pending[0], self._pending[1:]
            if action := self._key(key):
                actions.append(action)
        return actions

    def _key(self, key: str) -> Action | None:
        match key:
            case "\x03":
                return Leave()
            case "\x04" if not self.text:
                return Leave()
            case "\x1a":
                return Suspend()
            case "\r" | "\n":
                return self._submit()
            case "\x7f" | "\x08":
                self._delete(max(0, self.cursor - 1), self.cursor)
            case "\x04":
                self._delete(self.cursor, self.cursor + 1)
            case "\x01":
                self.cursor = 0
            case "\x05":
                self.cursor = len(self.text)
            case "\x0b":
                self._delete(self.cursor, len(self.text))
            case "\x15":
                self._delete(0, self.cursor)
            case "\x17":
                before = self.text[: self.cursor].rstrip()
                self._delete(before.rfind(" ") + 1, self.cursor)
            case _ if key.isprintable():
                self._insert(key)
        return None

    def _submit(self) -> Submit:
        text = self.text
        if text.strip() and self.history[-1:] != [text]:
            self.history = [*self.history, text][-MAX_HISTORY:]
        self._set("")
        self._at, self._draft = len(self.history), ""
        return Submit(text)

    def _sequence(self, sequence: str) -> None:
        match sequence:
            case "\x1b\r":
                self._insert("\n")
            case "\x1b[D" | "\x1bOD":
                self.cursor = max(0, self.cursor - 1)
            case "\x1b[C" | "\x1bOC":
                self.cursor = min(len(self.text), self.cursor + 1)
            case "\x1b[H" | "\x1bOH" | "\x1b[1~":
                self.cursor = 0
            case "\x1b[F" | "\x1bOF" | "\x1b[4~":
                self.cursor = len(self.text)
            case "\x1b[3~":
                self._delete(self.cursor, self.cursor + 1)
            case "\x1b[A" | "\x1bOA":
                self._recall(-1)
            case "\x1b[B" | "\x1bOB":
                self._recall(1)

    def _recall(self, by: int) -> None:
        if self._at == len(self.history):
            self._draft = self.text
        self._at = min(max(0, self._at + by), len(self.history))
        self._set(self.history[self._at] if self._at < len(self.history) else self._draft)

    def _insert(self, text: str) -> None:
        allowed = "".join(char for char in text if char.isprintable() or char in "\n\t")
        self.text = self.text[: self.cursor] + allowed + self.text[self.cursor :]
        self.cursor += len(allowed)

    def _delete(self, start: int, end: int) -> None:
        self.text = self.text[:start] + self.text[end:]
        self.cursor = start

    def _set(self, text: str) -> None:
        self.text, self.cursor = text, len(text)
