"""Text from a repository, a path or a server, for a message of one line."""


def printable(text: str) -> str:
    """The text, with everything escaped that would break the line or drive a terminal."""
    return "".join(character if character.isprintable() else ascii(character)[1:-1] for character in text)
