"""The settings that name where secrets come from, instead of the vault.

The secrets themselves are not settings: a source is a file, a command or an environment variable that
holds one.
"""

import re
import shlex
from typing import Annotated, Any

from pydantic import AfterValidator, Field, create_model

from hutch.domain.hutch_secret_names import SECRETS
from hutch.settings.repository_settings_file import RepositoryAccess
from hutch.settings.value_types import Section, Text

HINT = (
    "It should name where the secret is, not contain it: file:/run/secrets/NAME, command:pass show NAME, or "
    "env:VARIABLE"
)


def _source(value: str) -> str:
    kind, _, place = value.partition(":")
    is_valid = False
    match kind:
        case "file":
            is_valid = place.startswith(("/", "~/")) and place.isprintable()
        case "env":
            is_valid = re.fullmatch(r"[A-Za-z_][A-Za-z0-9_]*", place) is not None
        case "command":
            try:
                is_valid = bool(shlex.split(place)) and place.isprintable()
            except ValueError:
                raise ValueError("A quotation in the command is not closed") from None
    if not is_valid:
        raise ValueError(HINT)
    return value


SecretSource = Annotated[Text, AfterValidator(_source)]
_FIELD: Any = Annotated[SecretSource | None, RepositoryAccess.NEVER]
_FIELDS: dict[str, Any] = {
    name: (_FIELD, Field(None, description=f"The source of the secret `{name}`.")) for name in SECRETS
}
Secrets: Any = create_model(
    "Secrets",
    __base__=Section,
    __doc__="Where secrets come from, instead of the vault: `file:PATH`, `command:PROGRAM ARGUMENTS` or "
    "`env:VARIABLE`. Commands run without a shell.",
    **_FIELDS,
)


def named_sources(secrets: Section) -> dict[str, str]:
    """The sources that are set, by the names of their secrets."""
    return {name: source for name, source in secrets if source}
