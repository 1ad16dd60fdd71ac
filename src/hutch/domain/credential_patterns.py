"""Patterns of well-known credentials, and of their first characters."""

import re
from collections.abc import Iterator

KEY_END = re.compile(r"-----END [A-Z0-9 ]{0,48}-----")
KEY_BEGIN = re.compile(r"-----BEGIN [A-Z0-9 ]{0,32}PRIVATE KEY")
WORD_CHARS = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789_.-"
CREDENTIAL_PREFIX = re.compile(
    r"(?:(?<![A-Za-z0-9])|(?<=[0-9;\[]m))"
    r"(?:sk-|AIza|gh[opsur]_|github_pat_|hutch(?:link|invite)?_|A[KS]IA|xox[abceoprs]-|xapp-|eyJ)"
)
BEFORE_CREDENTIAL = re.compile(r"(?i:authorization)\\?[\"']?\s{0,4}[:=]?[^\n]{0,40}$")
# With the prefix of each line: a bar in an exception group, the line number, the sign in a diff.
_LINE_BREAK = r"(?:[\s|]|\\[nr]){1,64}(?:[0-9]{1,7}[\t:-][\t ]?|[+-])?"

SHAPES: dict[str, str] = {
    "anthropic_key": r"sk-ant-[A-Za-z0-9_-]{16,}+",
    "openai_key": r"sk-(?:(?:proj|svcacct|admin)-[A-Za-z0-9_-]{20,}+|(?:or-v1-)?[A-Za-z0-9]{20,}+)",
    "google_key": r"AIza[A-Za-z0-9_-]{35}",
    "github_token": r"g(?:h[opsur]_[A-Za-z0-9]{36,}+|ithub_pat_[A-Za-z0-9_]{22,}+)",
    "hutch_token": r"hutch(?:link|invite)?_[A-Za-z0-9]{43}(?![A-Za-z0-9])",
    "aws_key": r"A(?:KIA|SIA)[A-Z2-7]{16}(?![A-Za-z0-9])",
    "slack_token": r"x(?:ox[abceoprs]|app)-[A-Za-z0-9-]{10,}+",
    # Not after "-" or "_" either: they occur inside a part, and each would start a new scan of it.
    "jwt": r"e(?<![_-]e)yJ[A-Za-z0-9_-]{8,}+\.eyJ[A-Za-z0-9_-]{8,}+\.[A-Za-z0-9_-]{8,}+",
    "private_key": (
        r"-----BEGIN [A-Z0-9 ]{0,32}PRIVATE KEY(?: BLOCK)?-----"
        rf"(?:{_LINE_BREAK}[A-Za-z-]{{1,20}}: [^\n\\]{{1,120}}){{0,4}}+"
        rf"{_LINE_BREAK}[A-Za-z0-9+/=]{{16,}}+(?:{_LINE_BREAK}[A-Za-z0-9+/=]{{4,}}+)*+"
        rf"(?:{_LINE_BREAK}-----END [A-Z0-9 ]{{0,32}}PRIVATE KEY(?: BLOCK)?-----)?"
    ),
}
# Every credential contains one of these. Most texts have none, and this search is much faster.
SIGNS = (
    *("sk-", "AIza", "gho_", "ghp_", "ghs_", "ghu_", "ghr_", "github_pat_", "AKIA", "ASIA"),
    *("hutch_", "hutchlink_", "hutchinvite_", "xox", "xapp-", "eyJ", "-----BEGIN "),
)
_AUTHORIZATION = (
    r"(?i:uthorization)\\?[\"']?\s{0,4}[:=]\s{0,4}\\?[\"']?(?i:bearer|basic|token)\s{1,4}"
    r"[A-Za-z0-9._~+/=-]{8,}+"
)
PARTIAL_CREDENTIAL = re.compile(rf"[aA]{_AUTHORIZATION.removesuffix('{8,}+')}*+$")


def shape_patterns() -> Iterator[str]:
    """The patterns in the form that the regex engine runs fastest.

    Each begins with a literal character, so that a search skips from one such character to the
    next (seven times as fast), and ends with an empty group that names the pattern.
    """
    for name, shape in SHAPES.items():
        first, rest = shape[0], shape[1:]
        # A credential starts where a word does, or right after an escaped newline or a colour code.
        start = rf"(?:(?<![A-Za-z0-9]{first})|(?<=\\[nrt]{first})|(?<=[0-9;\[]m{first}))"
        yield f"{first}{start}{rest}(?P<{name}>)"
    yield f"a{_AUTHORIZATION}(?P<authorization>)"
    yield f"A{_AUTHORIZATION}(?P<Authorization>)"
