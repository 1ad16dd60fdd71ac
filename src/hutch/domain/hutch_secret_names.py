"""The names of all secrets that Hutch uses, and of the variables that hold GitHub tokens.

A secret under any other name would never be used, so a misspelt name is refused.
"""

import difflib
import re

from hutch.domain.errors import BadRequest
from hutch.domain.one_line_text import echo

GITHUB_VARIABLES = ("GH_TOKEN", "GITHUB_TOKEN")  # for github.com
ENTERPRISE_VARIABLES = ("GH_ENTERPRISE_TOKEN", "GITHUB_ENTERPRISE_TOKEN")
TOKEN_VARIABLES = (*GITHUB_VARIABLES, *ENTERPRISE_VARIABLES)
MODEL_KEYS = (
    *("anthropic_api_key", "openai_api_key", "gemini_api_key", "ollama_api_key"),
    "openai_compatible_api_key",
)
# These also with `_` and the id of a user.
OF_USERS = ("github_token", "github_enterprise_token", *MODEL_KEYS)
SECRETS = (
    *(*MODEL_KEYS, "github_token", "github_enterprise_token", "github_app_key", "github_webhook_secret"),
    *("mcp_token", "oidc_client_secret", "smtp_password", "report_webhook_secret"),
    "database_password",
)
USES = {  # of each secret, as the end of a sentence
    "anthropic_api_key": "models of Anthropic",
    "openai_api_key": "models of OpenAI",
    "gemini_api_key": "models of Google",
    "ollama_api_key": "models of an Ollama server",
    "openai_compatible_api_key": "models of a server that speaks the protocol of OpenAI",
    "github_token": "repositories and pull requests on github.com",
    "github_enterprise_token": "repositories and pull requests on GitHub Enterprise",
    "github_app_key": "the private key of the GitHub App, for its repositories and pull requests",
    "github_webhook_secret": "signatures of the webhooks that GitHub sends",
    "database_password": "the password of the database in PostgreSQL",
    "mcp_token": "the token of `hutch mcp serve --http`",
    "smtp_password": "e-mails with reports and alerts",
    "report_webhook_secret": "signatures of reports and alerts that go to a webhook",
    "oidc_client_secret": "logins by an OpenID Connect provider; read when the server starts",
}
JAIL_PREFIX = "jail_"
_FOR_JAILS = re.compile(r"jail_[a-z_][a-z0-9_]{0,127}")
_OF_USER = re.compile(rf"({'|'.join(OF_USERS)})_usr_[0-9a-z]{{26}}")


def is_known(name: str) -> bool:
    """True if any part of Hutch uses a secret of this name."""
    return name in SECRETS or any(each.fullmatch(name) for each in (_OF_USER, _FOR_JAILS))


def jail_secret(variable: str, user_id: str = "") -> str:
    """The name of the secret that a jail gets as a variable; with a user, that of their own."""
    return f"{JAIL_PREFIX}{variable.lower()}" + (f"_{user_id}" if user_id else "")


def check_known(name: str) -> None:
    """Refuse a name that no part of Hutch uses."""
    if is_known(name):
        return
    near = difflib.get_close_matches(name.lower().replace("-", "_"), SECRETS, 1)
    hint = f" Did you mean {near[0]}?" if near else ""
    for each in OF_USERS:
        if name.startswith(f"{each}_"):
            hint = f" A user's own one is {each}_ with their id: hutch users list"
    names = f"{', '.join(SECRETS)}; for jails, jail_NAME"
    raise BadRequest(f"Hutch uses no secret named {echo(name, 80)}.{hint} The names are: {names}.")
