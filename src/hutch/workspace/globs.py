r"""Globs: `*`, `?`, `[…]`, `{a,b}`, and `**` for any number of directories.

Patterns are untrusted and are matched on the host. The usual translation into a regular
expression backtracks exponentially with the number of stars. So braces are expanded
first, and each segment between two stars is matched at its first position without
backtracking, which is correct for patterns without braces.
"""

import re
from functools import lru_cache

from hutch.domain.errors import BadRequest

MAX_CHARS = 1000  # of a pattern
MAX_ALTERNATIVES = 500  # after expanding braces
MAX_EXPANDED_CHARS = 20_000  # in total: compiling takes up to 7 seconds per million

_STAR, _DEEP, _DIRECTORIES = (
    "*",
    "**",
    "**/",
)  # as tokens; anything else is a regular expression for one character


@lru_cache(maxsize=256)
def glob_pattern(pattern: str) -> re.Pattern[str]:
    """A glob as a regular expression, with a match time proportional to pattern times path.

    A pattern without a slash matches in every directory. One with a slash at its end matches all that is
    below.
    """
    if len(pattern) > MAX_CHARS:
        raise BadRequest(
            f"The glob '{pattern[:40]}…' has more than {MAX_CHARS:,} characters. Give a shorter one."
        )
    whole = pattern if "/" in pattern.rstrip("/") else f"**/{pattern}"
    whole = whole.lstrip("/").removeprefix("./")
    whole = f"{whole}**" if whole.endswith("/") else whole
    try:
        return re.compile("|".join(_regex(_tokens(each)) for each in _expand_braces(whole)), re.DOTALL)
    except re.error as error:
        raise BadRequest(f"The glob '{pattern}' is invalid: {error}.") from None


def _expand_braces(pattern: str) -> list[str]:
    """Expand braces into patterns without braces."""
    found = [""]  # expansions of what was read so far
    open_braces: list[tuple[list[str], list[str]]] = []  # for each: expansions before it, alternatives so far
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
            case character:
                found = [each + character for each in found]
        at = end
    if open_braces:
        raise BadRequest(f"The glob '{pattern}' has a brace that is not closed. Write '{{a,b}}', or '\\{{'.")
    if sum(map(len, found)) > MAX_EXPANDED_CHARS:
        raise _too_many_error(pattern)
    return list(dict.fromkeys(found))


def _too_many_error(pattern: str) -> BadRequest:
    return BadRequest(f"The braces of the glob '{pattern}' expand to too many patterns. Give a simpler one.")


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
                    found += (
                        [] if found[-1:] == [_DIRECTORIES] else [_DIRECTORIES]
                    )  # repeating it changes nothing
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
            case character:
                found.append(re.escape(character))
        at = end
    return found


def _one_of(body: str) -> str:
    negated = body[0] in "!^"
    characters = re.sub(r"[\\\[\]&~|^]", r"\\\g<0>", body[negated:])
    return f"(?!/)[{'^' if negated else ''}{characters}]"


def _regex(tokens: list[str]) -> str:
    """Join segments between `**`: the first is anchored at the start, the last at the end."""
    segments: list[tuple[str, list[str]]] = [("", [])]  # the separator before each, and its tokens
    for token in tokens:
        if token in (_DEEP, _DIRECTORIES):
            segments.append((token, []))
        else:
            segments[-1][1].append(token)
    regex = ""
    for position, (leads, segment) in enumerate(segments):
        last = position == len(segments) - 1
        skipped = {"": "", _DEEP: ".*?", _DIRECTORIES: "(?:[^/]+/)*?"}[leads]
        if last and not segment:
            regex += ".*" if leads == _DEEP else skipped
        else:
            end = r"\Z" if last else ""
            regex += f"(?>{skipped}{_segment(segment, to_end=last)}{end})"
    return regex


def _segment(tokens: list[str], *, to_end: bool) -> str:
    names: list[list[str]] = [[]]
    for token in tokens:
        if token == "/":
            names.append([])
        else:
            names[-1].append(token)
    last = len(names) - 1
    return "/".join(_name(name, to_end=to_end or position < last) for position, name in enumerate(names))


def _name(tokens: list[str], *, to_end: bool) -> str:
    """One path component. Segments between stars match at their first position, the last at the end."""
    segments = [""]
    for token in tokens:
        if token == _STAR:
            segments.append("")
        else:
            segments[-1] += token
    if len(segments) == 1:
        return segments[0]
    ending = f"[^/]*{segments.pop()}(?![^/])" if to_end else ""
    middle = "".join(f"(?>[^/]*?{segment})" for segment in segments[1:] if segment)
    return f"(?>{segments[0]}{middle}{ending})"
