"""A policy of an owner: rules and hosts, and the roles, repositories and categories that they bind.

A policy that names no role binds all roles; one that names no repository and no category
binds all sessions. It only restricts: of all rules that match a call, the strictest decides.
"""

import re
from collections.abc import Mapping, Sequence
from dataclasses import field
from fnmatch import fnmatchcase
from typing import Any, get_args

from hutch.agent.tool_call_rules import Action, Binding, Policy, Rule, parse_rule
from hutch.domain.canonical_repository_name import repository_name
from hutch.domain.errors import BadRequest, HutchError
from hutch.domain.one_line_text import echo
from hutch.domain.user import ROLES, Role
from hutch.jail.egress import AllowList, parse_allow_list
from hutch.system.lazy_dataclass import dataclass

NAME = re.compile(r"[a-z][a-z0-9_-]{0,63}")
DEFAULT_APPROVERS: tuple[Role, ...] = ("owner", "member")
MAX_ITEMS, MAX_ITEM_CHARS = 200, 2000
LISTS = ("roles", "repositories", "categories", "rules", "network", "approvers")
FIELDS = ("name", "default", "saved_approvals", *LISTS)


@dataclass(frozen=True, slots=True, kw_only=True)
class PolicyEntry:
    """One policy."""

    name: str
    source: str  # where it is written
    roles: tuple[Role, ...] = ()
    repositories: tuple[str, ...] = ()
    categories: tuple[str, ...] = ()
    default: Action = "allow"  # where no rule matches
    rules: tuple[Rule, ...] = ()
    network: tuple[str, ...] | None = None  # the only hosts that may be reached; None: no limit
    approvers: tuple[Role, ...] = DEFAULT_APPROVERS
    saved_approvals: bool = False  # whether permanent approvals answer where it asks
    hosts: AllowList | None = field(default=None, compare=False)

    @property
    def described(self) -> str:
        return f"policy {self.name} in {self.source}"

    def binds_roles(self, roles: Sequence[str]) -> bool:
        return not self.roles or any(role in self.roles for role in roles)

    def binds_repository(self, repository: str, categories: Mapping[str, Sequence[str]]) -> bool:
        """True if it binds the sessions of a repository, by its own patterns or by those of a category."""
        if not self.repositories and not self.categories:
            return True
        patterns = [*self.repositories, *(each for name in self.categories for each in categories[name])]
        return any(matches_repository(pattern, repository) for pattern in patterns)

    def binding(self) -> Binding:
        """Its rules, for the decision about a call."""
        return Binding(
            self.name,
            self.described,
            Policy(self.rules, self.default),
            approvers=self.approvers,
            takes_saved=self.saved_approvals,
        )

    @property
    def has_rules(self) -> bool:
        return bool(self.rules) or self.default != "allow"


def parse_entry(values: Mapping[str, Any], source: str, categories: Mapping[str, object]) -> PolicyEntry:
    """Read a policy; errors name it and the wrong field."""
    name = values.get("name")
    if not isinstance(name, str) or not NAME.fullmatch(name):
        raise BadRequest(
            f"{source}: {echo(str(name), 80)} is not the name of a policy. Use a-z, 0-9, - and _, a letter "
            "first: name = 'candidates-offline'."
        )
    if unknown := sorted(set(values) - set(FIELDS)):
        raise BadRequest(
            f"Policy {name} has an unknown field: {echo(unknown[0], 80)}. There are: {', '.join(FIELDS)}."
        )
    lists = {field: _texts(name, field, values.get(field)) for field in LISTS if field in values}
    _check_choices(name, "roles", lists.get("roles"), ROLES)
    _check_choices(name, "approvers", lists.get("approvers"), ROLES)
    _check_choices(name, "categories", lists.get("categories"), tuple(categories))
    default = values.get("default", "allow")
    _check_choices(name, "default", (str(default),), get_args(Action))
    network = lists.get("network")
    try:
        rules = tuple(parse_rule(line) for line in lists.get("rules") or ())
        hosts = None if network is None else parse_allow_list(network)
    except HutchError as error:
        raise BadRequest(f"Policy {name}: {error}") from None
    if not rules and network is None and default == "allow":
        raise BadRequest(f"Policy {name} restricts nothing. Give it rules, default or network.")
    rest: dict[str, Any] = {field: lists[field] for field in ("repositories", "categories") if field in lists}
    return PolicyEntry(
        name=name,
        source=source,
        roles=lists.get("roles") or (),  # type: ignore[arg-type]  # checked above
        default=default,
        rules=rules,
        network=network,
        approvers=lists.get("approvers") or DEFAULT_APPROVERS,  # type: ignore[arg-type]  # checked above
        saved_approvals=values.get("saved_approvals") is True,
        hosts=hosts,
        **rest,
    )


def parse_entries(
    tables: Sequence[Mapping[str, Any]], source: str, categories: Mapping[str, object]
) -> tuple[PolicyEntry, ...]:
    """Read the policies of the settings."""
    found = tuple(parse_entry(table, source, categories) for table in tables)
    names = [each.name for each in found]
    if twice := next((name for name in names if names.count(name) > 1), None):
        raise BadRequest(f"{source} has two policies named {twice}. Give each a name of its own.")
    return found


def entry_json(entry: PolicyEntry) -> dict[str, Any]:
    """The fields as they are written; `parse_entry` reads them."""
    return {
        "name": entry.name,
        "roles": list(entry.roles),
        "repositories": list(entry.repositories),
        "categories": list(entry.categories),
        "default": entry.default,
        "rules": [str(rule) for rule in entry.rules],
        "network": None if entry.network is None else list(entry.network),
        "approvers": list(entry.approvers),
        "saved_approvals": entry.saved_approvals,
    }


def matches_repository(pattern: str, repository: str) -> bool:
    """True if a pattern with `*` and `?` matches a repository, however its address is written."""
    if not repository:
        return False
    return fnmatchcase(repository_name(repository), repository_name(pattern))


def _texts(name: str, field: str, value: object) -> tuple[str, ...] | None:
    if value is None:
        return None
    items: tuple[Any, ...] = tuple(value) if isinstance(value, list | tuple) else (None,)
    are_texts = all(isinstance(each, str) and 0 < len(each) <= MAX_ITEM_CHARS for each in items)
    if len(items) > MAX_ITEMS or not are_texts:
        raise BadRequest(
            f"Policy {name}: {field} is a list of at most {MAX_ITEMS} texts, each of 1 to {MAX_ITEM_CHARS} "
            "characters."
        )
    return items


def _check_choices(name: str, field: str, chosen: Sequence[str] | None, known: Sequence[str]) -> None:
    for each in chosen or ():
        if each not in known:
            there = ", ".join(known) or "none; name them in the settings, below [categories]"
            raise BadRequest(f"Policy {name}: {echo(each, 80)} is no value of {field}. There are: {there}.")
