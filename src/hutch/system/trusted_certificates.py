"""The certificates that this machine trusts, for connections to other servers."""

import ssl
from functools import cache

import httpx2


@cache
def trusted_certificates() -> ssl.SSLContext:
    """They are loaded once: that takes 20 ms, in which the event loop does nothing else."""
    return httpx2.create_ssl_context()
