"""The certificates to trust in a connection to a server."""

import ssl
from urllib.parse import urlsplit

from hutch.cli.server_address_and_token import Address


def trusted(address: Address) -> ssl.SSLContext | bool:
    """The TLS context of a connection; True for the system's certificates."""
    if urlsplit(address.url).scheme == "http":  # no certificates: loading the system's takes time
        return ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    if not address.certificate:
        return True
    # This is the known local process; its certificate may be for another host name.
    context = ssl.create_default_context(cafile=address.certificate)
    context.check_hostname = False
    return context
