"""The default title of a change."""

MAX_CHARS = 72


def first_line(prompt: str) -> str:
    """The first line of a prompt, cut to the length of a commit's subject."""
    line = prompt.strip().splitlines()[0] if prompt.strip() else "A change"
    return line if len(line) <= MAX_CHARS else f"{line[: MAX_CHARS - 1]}…"
