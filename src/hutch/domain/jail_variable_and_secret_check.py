"""Variables for commands in a jail, and secrets that are given to it by name.

A variable cannot weaken the jail: every process in it may set any variable for its own
children. Names that Hutch sets itself are refused, because a value of the user would have
no effect.
"""

import re
from collections.abc import Iterable, Mapping

from hutch.domain.errors import BadRequest

NAME = re.compile(r"[A-Za-z_][A-Za-z0-9_]{0,127}", re.ASCII)
MAX_VALUE_CHARS = 8192
MAX_VARIABLES = 100
RESERVED = frozenset(
    {
        *("PATH", "HOME", "USER", "LOGNAME", "SHELL", "PWD", "OLDPWD", "TMPDIR", "SHLVL", "_"),
        *("BASH_ENV", "ENV", "PROMPT_COMMAND", "PS0", "PS1", "PS2", "PS4", "IFS"),
        *("http_proxy", "https_proxy", "all_proxy", "no_proxy"),
        *("HTTP_PROXY", "HTTPS_PROXY", "ALL_PROXY", "NO_PROXY"),
    }
)
RESERVED_PREFIX = "HUTCH_"


def refusal_of_variable(name: str, value: str) -> str:
    """Why a variable cannot be set in a jail; empty if it can."""
    if not NAME.fullmatch(name):
        return (
            f"{name[:100]!r} is not the name of a variable. Use ASCII letters, digits and _, and do not "
            "start with a digit."
        )
    if name in RESERVED or name.upper().startswith(RESERVED_PREFIX):
        return f"Variable {name} is set by Hutch itself. Choose another name, or set it inside the command."
    if len(value) > MAX_VALUE_CHARS:
        return f"Variable {name} has {len(value)} characters; {MAX_VALUE_CHARS} is the maximum."
    if "\0" in value:
        return f"The value of variable {name} has a NUL character, which no variable can have."
    return ""


def checked_variables(found: Mapping[str, str]) -> tuple[tuple[str, str], ...]:
    """The variables in order, or an error that names the first that is refused."""
    if len(found) > MAX_VARIABLES:
        raise BadRequest(f"{len(found)} variables were given; {MAX_VARIABLES} is the maximum.")
    for name, value in found.items():
        if reason := refusal_of_variable(name, value):
            raise BadRequest(reason)
    return tuple(sorted(found.items()))


def checked_secret_names(names: Iterable[str], variables: Mapping[str, str]) -> tuple[str, ...]:
    """The names of secrets that a jail gets as variables, without repetition."""
    found = tuple(dict.fromkeys(names))
    for name in found:
        if reason := refusal_of_variable(name, ""):
            raise BadRequest(reason)
        if name in variables:
            raise BadRequest(f"{name} is given as a variable and as a secret. Give one of them.")
    if len(found) > MAX_VARIABLES:
        raise BadRequest(f"{len(found)} secrets were named; {MAX_VARIABLES} is the maximum.")
    return found
