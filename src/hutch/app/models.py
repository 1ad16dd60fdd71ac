"""The model for a run: named by somebody, or the best there is here."""

from pathlib import Path

from hutch.domain.redaction import Redactor
from hutch.llm.names import PROVIDERS, key_name, parse_model_name
from hutch.llm.open import Access, Choice, default_model, open_model
from hutch.llm.seam import Model
from hutch.settings import Loaded, user_environment
from hutch.store.vault import Vault

__all__ = ["Choice", "Model", "choose_model", "redactor"]


async def choose_model(loaded: Loaded, name: str | None) -> tuple[Model, Choice]:
    """Open the model that is named, or else the one that can be had, and say why it is this one."""
    access = Access(keys=keys(loaded))
    if name is None:
        choice = await default_model(access, scripted=Path("demo.yaml"))
    else:
        choice = Choice(name, "it was asked for")
    return open_model(parse_model_name(choice.name), access), choice


def keys(loaded: Loaded) -> dict[str, str]:
    """The keys of providers: from the environment, or else from the vault."""
    vault, environment = Vault(loaded.paths.vault, loaded.paths.vault_keys), user_environment()
    kept = set(vault.names()) if loaded.paths.vault.exists() else set()
    found = {}
    for provider in PROVIDERS:
        name = key_name(provider)
        value = environment.get(name.upper()) or (vault.get(name) if name in kept else None)
        if value:
            found[name] = value
    return found


def redactor(loaded: Loaded) -> Redactor:
    """Knows every secret of the installation."""
    values = list(keys(loaded).values())
    if loaded.paths.vault.exists():
        vault = Vault(loaded.paths.vault, loaded.paths.vault_keys)
        values += [vault.get(name) or "" for name in vault.names()]
    return Redactor(values)
