"""Text from a repository, a model or a server, made safe for a terminal: no control sequences remain."""


def printable(text: str, *, keep: str = "") -> str:
    """The text, with every character escaped that is neither printable nor in `keep`.

    Newlines, escape sequences and characters that reverse the text become `\\n`, `\\x1b`, `\\u202e`.
    """
    if text.isprintable():
        return text
    return "".join(char if char.isprintable() or char in keep else ascii(char)[1:-1] for char in text)


def visible(text: str, *, lines: bool = False) -> str:
    """The same with tabs, and with newlines if `lines`."""
    return printable(text, keep="\n\t" if lines else "\t")


def one_line(text: str, max_chars: int) -> str:
    """The beginning of the text, with runs of white space as one space."""
    line = visible(" ".join(text.split()))
    return line if len(line) <= max_chars else f"{line[: max_chars - 1]}…"
