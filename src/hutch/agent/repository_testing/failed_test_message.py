"""The message of a failed test: the reason first, then the project's own frames.

Runners print their own frames, the source of whole functions, colours. A model
needs the assertion, and then the few frames of the repository's code.
"""

import re
from collections.abc import Iterator

from hutch.agent.repository_testing.test_results import Failure
from hutch.agent.text_for_model import shortened, strip_escapes
from hutch.system.terminal_safe_text import printable, visible

MAX_CHARS = 6000  # that are read; fewer are shown
NAME_CHARS = 300

# The lookbehind keeps a match from starting inside a name, so that each position is tried once.
PLACE = re.compile(
    r"(?<![\w.@+/-])(?:file://)?((?:\./|/)?(?:[\w.@+-]{1,100}/){0,30}[\w@+-][\w.@+-]{0,100}\.[A-Za-z]{1,5}):(\d{1,7})\b"
)
PYTHON_FRAME = re.compile(r'^(\s*)File "([^"\n]{1,500})", line (\d{1,7})')
PYTEST_PLACE = re.compile(r"^(\S{1,500}\.py):(\d{1,7}): ", re.MULTILINE)
FOREIGN = re.compile(
    r"^(?:<|node:|/usr/|/rustc/|/opt/)|/(?:go[\w.-]{0,20}|libexec)/src/(?:runtime|testing)/"
    r"|/(?:node_modules|site-packages|dist-packages|unittest|_pytest|pluggy|\.cargo)/"
)
NOISE = re.compile(
    r"^\s*(?:at\b.*(?:node:|node_modules/|/rustc/|<anonymous>\)$).*|.{0,200}\(node:[\w/.:-]+\)|node:[\w/.:-]+"
    r"|async Promise\.all \(index \d+\)|at async Promise\.all.*|\d+: (?:__rustc|core|std|test|<fn)\b.*"
    r"|stack backtrace:|note: (?:run with|Some details).*|[\s~^]*\^[\s~^]*)$"
)


def failure(name: str, text: str, *, message: str = "", location: str = "") -> Failure:
    """A failure, from its runner's output."""
    text = shortened(strip_escapes(text), MAX_CHARS, head=0.3)
    message = shortened(strip_escapes(message).strip(), MAX_CHARS)
    found = location_in(text) or location_in(message) or location
    lines = list(_of_the_project(text.splitlines()))
    if message:
        message_lines = {line.strip() for line in message.splitlines()}
        lines = [message, *(line for line in lines if not _repeats(line, message_lines))]
    else:
        lines = _reason_first(lines)
    body = re.sub(r"\n\s*\n\s*\n+", "\n\n", "\n".join(lines)).strip("\n")
    return Failure(in_one_line(name) or "?", visible(body, lines=True), in_one_line(found))


def in_one_line(text: str) -> str:
    """A name or a location as one printable line."""
    if len(text) <= NAME_CHARS and text.isprintable():
        return text.strip()
    return printable(shortened(strip_escapes(text), NAME_CHARS).strip())


def location_in(text: str) -> str:
    """The innermost location in the project's code that a text names."""
    frames = [(found[2], found[3]) for found in map(PYTHON_FRAME.match, text.splitlines()) if found]
    innermost_last = frames or PYTEST_PLACE.findall(text)
    found = innermost_last[::-1] if innermost_last else PLACE.findall(text)
    ours = [(file, line) for file, line in found if not FOREIGN.search(file)]
    return f"{own_path(ours[0][0])}:{ours[0][1]}" if ours else ""


def own_path(path: str) -> str:
    return path.removeprefix("file://").removeprefix("/workspace/").removeprefix("./")


def _of_the_project(lines: list[str]) -> Iterator[str]:
    """The lines without the frames of runners and interpreters and their source lines."""
    dropped: int | None = None
    for line in lines:
        indent = len(line) - len(line.lstrip())
        if dropped is not None and line.strip() and indent > dropped:
            continue
        dropped = None
        frame = PYTHON_FRAME.match(line)
        if (frame and FOREIGN.search(frame[2])) or re.match(r"\s*\d+: (?:__rustc|core|std|<fn)", line):
            dropped = indent
        elif not NOISE.match(line):
            yield line.replace("/workspace/", "")


def _reason_first(lines: list[str]) -> list[str]:
    """A Python traceback with the exception before the frames."""
    if not lines or not lines[0].startswith("Traceback (most recent call last)"):
        return lines
    last = max((at for at, line in enumerate(lines) if PYTHON_FRAME.match(line)), default=0)
    after = next((at for at in range(last + 1, len(lines)) if not lines[at].startswith(" ")), len(lines))
    return [*lines[after:], *lines[1:after]] if after < len(lines) else lines[1:]


def _repeats(line: str, message_lines: set[str]) -> bool:
    """True if a line only repeats the message: pytest's `E   assert 1 == 2`."""
    bare = line.strip()
    if bare == "E" or bare.startswith("E "):
        bare = bare[1:].strip()
        return not bare or bare in message_lines or bare.partition(": ")[2] in message_lines
    return bool(bare) and bare in message_lines
