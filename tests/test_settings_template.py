"""The settings file that `hutch config init` writes."""

import re
import tomllib
from pathlib import Path

from hutch.settings import Settings, load
from hutch.settings.repository_settings_file import MAX_FILE_BYTES, RepositoryAccess
from hutch.settings.schema import FIELDS, repository_access
from hutch.settings.settings_file_template import EXAMPLES, repository_template, user_template

SETTING = re.compile(r"^#(?=[a-z_]+ = )", re.MULTILINE)


def names(text: str) -> list[str]:
    """The names of the settings in a file."""
    flat = []
    for key, value in tomllib.loads(text).items():
        is_section = any(name.startswith(f"{key}.") for name in FIELDS)
        flat += [f"{key}.{each}" for each in value] if is_section else [key]
    return flat


def test_every_setting_without_a_default_has_an_example() -> None:
    assert sorted(EXAMPLES) == sorted(name for name, field in FIELDS.items() if field.default is None)


def test_nothing_is_set_until_a_line_is_uncommented(tmp_path: Path) -> None:
    assert names(user_template()) == names(repository_template()) == []
    (tmp_path / "config.toml").write_text(user_template())
    assert load(environ={"HUTCH_HOME": str(tmp_path)}).settings == Settings()


def test_every_line_can_be_uncommented(tmp_path: Path) -> None:
    text = SETTING.sub("", user_template())
    assert sorted(names(text)) == sorted(FIELDS)
    (tmp_path / "config.toml").write_text(text)
    loaded = load(environ={"HUTCH_HOME": str(tmp_path)})
    for name, field in FIELDS.items():
        if field.default is not None:
            assert loaded.value(name) == field.default, name
            assert loaded.origins[name] == str(tmp_path / "config.toml")


def test_the_file_of_a_repository_has_only_what_it_may_set(tmp_path: Path) -> None:
    text = SETTING.sub("", repository_template())
    allowed = [name for name in FIELDS if repository_access(name) is not RepositoryAccess.NEVER]
    assert sorted(names(text)) == sorted(allowed)
    assert len(text) < MAX_FILE_BYTES
    (tmp_path / "repo/.hutch").mkdir(parents=True)
    (tmp_path / "repo/.hutch/config.toml").write_text(text)
    loaded = load(repo=tmp_path / "repo", environ={"HUTCH_HOME": str(tmp_path / "home")})
    assert loaded.refused == ()


def test_every_setting_is_described_on_short_lines() -> None:
    lines = user_template().splitlines()
    assert max(map(len, lines)) <= 110
    for number, line in enumerate(lines):
        if SETTING.match(line):
            assert lines[number - 1].startswith("# "), line
    assert "](" not in user_template()
