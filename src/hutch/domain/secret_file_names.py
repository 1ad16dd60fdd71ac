"""Names of files that usually hold passwords, keys or other secrets."""

from fnmatch import fnmatchcase

SECRETS = (
    *("id_rsa*", "id_dsa*", "id_ecdsa*", "id_ed25519*", "*.pem", "*.key", "*.p12", "*.pfx", "*.jks"),
    *("*.keystore", "*.kdbx", "*.keytab", "*.gpg", ".env", ".env.*", "*.env", ".netrc", "_netrc", ".pgpass"),
    *(".npmrc", ".pypirc", ".git-credentials", ".htpasswd", ".vault-token", "local.token", "shadow"),
    *("*credentials*", "secrets.*", "*.secret", "*.secrets", "service-account*.json", "kubeconfig"),
    *("*.tfstate", "*.ovpn", "wallet.dat", ".bash_history", ".zsh_history"),
)
HARMLESS = ("*.pub", "*.example", "*.sample", "*.template", "*.dist", "*.md")


def has_secret_name(name: str) -> bool:
    """True if files of this name usually hold a secret."""
    name = name.lower()
    if any(fnmatchcase(name, pattern) for pattern in HARMLESS):
        return False
    return any(fnmatchcase(name, pattern) for pattern in SECRETS)
