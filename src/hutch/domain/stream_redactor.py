"""Redaction of a text that comes in pieces."""

from hutch.domain.credential_shapes import BEFORE_CREDENTIAL, KEY_END
from hutch.domain.redaction import MAX_HELD_CHARS, Redactor


class StreamRedactor:
    """Replaces secrets as `Redactor.redact` does, also one that lies across two pieces.

    What might still become part of a secret is held back: the last word, the rest of a line that
    speaks of an authorization, a private key until it ends.
    """

    def __init__(self, redactor: Redactor) -> None:
        self._redactor = redactor
        self._held = ""
        self._seen = 0  # characters of what is held that were shown already

    @property
    def is_empty(self) -> bool:
        """Whether nothing is remembered that what comes could belong to."""
        return not self._held

    def add(self, text: str) -> str:
        """The next characters that are safe to show; perhaps none."""
        self._held += text
        safe = self._safe()
        return self._show(max(safe, self._seen), keep=safe) if safe else ""

    def pause(self) -> str:
        """What can be shown when nothing more comes for now.

        It is remembered: when what comes later makes a secret of it, that is not shown. What looks like
        a secret's beginning is still held back.
        """
        begun = self._redactor.safe_cut(self._held, self._redactor.partial_secret_start(self._held))
        return self._show(max(begun, self._seen), keep=0)

    def end(self) -> str:
        """The rest."""
        return self._show(len(self._held), keep=len(self._held))

    def cut(self) -> tuple[str, str]:
        """The rest, when what comes next is left out: what can be shown, and what may be half a secret."""
        shown = self.pause()
        hidden = self._held[self._seen :]
        self._held, self._seen = "", 0
        return shown, hidden

    def continue_after(self, text: str) -> None:
        """Begin again behind a text that is not shown; of a secret that begins in it, nothing is."""
        self._held, self._seen = text, len(text)

    def _show(self, until: int, *, keep: int) -> str:
        """What was not shown yet, up to a place; it is remembered from `keep` on."""
        shown = self._redactor.redact_after(self._held[:until], self._seen)
        self._held, self._seen = self._held[keep:], until - keep
        return shown

    def _safe(self) -> int:
        text = self._held
        if len(text) > MAX_HELD_CHARS:  # no secret is as long: better a late word than a growing one
            place = len(text) - MAX_HELD_CHARS // 2
            return self._redactor.safe_cut(text, place) or place
        safe = _words_end(text, max(0, len(text) - self._redactor.spaced_value_chars))
        if (key := text.rfind("-----BEGIN ")) >= 0 and not KEY_END.search(text, key):
            safe = min(safe, key)
        if found := BEFORE_CREDENTIAL.search(text):
            safe = min(safe, found.start())
        if safe:
            safe = min(
                [safe, *self._redactor.partial_value_starts(text, 1)]
            )  # it may go on behind a line's end
        return self._redactor.safe_cut(text, safe)


def _words_end(text: str, most: int) -> int:
    """Where the space behind the last whole word ends, at `most` or before it; 0 when there is none."""
    head = text[:most]
    if text[most : most + 1].isspace():
        head = head.rstrip()  # that space goes on behind it
    if not head or head[-1].isspace():
        return len(head)
    return len(head) - len(head.rsplit(maxsplit=1)[-1])
