"""A case for given code: what is called or typed, and the expected result.

The same case serves every language. Names are in snake case; each language has its own spelling of
them. The expected values never enter the jail in which the code runs.
"""

from typing import Any, Literal

from hutch.system.lazy_dataclass import dataclass

Language = Literal["python", "javascript", "typescript", "go"]
LANGUAGES: tuple[Language, ...] = ("python", "javascript", "typescript", "go")
LANGUAGE_NAMES: dict[Language, str] = {
    "python": "Python",
    "javascript": "JavaScript",
    "typescript": "TypeScript",
    "go": "Go",
}
MAX_CASES = 200
MAX_STEPS = 20_000


@dataclass(frozen=True, slots=True, kw_only=True)
class Expected:
    """The result that a call must have: a JSON value, or any failure."""

    value: Any = None
    fails: bool = False  # the call raises, throws, or returns an error


@dataclass(frozen=True, slots=True, kw_only=True)
class Step:
    """A call of a method, with JSON values as arguments."""

    call: str
    args: tuple[Any, ...] = ()
    expected: Expected | None = None  # None: any result


@dataclass(frozen=True, slots=True, kw_only=True)
class CodeCase:
    """One case. Exactly one of `call`, `create` and `stdin` says how the code is started.

    `call` calls a function of the module, `create` makes an object and calls the methods of `steps` in
    order, `stdin` runs the program with this input.
    """

    name: str
    call: str = ""
    create: str = ""
    args: tuple[Any, ...] = ()
    steps: tuple[Step, ...] = ()
    expected: Expected | None = None  # of a call
    stdin: str | None = None
    stdout: str | None = None  # the expected output; None: any
    timeout_s: float | None = None  # shorter than the limit of all cases


def spell(name: str, language: Language) -> str:
    """A name in snake case as the language writes it. Classes are written alike everywhere."""
    if language == "python" or ("_" not in name and name[:1].isupper() and language != "go"):
        return name
    first, *others = name.split("_")
    camel = first + "".join(word[:1].upper() + word[1:] for word in others)
    return camel[:1].upper() + camel[1:] if language == "go" else camel
