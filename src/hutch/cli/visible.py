"""Text from anywhere, as it can be shown: nothing in it drives the terminal."""


def visible(text: str, *, lines: bool = False) -> str:
    """With `lines` newlines stay what they are; else it is one line."""
    kept = "\n\t" if lines else "\t"
    return "".join(sign if sign.isprintable() or sign in kept else ascii(sign)[1:-1] for sign in text)


def one_line(text: str, most: int) -> str:
    """Its beginning, in so many letters at most."""
    line = visible(" ".join(text.split()))
    return line if len(line) <= most else f"{line[: most - 1]}…"
