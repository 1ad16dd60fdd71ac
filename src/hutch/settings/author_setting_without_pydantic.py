"""The author setting alone, for commands that must start before pydantic is loaded."""

import os
import tomllib
from collections.abc import Mapping

from hutch.settings.installation_paths import find_paths


def author_setting(environ: Mapping[str, str] | None = None) -> str:
    """`delivery.author` as the environment or the user's file sets it; empty when neither does."""
    environ = os.environ if environ is None else environ
    if named := environ.get("HUTCH_DELIVERY__AUTHOR"):
        return named
    try:
        table = tomllib.loads(find_paths(environ).config_file.read_bytes().decode())
        return str(table["delivery"]["author"])
    except (FileNotFoundError, KeyError):
        return ""
    except (OSError, ValueError, TypeError, RecursionError):  # invalid: `load` describes the error
        from hutch.settings.layered_loading import load

        return load(environ=environ).settings.delivery.author or ""
