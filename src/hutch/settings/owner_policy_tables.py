"""The tables of the settings file for policies of owners: `[[policy]]` and `[categories]`."""

import re
from typing import Annotated, Any, Literal

from pydantic import AfterValidator, BaseModel, BeforeValidator, ConfigDict, Field, ValidationError

from hutch.domain.user import Role
from hutch.domain.validation_messages import describe_with_location
from hutch.settings.value_types import HostPatterns, Text

EXAMPLE = '[[policy]] with name = "candidates-offline", roles = ["candidate"], network = []'
NAME = re.compile(r"[a-z][a-z0-9_-]{0,63}")


def _name(value: str) -> str:
    if not NAME.fullmatch(value):
        raise ValueError("It should be a name of a-z, 0-9, - and _, a letter first: candidates-offline")
    return value


def _rule(value: str) -> str:
    if not re.match(r"(allow|ask|deny) +\S", value):
        raise ValueError("It should be a rule: allow|ask|deny TOOL [PATTERN], such as ask bash git push")
    return value


Name = Annotated[Text, AfterValidator(_name)]
Items = Annotated[tuple[Text, ...], Field(max_length=200)]


class PolicyTable(BaseModel):
    """One policy. It binds all roles when it names none, and all repositories when it names none."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    name: Name
    roles: tuple[Role, ...] = ()
    repositories: Items = ()
    categories: tuple[Name, ...] = ()
    default: Literal["allow", "ask", "deny"] = "allow"
    rules: Annotated[tuple[Annotated[Text, AfterValidator(_rule)], ...], Field(max_length=200)] = ()
    network: HostPatterns | None = None
    approvers: tuple[Role, ...] = ("owner", "member")
    saved_approvals: bool = False


def _policies(value: object) -> object:
    if not isinstance(value, list | tuple):
        raise ValueError(f"It should be a list of tables in the settings file: {EXAMPLE}")
    return tuple(_policy(number, table) for number, table in enumerate(value, 1))


def _policy(number: int, table: Any) -> PolicyTable:
    if isinstance(table, PolicyTable):
        return table
    name = table.get("name") if isinstance(table, dict) else None
    try:
        return PolicyTable.model_validate(table)
    except ValidationError as error:
        problem = describe_with_location(error.errors(include_url=False)[0])
        which = f"policy {name}" if isinstance(name, str) and NAME.fullmatch(name) else f"policy {number}"
        raise ValueError(f"In {which}: {problem}") from None


def _categories(value: object) -> object:
    is_table = isinstance(value, dict) and all(
        isinstance(name, str)
        and NAME.fullmatch(name)
        and isinstance(patterns, list | tuple)
        and all(isinstance(each, str) and each for each in patterns)
        for name, patterns in value.items()
    )
    if not is_table:
        raise ValueError(
            "It should be a table of the settings file, with a list of repositories for each category: "
            '[categories] with payments = ["github.com/acme/pay-*"]'
        )
    return value


PolicyTables = Annotated[tuple[PolicyTable, ...], BeforeValidator(_policies)]
Categories = Annotated[dict[Name, Items], BeforeValidator(_categories)]
