"""Redaction of a text that arrives in chunks."""

from hutch.domain.credential_patterns import BEFORE_CREDENTIAL, KEY_END
from hutch.domain.redaction import MAX_HELD_CHARS, Redactor
from hutch.domain.unescaped_text_positions import UNFINISHED_ERASURE, TextView, erasures, has_erasures


class StreamRedactor:
    """Replaces secrets as `Redactor.redact` does, also a secret that is split over two chunks.

    Text that may turn out to be part of a secret is held back: the last word, the rest of a line with
    an authorization header, and a private key until its end.
    """

    def __init__(self, redactor: Redactor, *, is_edited: bool = False) -> None:
        self._redactor = redactor
        self._is_edited = is_edited  # a user types the text, and may erase its last characters
        self._held = ""
        self._seen = 0  # how many of the held characters were returned already

    @property
    def is_empty(self) -> bool:
        """True if no text is held back."""
        return not self._held

    def add(self, text: str) -> str:
        """Add a chunk; return the next characters that are safe to show, perhaps none."""
        self._held += text
        safe = self._safe()
        return self._show(max(safe, self._seen), keep=safe) if safe else ""

    def pause(self) -> str:
        """Return the text that can be shown while no more arrives.

        The text stays in the buffer: if later text turns it into a secret, the rest of that secret is
        not shown. Text that looks like the first part of a secret is still held back.
        """
        partial = self._redactor.safe_cut(
            self._held, self._redactor.partial_secret_start(self._held, is_edited=self._is_edited)
        )
        return self._show(max(partial, self._seen), keep=0)

    def end(self) -> str:
        """Return the rest."""
        return self._show(len(self._held), keep=len(self._held))

    def cut(self) -> tuple[str, str]:
        """Return the rest before omitted text: the part to show, and the part that may be half a secret."""
        shown = self.pause()
        hidden = self._held[self._seen :]
        self._held, self._seen = "", 0
        return shown, hidden

    def continue_after(self, text: str) -> None:
        """Restart after a text that was omitted; a secret that begins in it is hidden whole."""
        self._held, self._seen = text, len(text)

    def _show(self, until: int, *, keep: int) -> str:
        """Return the text not yet returned, up to `until`; buffer the text from `keep` on."""
        shown = self._redactor.redact_after(self._held[:until], self._seen)
        self._held, self._seen = self._held[keep:], until - keep
        return shown

    def _safe(self) -> int:
        text = self._held
        if len(text) > MAX_HELD_CHARS:  # no secret is that long, so the buffer must not grow further
            cut = len(text) - MAX_HELD_CHARS // 2
            return self._redactor.safe_cut(text, cut) or cut
        safe = _words_end(text, max(0, len(text) - self._redactor.spaced_value_chars))
        if self._is_edited and has_erasures(text):
            safe = min(safe, _edited_words_end(text))
        if (key := text.rfind("-----BEGIN ")) >= 0 and not KEY_END.search(text, key):
            safe = min(safe, key)
        if found := BEFORE_CREDENTIAL.search(text):
            safe = min(safe, found.start())
        if safe:
            safe = min(
                [safe, *self._redactor.partial_value_starts(text, 1)]
            )  # a value may continue on the next line
        return self._redactor.safe_cut(text, safe)


def _edited_words_end(text: str) -> int:
    """The same for a text in which characters were erased; an erasure may be unfinished."""
    known = UNFINISHED_ERASURE.sub("", text)
    view = TextView(known, erasures(known))
    end = _words_end(view.text, len(view.text))
    return view.span(end, end + 1)[0] if end < len(view.text) else len(known)


def _words_end(text: str, max_chars: int) -> int:
    """Where the space after the last whole word ends, within `max_chars`; 0 when there is none."""
    head = text[:max_chars]
    if text[max_chars : max_chars + 1].isspace():
        head = head.rstrip()  # the space continues after the cut
    if not head or head[-1].isspace():
        return len(head)
    return len(head) - len(head.rsplit(maxsplit=1)[-1])
