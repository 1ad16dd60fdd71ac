"""Random credentials, shown once and stored only as a hash.

They have 256 bits from the system, so a plain SHA-256 is enough.
Passwords need more, see `flows/password_hashing.py`.
"""

import hashlib
import hmac
import secrets
import string

_ALPHABET = string.ascii_letters + string.digits
_SECRET_CHARS = 43  # of 62 possible ones each: 256 bits

TOKEN, LINK, INVITE = "hutch_", "hutchlink_", "hutchinvite_"
VISIBLE_CHARS = 6  # of a token, after its prefix, by which its owner recognises it


def new_secret(prefix: str = "") -> str:
    return prefix + "".join(secrets.choice(_ALPHABET) for _ in range(_SECRET_CHARS))


def hash_of(secret: str) -> str:
    """The stored form of a secret. Accepts any text, so untrusted input needs no check before."""
    return hashlib.sha256(secret.encode(errors="surrogatepass")).hexdigest()


def visible_prefix(secret: str, prefix: str = TOKEN) -> str:
    """The first characters, by which people recognise their tokens."""
    return secret[: len(prefix) + VISIBLE_CHARS]


def derive(secret: str, purpose: str) -> str:
    """Derive another secret, from which this one cannot be computed."""
    return hmac.new(secret.encode(errors="surrogatepass"), purpose.encode(), hashlib.sha256).hexdigest()


def is_equal(one: str, other: str) -> bool:
    """Compare in constant time."""
    return hmac.compare_digest(one.encode(errors="surrogatepass"), other.encode(errors="surrogatepass"))
