"""What lets somebody in: random, told once, and kept only as a hash.

256 bits from the system, so that a plain SHA-256 is enough: there is nothing to
guess from. Passwords are another matter, see `flows/passwords.py`.
"""

import hashlib
import hmac
import secrets
import string

_ALPHABET = string.ascii_letters + string.digits
_SECRET_CHARS = 43  # of 62 letters each: 256 bits

TOKEN, LINK, INVITE = "hutch_", "hutchlink_", "hutchinvite_"
VISIBLE_CHARS = 6  # of a token, beside its prefix, by which its owner knows it again


def new_secret(prefix: str = "") -> str:
    return prefix + "".join(secrets.choice(_ALPHABET) for _ in range(_SECRET_CHARS))


def hash_of(secret: str) -> str:
    """What is kept of a secret. Any text has one, so that strangers' input needs no check before."""
    return hashlib.sha256(secret.encode(errors="surrogatepass")).hexdigest()


def visible_prefix(secret: str, prefix: str = TOKEN) -> str:
    """The beginning, by which people tell theirs apart."""
    return secret[: len(prefix) + VISIBLE_CHARS]


def derive(secret: str, purpose: str) -> str:
    """Another secret that follows from this one, and does not tell it."""
    return hmac.new(secret.encode(errors="surrogatepass"), purpose.encode(), hashlib.sha256).hexdigest()


def is_equal(one: str, other: str) -> bool:
    """Compare without telling by the time it takes how much was right."""
    return hmac.compare_digest(one.encode(errors="surrogatepass"), other.encode(errors="surrogatepass"))
