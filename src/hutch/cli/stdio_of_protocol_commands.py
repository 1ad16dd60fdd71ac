"""Standard input and output of a command that speaks a protocol on them."""

import fcntl
import os

from hutch.domain.errors import BadRequest


def take_stdio(otherwise: str) -> tuple[int, int]:
    """Reserve standard input and output for the protocol; other output goes to standard error.

    `otherwise` is the advice in the error if one of them is closed.
    """
    nowhere = os.open(os.devnull, os.O_RDWR | os.O_CLOEXEC)
    try:
        stdin, stdout = (fcntl.fcntl(fd, fcntl.F_DUPFD_CLOEXEC, 3) for fd in (0, 1))
    except OSError:
        raise BadRequest(f"Standard input or output is closed. {otherwise}") from None
    os.dup2(nowhere, 0)
    try:
        os.dup2(2, 1)
    except OSError:  # standard error is closed
        os.dup2(nowhere, 1)
    return stdin, stdout
