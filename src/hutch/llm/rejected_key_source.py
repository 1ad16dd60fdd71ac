"""Where the key of a provider comes from, for the message about a key that the provider rejects.

The sources have an order: a user's own key, the environment, then the vault or what the settings name
instead. A key that is replaced in a later source has no effect.
"""

from collections.abc import Collection, Mapping

from hutch.llm.model_and_key_names import KEY_NAMES, key_variables
from hutch.system.lazy_dataclass import dataclass


@dataclass(frozen=True, slots=True)
class KeySource:
    """A source, and how to replace the key in it."""

    name: str
    remedy: str


def find_key_sources(
    environment: Mapping[str, str],
    stored: Collection[str],
    *,
    named_in_settings: Collection[str],
    own: Collection[str],
) -> dict[str, KeySource]:
    """The sources of the keys by their names, in the order of `provider_keys`; `own` keys come first."""
    found = {}
    for provider, key in KEY_NAMES.items():
        variables = [name for name in key_variables(provider) if environment.get(name, "").strip()]
        if key in own:
            found[key] = KeySource(
                "of your own", f"Replace it with `hutch users model-key {provider}`, or in the web app."
            )
        elif variables:
            found[key] = KeySource(
                f"from the environment variable {variables[0]}",
                f"Change or unset {variables[0]} where Hutch was started, and start it again. "
                "The variable overrides the vault.",
            )
        elif key in named_in_settings:  # without the source itself: other users of a server see the message
            found[key] = KeySource(f"that the setting secrets.{key} names", "Replace it there.")
        elif key in stored:
            found[key] = KeySource("from the vault", f"Replace it with `hutch config set-secret {key}`.")
    return found
