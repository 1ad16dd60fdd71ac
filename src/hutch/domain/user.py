"""Users, roles and scopes.

A user has one role in the installation. A token may have fewer scopes than its user's role
gives, never more; a browser session has all of them.
"""

import re
import unicodedata
from typing import Literal, get_args

from hutch.domain.errors import BadRequest, Denied
from hutch.domain.ids import UserId
from hutch.domain.one_line_text import echo
from hutch.system.lazy_dataclass import dataclass

Role = Literal["owner", "member", "observer", "assessor", "candidate"]
Scope = Literal["read", "write", "admin"]
ShareRole = Literal["observer", "member", "assessor", "candidate"]
ShareScope = Literal["prompt", "files", "commands", "terminals", "previews"]
"""Kinds of work to which a share may be limited; reading is always included."""

ROLES: tuple[Role, ...] = get_args(Role)
SCOPES: tuple[Scope, ...] = get_args(Scope)
SHARE_SCOPES: tuple[ShareScope, ...] = get_args(ShareScope)
MAX_NAME_CHARS = 64

_SCOPES_OF: dict[Role, frozenset[Scope]] = {
    "owner": frozenset({"read", "write", "admin"}),
    "member": frozenset({"read", "write"}),
    "observer": frozenset({"read"}),
    "assessor": frozenset({"read"}),
    "candidate": frozenset({"read", "write"}),
}
# Hangul fillers are invisible characters; two spaces look like one.
_VISIBLE = r"[^\W\u115f\u1160]"
_NAME = re.compile(rf"({_VISIBLE}|[.@+-])( ?({_VISIBLE}|[.@+'-]))*(?<!')")
# Scripts that share look-alike characters.
_ALIKE_SCRIPTS = {"LATIN", "GREEK", "CYRILLIC", "ARMENIAN", "CHEROKEE", "COPTIC", "LISU"}


@dataclass(frozen=True, slots=True)
class User:
    """A user account."""

    id: UserId
    name: str
    role: Role
    created_ms: int
    disabled: bool = False


@dataclass(frozen=True, slots=True)
class Caller:
    """The caller of one request, and the credential that identified them."""

    user: User
    scopes: frozenset[Scope]
    by: Literal["token", "cookie", "local"]
    credential_id: str

    @property
    def is_owner(self) -> bool:
        """An owner whose credential has all scopes."""
        return self.user.role == "owner" and "admin" in self.scopes

    def need(self, scope: Scope) -> None:
        """Refuse a caller without this scope."""
        if scope not in self.scopes:
            narrowed = self.by == "token" and scope in scopes_of(self.user.role)
            hint = (
                f"Make a token with it: hutch tokens create --scope {scope}"
                if narrowed
                else f"An owner can change the role: hutch users role {self.user.name} ROLE"
            )
            raise Denied(f"This needs the scope '{scope}', which {self.user.name} does not have. {hint}")


def scopes_of(role: Role) -> frozenset[Scope]:
    """All scopes of a role."""
    return _SCOPES_OF[role]


def with_implied(scopes: frozenset[Scope]) -> frozenset[Scope]:
    """Add implied scopes: admin implies write, write implies read."""
    implied: set[Scope] = set(scopes)
    if "admin" in implied:
        implied.add("write")
    if "write" in implied:
        implied.add("read")
    return frozenset(implied)


def parse_name(text: str) -> str:
    """Check an untrusted user name: letters, digits and a few signs, or an e-mail address."""
    name = unicodedata.normalize("NFKC", text)
    # Not like an id: users are looked up by name or id, and the two must not be confused.
    if len(name) > MAX_NAME_CHARS or not _NAME.fullmatch(name) or name.casefold().startswith("usr_"):
        raise BadRequest(
            f"{echo(text, 80)} cannot be a user's name. Use up to {MAX_NAME_CHARS} letters, digits, "
            "single spaces and . @ + - _ '"
        )
    scripts = {unicodedata.name(character, "").partition(" ")[0] for character in name} & _ALIKE_SCRIPTS
    if len(scripts) > 1:
        raise BadRequest(
            f"{echo(text, 80)} mixes {' and '.join(sorted(each.capitalize() for each in scripts))} letters, "
            "and could look like another user's name. Use letters of one script."
        )
    return name


def name_key(name: str) -> str:
    """The form in which names are compared: `Ada` and `ada` are one user, in any code points."""
    return unicodedata.normalize("NFKC", name).casefold()


def parse_role(text: str) -> Role:
    for role in ROLES:
        if role == text:
            return role
    raise BadRequest(f"{echo(text, 40)} is not a role. There are: {', '.join(ROLES)}.")


def parse_scopes(texts: "list[str] | tuple[str, ...]") -> frozenset[Scope]:
    """Parse scope names, also comma-separated, and add implied scopes."""
    names = [name.strip() for text in texts for name in text.split(",") if name.strip()]
    wrong = [name for name in names if name not in SCOPES]
    if wrong or not names:
        problem = f"{echo(wrong[0], 40)} is not a scope" if wrong else "No scope is named"
        raise BadRequest(f"{problem}. There are: {', '.join(SCOPES)}.")
    return with_implied(frozenset(scope for scope in SCOPES if scope in names))
