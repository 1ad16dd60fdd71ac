"""The user id of a jail's processes.

Jails of an ordinary user run as that user. Jails of root never run as root: each has a
user id that no other jail on this machine has while it is open.
"""

import os
import socket
from dataclasses import replace

from hutch.domain.errors import Unavailable
from hutch.system.lazy_dataclass import dataclass

UIDS = range(200_000, 300_000)  # for the jails of a root Hutch; never a person's
HOST_ON_DISK = UIDS.start - 1  # owns files that root makes where the jail's user appears as the owner
KERNEL_ROOT = 0


@dataclass(frozen=True, slots=True)
class Identity:
    """A user and group, and the claim that reserves them."""

    uid: int
    gid: int
    claim: socket.socket | None = None
    lent: bool = False  # another owner releases the claim

    def lend(self) -> "Identity":
        """The same for a borrower, which does not release the claim."""
        return replace(self, lent=True)

    def release(self) -> None:
        if self.claim is not None and not self.lent:
            self.claim.close()


def claim_identity() -> Identity:
    """Our own user, or for root a user id that no other jail has."""
    if os.geteuid() != KERNEL_ROOT:
        return Identity(os.geteuid(), os.getegid())
    offset = int.from_bytes(os.urandom(4)) % len(UIDS)
    for number in range(len(UIDS)):
        uid = UIDS[(offset + number) % len(UIDS)]
        claim = socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM)
        try:
            # The kernel frees an abstract name when its owner ends, for whatever reason.
            claim.bind(f"\0hutch-jail-uid-{uid}")
        except OSError:
            claim.close()
            continue
        return Identity(uid, uid, claim)
    raise Unavailable(f"All {len(UIDS)} user ids for jails are in use. Close some sessions.")
