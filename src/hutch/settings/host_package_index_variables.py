"""The addresses of package indexes in the environment of the user who runs Hutch."""

import os
from collections.abc import Mapping

INDEX_VARIABLES = (
    *("UV_DEFAULT_INDEX", "UV_INDEX_URL", "PIP_INDEX_URL", "PIP_EXTRA_INDEX_URL"),
    *("npm_config_registry", "NPM_CONFIG_REGISTRY", "YARN_NPM_REGISTRY_SERVER"),
    "GOPROXY",
)


def index_variables(environ: Mapping[str, str] | None = None) -> dict[str, str]:
    """The variables that name a package index, with their values."""
    found = os.environ if environ is None else environ
    return {name: found[name] for name in INDEX_VARIABLES if found.get(name)}
