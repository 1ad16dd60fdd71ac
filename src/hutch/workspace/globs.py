r"""Globs: `*`, `?`, `[…]`, `{a,b}`, and `**` for any number of directories.

A pattern comes from a model or a repository, and is matched here and not in the
jail. A common translation into a regular expression tries every way of sharing a
name among its stars, which for two dozen of them takes longer than anybody lives.
So braces are written out first, and each stretch between two stars is taken at its
first place and never tried again; that is enough for a pattern without braces.
"""

import re
from functools import lru_cache

from hutch.domain.errors import BadRequest

MAX_CHARS = 1000  # of a pattern
MAX_ALTERNATIVES = 500  # that braces may stand for
MAX_EXPANDED_CHARS = 20_000  # letters of all of them: compiling takes up to 7 seconds per million

_STAR, _DEEP, _DIRECTORIES = (
    "*",
    "**",
    "**/",
)  # as tokens; anything else is a regular expression for one letter


@lru_cache(maxsize=256)
def glob_pattern(pattern: str) -> re.Pattern[str]:
    """A glob as a regular expression that takes time as the pattern times the path.

    A pattern without a slash fits in every directory, as people mean it; one with a slash at its end
    fits all that is below.
    """
    if len(pattern) > MAX_CHARS:
        raise BadRequest(
            f"The glob '{pattern[:40]}…' has more than {MAX_CHARS:,} letters. Give a shorter one."
        )
    whole = pattern if "/" in pattern.rstrip("/") else f"**/{pattern}"
    whole = whole.lstrip("/").removeprefix("./")
    whole = f"{whole}**" if whole.endswith("/") else whole
    try:
        return re.compile("|".join(_regex(_tokens(each)) for each in _expand_braces(whole)), re.DOTALL)
    except re.error as error:
        raise BadRequest(f"The glob '{pattern}' makes no sense: {error}.") from None


def _expand_braces(pattern: str) -> list[str]:
    """The patterns without braces that a pattern stands for."""
    found = [""]  # those of what was read so far
    open_braces: list[tuple[list[str], list[str]]] = []  # what stood before each, and its alternatives so far
    at = 0
    while at < len(pattern):
        end = at + 1
        match pattern[at]:
            case "{":
                open_braces.append((found, []))
                found = [""]
            case "," if open_braces:
                open_braces[-1][1].extend(found)
                found = [""]
            case "}" if open_braces:
                before, alternatives = open_braces.pop()
                alternatives += found
                if len(before) * len(alternatives) > MAX_ALTERNATIVES:
                    raise _too_many_error(pattern)
                found = [first + rest for first in before for rest in alternatives]
            case "\\":
                end = at + 2
                found = [each + pattern[at:end] for each in found]
            case "[" if (closed := pattern.find("]", at + 2)) > 0:
                end = closed + 1
                found = [each + pattern[at:end] for each in found]
            case letter:
                found = [each + letter for each in found]
        at = end
    if open_braces:
        raise BadRequest(f"The glob '{pattern}' has a brace that is not closed. Write '{{a,b}}', or '\\{{'.")
    if sum(map(len, found)) > MAX_EXPANDED_CHARS:
        raise _too_many_error(pattern)
    return list(dict.fromkeys(found))


def _too_many_error(pattern: str) -> BadRequest:
    return BadRequest(f"The braces of the glob '{pattern}' stand for too many patterns. Give a simpler one.")


def _tokens(pattern: str) -> list[str]:
    found: list[str] = []
    at = 0
    while at < len(pattern):
        end = at + 1
        match pattern[at]:
            case "*":
                end = len(pattern) - len(pattern[at:].lstrip("*"))
                if end - at == 1:
                    found.append(_STAR)
                elif pattern[end : end + 1] == "/" and (not found or found[-1] in ("/", _DIRECTORIES)):
                    end += 1
                    found += [] if found[-1:] == [_DIRECTORIES] else [_DIRECTORIES]  # twice says no more
                else:
                    found.append(_DEEP)
            case "?":
                found.append("[^/]")
            case "[" if (closed := pattern.find("]", at + 2)) > 0:
                end = closed + 1
                found.append(_one_of(pattern[at + 1 : closed]))
            case "\\" if at + 1 < len(pattern):
                end = at + 2
                found.append(re.escape(pattern[at + 1]))
            case letter:
                found.append(re.escape(letter))
        at = end
    return found


def _one_of(body: str) -> str:
    negated = body[0] in "!^"
    letters = re.sub(r"[\\\[\]&~|^]", r"\\\g<0>", body[negated:])
    return f"(?!/)[{'^' if negated else ''}{letters}]"


def _regex(tokens: list[str]) -> str:
    """Of the stretches between two `**` the first is at the start, the last at the end, others between."""
    stretches: list[tuple[str, list[str]]] = [("", [])]  # what leads to each, and its tokens
    for token in tokens:
        if token in (_DEEP, _DIRECTORIES):
            stretches.append((token, []))
        else:
            stretches[-1][1].append(token)
    regex = ""
    for place, (leads, stretch) in enumerate(stretches):
        last = place == len(stretches) - 1
        skipped = {"": "", _DEEP: ".*?", _DIRECTORIES: "(?:[^/]+/)*?"}[leads]
        if last and not stretch:
            regex += ".*" if leads == _DEEP else skipped
        else:
            end = r"\Z" if last else ""
            regex += f"(?>{skipped}{_stretch(stretch, to_its_end=last)}{end})"
    return regex


def _stretch(tokens: list[str], *, to_its_end: bool) -> str:
    names: list[list[str]] = [[]]
    for token in tokens:
        if token == "/":
            names.append([])
        else:
            names[-1].append(token)
    last = len(names) - 1
    return "/".join(_name(name, to_its_end=to_its_end or place < last) for place, name in enumerate(names))


def _name(tokens: list[str], *, to_its_end: bool) -> str:
    """One name. Each stretch between stars is taken at its first place, the last one at the name's end."""
    stretches = [""]
    for token in tokens:
        if token == _STAR:
            stretches.append("")
        else:
            stretches[-1] += token
    if len(stretches) == 1:
        return stretches[0]
    ending = f"[^/]*{stretches.pop()}(?![^/])" if to_its_end else ""
    middle = "".join(f"(?>[^/]*?{stretch})" for stretch in stretches[1:] if stretch)
    return f"(?>{stretches[0]}{middle}{ending})"
