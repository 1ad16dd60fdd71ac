"""The certificates that are trusted in a connection to a server."""

import ssl
from urllib.parse import urlsplit

from hutch.cli.server_address import Address


def trusted(address: Address) -> ssl.SSLContext | bool:
    """The context of a connection; True for the certificates that this machine trusts."""
    if urlsplit(address.url).scheme == "http":  # none: to read those of all the world takes a while
        return ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    if not address.certificate:
        return True
    # It is the process that we know; that its certificate is for another name does not matter.
    context = ssl.create_default_context(cafile=address.certificate)
    context.check_hostname = False
    return context
