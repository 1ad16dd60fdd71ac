"""The names of all secrets that Hutch uses, and of the variables that hold GitHub tokens.

A secret under any other name would never be used, so a misspelt name is refused.
"""

import difflib
import re

from hutch.domain.errors import BadRequest
from hutch.domain.quoted_text import echo

GITHUB_VARIABLES = ("GH_TOKEN", "GITHUB_TOKEN")  # for github.com
ENTERPRISE_VARIABLES = ("GH_ENTERPRISE_TOKEN", "GITHUB_ENTERPRISE_TOKEN")
TOKEN_VARIABLES = (*GITHUB_VARIABLES, *ENTERPRISE_VARIABLES)
OF_USERS = ("github_token", "github_enterprise_token")  # also with `_` and the id of a user
SECRETS = (
    *("anthropic_api_key", "openai_api_key", "gemini_api_key", "ollama_api_key"),
    *("openai_compatible_api_key", *OF_USERS, "github_app_key", "github_webhook_secret"),
    *("mcp_token", "oidc_client_secret"),
)
_OF_USER = re.compile(rf"({'|'.join(OF_USERS)})_usr_[0-9a-z]{{26}}")


def is_known(name: str) -> bool:
    """Whether any part of Hutch uses a secret of this name."""
    return name in SECRETS or _OF_USER.fullmatch(name) is not None


def check_known(name: str) -> None:
    """Refuse a name that no part of Hutch uses."""
    if is_known(name):
        return
    near = difflib.get_close_matches(name.lower().replace("-", "_"), SECRETS, 1)
    hint = f" Did you mean {near[0]}?" if near else ""
    for each in OF_USERS:
        if name.startswith(f"{each}_"):
            hint = f" A user's own token is {each}_ with their id: hutch users list"
    names = ", ".join(SECRETS)
    raise BadRequest(f"Hutch uses no secret named {echo(name, 80)}.{hint} The names are: {names}.")
