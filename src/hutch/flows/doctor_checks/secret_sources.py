"""Checks the sources of secrets that are not in the vault, for `hutch doctor`."""

from hutch.jail.machine_checks import Check
from hutch.store.secret_lookup import InstallationSecrets
from hutch.store.secret_sources import KINDS


def check_secrets(secrets: InstallationSecrets) -> Check:
    """Check that every source gives a secret. No value is shown."""
    sources = secrets.elsewhere.sources
    found, problems = secrets.elsewhere.read_available()
    if problems:
        return Check("secrets", "fail", "\n".join(problems.values()), "hutch config secrets")
    stored = secrets.stored_names()
    kinds = ", ".join(f"{name} from {KINDS[sources[name].partition(':')[0]]}" for name in found)
    text = "; ".join(filter(None, [f"{len(stored)} in the vault", kinds]))
    shadowed = [name for name in stored if name in found]
    if shadowed:
        unused = f"{', '.join(shadowed)} in the vault is not used: the settings name another source"
        return Check("secrets", "warn", f"{text}\n{unused}", f"hutch config unset-secret {shadowed[0]}")
    return Check("secrets", "ok", text)
