"""Every setting, event, error code and command is documented."""

import json
import re
from collections.abc import Iterator
from pathlib import Path
from typing import get_args

import pytest

from hutch.cli import exit_codes, top_level_help
from hutch.cli.command_table import COMMANDS, Command
from hutch.cli.dispatch import load
from hutch.domain.base_event import Event
from hutch.domain.errors import HutchError
from hutch.domain.events import EVENT_TYPES, from_json, to_json
from hutch.domain.inputs import AnyInput, Input, parse_input
from hutch.settings.schema import FIELDS
from hutch.store.record_format import README

INPUT_TYPES: dict[str, type[Input]] = {
    get_args(kind.model_fields["type"].annotation)[0]: kind for kind in get_args(get_args(AnyInput)[0])
}


def test_every_setting(root: Path) -> None:
    page = (root / "docs/settings.md").read_text()
    assert [name for name in FIELDS if f"`{name}`" not in page] == []


def test_every_error_code(root: Path) -> None:
    page = (root / "docs/errors.md").read_text()
    assert [kind.code for kind in _family(HutchError) if f"| `{kind.code}` |" not in page] == []


def test_every_event_type_and_its_fields(root: Path) -> None:
    sections = dict(
        re.findall(r"^### `([a-z_.]+)`\n(.*?)(?=^##)", (root / "docs/events.md").read_text(), re.M | re.S)
    )
    assert set(sections) == set(EVENT_TYPES)
    missing = [
        f"{name}.{field}"
        for name, kind in EVENT_TYPES.items()
        for field in set(kind.model_fields) - set(Event.model_fields)
        if f"| `{field}` |" not in sections[name]
    ]
    assert missing == []


def test_every_example_of_an_event_is_one(root: Path) -> None:
    examples = re.findall(r"^```json\n(.*?)\n```$", (root / "docs/events.md").read_text(), re.M | re.S)
    types = {example: json.loads(example)["type"] for example in examples}
    for example, type_ in types.items():
        if type_ in EVENT_TYPES:
            assert to_json(from_json(example.encode(), type_)).decode() == example
        else:
            parse_input.validate_json(example)
    assert set(EVENT_TYPES) <= set(types.values())


def test_every_input_type_and_its_fields(root: Path) -> None:
    page = (root / "docs/events.md").read_text().partition("\n## Inputs\n")[2]
    for name, kind in INPUT_TYPES.items():
        row = re.search(rf"^\| `{name}` \|.*$", page, re.M)
        assert row, f"input {name} is not in docs/events.md"
        assert [field for field in set(kind.model_fields) - {"type"} if f"`{field}`" not in row[0]] == []


def test_every_command(root: Path) -> None:
    page = (root / "docs/cli.md").read_text()
    assert [command.name for command in COMMANDS if f"\n## hutch {command.name}\n" not in page] == []


def test_every_exit_code(root: Path) -> None:
    page = (root / "docs/cli.md").read_text()
    codes = {value for name, value in vars(exit_codes).items() if name.isupper() and isinstance(value, int)}
    assert set(exit_codes.MEANINGS) == codes
    assert [code for code in codes if f"| `{code}` | {exit_codes.MEANINGS[code]} |" not in page] == []


def test_help_names_the_exit_codes_that_a_script_meets() -> None:
    found = {int(number) for number in re.findall(r"\b\d+\b", top_level_help.EXIT_CODES)}
    assert found == set(exit_codes.MEANINGS)


def test_the_lines_for_people_in_a_record(root: Path) -> None:
    quoted = "".join(f"    {line}\n" for line in README.decode().splitlines())
    assert f"\n\n{quoted}\n" in (root / "docs/record.md").read_text()


def test_every_rule_that_the_record_page_points_to(root: Path) -> None:
    page = (root / "docs/record.md").read_text()
    rules = re.findall(r"^- \*\*([A-Z]\d)\.\*\* ", page, re.M)
    assert rules == sorted(set(rules))
    assert set(re.findall(r"\b[A-D]\d\b", page)) == set(rules)


@pytest.mark.parametrize("command", COMMANDS, ids=lambda command: command.name)
def test_every_command_of_the_table_can_be_loaded(command: Command) -> None:
    loaded = load(command)
    assert loaded.help


@pytest.mark.parametrize("command", COMMANDS, ids=lambda command: command.name)
def test_no_list_of_commands_cuts_a_description(command: Command) -> None:
    """The list shows the first sentence of each, on one line of an ordinary terminal."""
    loaded = load(command)
    text = loaded.get_help(loaded.make_context(command.name, [], resilient_parsing=True, terminal_width=80))
    assert [line for line in text.splitlines()[1:] if line.endswith("...")] == []


def _family(kind: type[HutchError]) -> Iterator[type[HutchError]]:
    yield kind
    for below in kind.__subclasses__():
        yield from _family(below)
