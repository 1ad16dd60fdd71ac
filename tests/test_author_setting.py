"""One setting is read without the models of all settings, and is the same."""

from pathlib import Path

import pytest

from hutch.domain.errors import BadRequest
from hutch.settings import load
from hutch.settings.author_setting_without_pydantic import author_setting

ADA = "Ada <ada@example.org>"


@pytest.mark.parametrize(
    ("file", "variable"),
    [
        (None, None),
        (None, ADA),
        (f'[delivery]\nauthor = "{ADA}"\n', None),
        (f'[delivery]\nauthor = "{ADA}"\n', "Bob <bob@example.org>"),
        (f'[delivery]\nauthor = "{ADA}"\n', ""),
        ("[jail]\nprocesses = 50\n", None),
        ("[delivery]\n", None),
    ],
)
def test_the_author_is_the_one_that_is_loaded(tmp_path: Path, file: str | None, variable: str | None) -> None:
    environ = {"HUTCH_HOME": str(tmp_path)}
    if file is not None:
        (tmp_path / "config.toml").write_text(file)
    if variable is not None:
        environ["HUTCH_DELIVERY__AUTHOR"] = variable
    assert author_setting(environ) == (load(environ=environ).settings.delivery.author or "")


@pytest.mark.parametrize("file", ["[delivery\n", "delivery = 7\n"])
def test_a_file_that_is_wrong_is_refused(tmp_path: Path, file: str) -> None:
    (tmp_path / "config.toml").write_text(file)
    with pytest.raises(BadRequest):
        author_setting({"HUTCH_HOME": str(tmp_path)})
