"""Manifests as data. A manifest that cannot be parsed is an empty one: it is hostile, and never an error."""

import json
import re
import tomllib
from collections.abc import Iterator
from typing import Any
from urllib.parse import urlsplit

MAX_TEXT_CHARS = 4 * 1024 * 1024
MAX_YAML_CHARS = 64 * 1024
URL = re.compile(r"https?://[\w.~:@-]+")
MAX_HOSTS = 20
HOST = re.compile(r"(?=.{1,253}\Z)[a-z0-9](?:[a-z0-9-]{0,62})(?:\.[a-z0-9-]{1,63})+(?::\d{1,5})?")


def parse_toml(text: str) -> dict[str, Any]:
    if len(text) > MAX_TEXT_CHARS or _has_long_keys(text):
        return {}
    try:
        return tomllib.loads(text)
    except (ValueError, RecursionError):
        return {}


def parse_json(text: str) -> dict[str, Any]:
    if len(text) > MAX_TEXT_CHARS * 4:
        return {}
    try:
        found = json.loads(text)
    except (ValueError, RecursionError):
        return {}
    return found if isinstance(found, dict) else {}


def parse_yaml(text: str) -> dict[str, Any]:
    """A small YAML file. Aliases are refused: a few lines of them can stand for gigabytes."""
    if len(text) > MAX_YAML_CHARS:
        return {}
    import yaml

    try:
        if any(isinstance(event, yaml.AliasEvent) for event in yaml.parse(text, Loader=yaml.SafeLoader)):
            return {}
        found = yaml.safe_load(text)
    except (yaml.YAMLError, ValueError, RecursionError):
        return {}
    return found if isinstance(found, dict) else {}


def parse_json_with_comments(text: str) -> dict[str, Any]:
    """JSON with `//` and `/* */` comments and trailing commas, as in devcontainer.json."""
    return parse_json(_without_trailing_commas("".join(_without_comments(text[:MAX_TEXT_CHARS]))))


def table_of(value: object, *keys: str) -> dict[str, Any]:
    """The table at a path of keys; empty if there is none."""
    for key in keys:
        value = value.get(key) if isinstance(value, dict) else None
    return value if isinstance(value, dict) else {}


def list_of(value: object, key: str) -> list[dict[str, Any]]:
    found = value.get(key) if isinstance(value, dict) else None
    return [each for each in found if isinstance(each, dict)] if isinstance(found, list) else []


def texts_of(value: object) -> list[str]:
    """The texts of a list; a single text is a list of one."""
    if isinstance(value, str):
        return [value]
    return [each for each in value if isinstance(each, str)] if isinstance(value, list) else []


def hosts_of(text: str) -> tuple[str, ...]:
    """The hosts of the web addresses in a lock file, without credentials, in the order of their first use."""
    found: dict[str, None] = {}
    for match in URL.finditer(text):
        try:
            parts = urlsplit(match[0])
            host = f"{parts.hostname}:{parts.port}" if parts.port else parts.hostname or ""
        except ValueError:
            continue
        if HOST.fullmatch(host):
            found[host] = None
        if len(found) == MAX_HOSTS:
            break
    return tuple(found)


def _has_long_keys(text: str) -> bool:
    """True for keys such as `a.a.a.a…`: the time to parse them grows with the square of their length."""
    return any(len(line) > 2000 and line.split("=", 1)[0].count(".") > 100 for line in text.splitlines())


def _without_comments(text: str) -> Iterator[str]:
    at, size, is_text = 0, len(text), False
    while at < size:
        here = text[at]
        if is_text:
            step = 2 if here == "\\" else 1
            yield text[at : at + step]
            is_text = here != '"'
            at += step
        elif text.startswith("//", at):
            at = _found(text, "\n", at)
        elif text.startswith("/*", at):
            at = _found(text, "*/", at) + 2
        else:
            is_text = here == '"'
            yield here
            at += 1


def _found(text: str, mark: str, at: int) -> int:
    found = text.find(mark, at)
    return len(text) if found < 0 else found


def _without_trailing_commas(text: str) -> str:
    parts = re.split(r'("(?:[^"\\]|\\.)*")', text)
    parts[::2] = [re.sub(r",(\s*[}\]])", r"\1", part) for part in parts[::2]]
    return "".join(parts)
