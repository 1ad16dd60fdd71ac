"""A client library loaded on demand is the same library, only later."""

import json
import subprocess
import sys
from pathlib import Path

import pytest

from tests.deadline import DEADLINE_S

LOADED = """
import importlib, json, sys
names = json.load(sys.stdin)
from hutch.llm.on_demand import WAITING, load_on_demand
if sys.argv[1] == "on demand":
    load_on_demand()
import anthropic, openai.types
loaded = len(sys.modules)
packages = ["anthropic", "anthropic.types", "anthropic.types.beta", "anthropic.resources", "openai.types",
    "openai.types.responses"]
found = {}
for package in map(importlib.import_module, packages):
    wanted = names.get(package.__name__) or [each for each in dir(package) if each[0] != "_"]
    found[package.__name__] = {
        each: getattr(value := getattr(package, each), "__name__", type(value).__name__) for each in wanted
    }
print(json.dumps([loaded, found]))
"""
PACKAGE = {
    "shop/__init__.py": "from .fruit import *\nfrom .tea import Green as Green, Black as Dark\n"
    "from .salt import salt as salt\nfrom .tools import spoon\n",
    "shop/fruit.py": "print('fruit')\napple = 'an apple'\n",
    "shop/tea.py": "print('tea')\nGreen, Black = 'green', 'black'\n",
    "shop/salt.py": "print('salt')\nsalt = 'the salt itself'\n",
    "shop/tools/__init__.py": "from typing import Union\nfrom .spoons import spoon\n"
    "Any = Union[spoon, int]\n",
    "shop/tools/spoons.py": "print('spoons')\nclass spoon: pass\n",
}


def python(*words: str, cwd: Path | None = None, said: str = "") -> str:
    done = subprocess.run(
        [sys.executable, "-c", *words],
        cwd=cwd,
        input=said,
        capture_output=True,
        text=True,
        timeout=DEADLINE_S,
    )
    assert done.returncode == 0, done.stderr
    return done.stdout


@pytest.fixture
def shop(tmp_path: Path) -> Path:
    for name, text in PACKAGE.items():
        (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / name).write_text(text)
    return tmp_path


def in_shop(shop: Path, code: str) -> list[str]:
    begin = "from hutch.llm.on_demand import load_on_demand; load_on_demand({'shop': ('*',)}); import shop; "
    return python(begin + code, cwd=shop).split("\n")[:-1]


def test_all_names_are_there_as_always_and_most_modules_are_not_loaded() -> None:
    always, found = json.loads(python(LOADED, "always", said="{}"))
    names = json.dumps({package: list(wanted) for package, wanted in found.items()})
    on_demand, found_then = json.loads(python(LOADED, "on demand", said=names))
    assert found_then == found
    assert on_demand < always / 2


def test_a_name_is_looked_up_when_it_is_wanted(shop: Path) -> None:
    # Salt at once: it has the name of its module, which would take its place.
    assert in_shop(shop, "print('loaded', shop.Green, shop.Dark)") == [
        "salt",
        "tea",
        "loaded green black",
    ]
    assert in_shop(
        shop, "import shop.salt; print(shop.salt, shop.tea.Green); from shop import Dark; print(Dark)"
    ) == [
        "salt",
        "tea",
        "the salt itself green",
        "black",
    ]


def test_what_is_taken_with_a_star_is_found(shop: Path) -> None:
    assert in_shop(shop, "print(shop.apple)") == ["salt", "fruit", "an apple"]


def test_a_package_that_uses_its_names_is_loaded_as_always(shop: Path) -> None:
    assert in_shop(shop, "from shop import tools; print(tools.Any.__args__)") == [
        "salt",
        "spoons",
        "(<class 'shop.tools.spoons.spoon'>, <class 'int'>)",
    ]


def test_what_is_not_there_is_missing_as_always(shop: Path) -> None:
    code = "print(hasattr(shop, 'pear')); from importlib.util import find_spec; print(find_spec('shop.pear'))"
    assert in_shop(shop, code) == ["salt", "fruit", "False", "None"]
