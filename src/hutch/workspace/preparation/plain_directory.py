"""A look at a directory without git, which would be copied whole.

A repository holds what somebody has committed. Any other directory may hold what
nobody meant to show: keys, passwords, or simply far too much. So whoever names one
is told what is in it, by names and sizes, before anything is copied.
"""

from dataclasses import dataclass
from fnmatch import fnmatchcase
from itertools import islice

from hutch.domain.errors import HutchError
from hutch.jail.limits.limit_hits import size
from hutch.snapshots.directory import Directory
from hutch.workspace.files.listing import Walk

MAX_ENTRIES = 20_000  # that are looked at
MAX_NAMES_SHOWN = 5
SECRETS = (
    *("id_rsa*", "id_dsa*", "id_ecdsa*", "id_ed25519*", "*.pem", "*.key", "*.p12", "*.pfx", "*.jks"),
    *("*.keystore", "*.kdbx", "*.keytab", "*.gpg", ".env", ".env.*", "*.env", ".netrc", "_netrc", ".pgpass"),
    *(".npmrc", ".pypirc", ".git-credentials", ".htpasswd", ".vault-token", "local.token", "shadow"),
    *("*credentials*", "secrets.*", "*.secret", "*.secrets", "service-account*.json", "kubeconfig"),
    *("*.tfstate", "*.ovpn", "wallet.dat", ".bash_history", ".zsh_history"),
)
HARMLESS = ("*.pub", "*.example", "*.sample", "*.template", "*.dist", "*.md")


@dataclass(frozen=True, slots=True)
class DirectorySummary:
    """What is in a directory, as far as it was looked at."""

    files: int
    bytes: int
    secrets: tuple[str, ...]  # paths whose names are those of secrets
    cut: bool  # there is more than that

    def __str__(self) -> str:
        more = "more than " if self.cut else ""
        told = f"{more}{self.files:,} file{'s' if self.files != 1 else ''}, {size(self.bytes)}"
        if not self.secrets:
            return told
        named = ", ".join(ascii(path)[1:-1] for path in self.secrets[:MAX_NAMES_SHOWN])
        rest = (
            f" and {len(self.secrets) - MAX_NAMES_SHOWN} more" if len(self.secrets) > MAX_NAMES_SHOWN else ""
        )
        return f"{told}, among them what is named like a secret: {named}{rest}"


def summarize_directory(directory: Directory) -> DirectorySummary:
    """Count what is there. Nothing is opened but directories, and no link is followed. Blocks."""
    seen = files = total = 0
    secrets: list[str] = []
    try:
        for entry in islice(Walk(directory, "").entries(), MAX_ENTRIES):
            seen += 1
            if entry.kind == "directory":
                continue
            files, total = files + 1, total + entry.size
            if has_secret_name(entry.path.rpartition("/")[2]):
                secrets.append(entry.path)
    except HutchError:  # a part that we may not read: copying it says why
        return DirectorySummary(files, total, tuple(secrets), cut=True)
    return DirectorySummary(files, total, tuple(secrets), cut=seen == MAX_ENTRIES)


def has_secret_name(name: str) -> bool:
    name = name.lower()
    if any(fnmatchcase(name, pattern) for pattern in HARMLESS):
        return False
    return any(fnmatchcase(name, pattern) for pattern in SECRETS)
