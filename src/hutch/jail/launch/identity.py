"""Who a jail's processes are.

An ordinary user's jails are that user. Root's are never root: each is somebody
whom no other jail on this machine is, for as long as it is open.
"""

import os
import socket
from dataclasses import dataclass, replace

from hutch.domain.errors import Unavailable

UIDS = range(200_000, 300_000)  # for the jails of a root Hutch; never a person's
HOST_ON_DISK = UIDS.start - 1  # for what root makes where a jail's user is shown as the owner
KERNEL_ROOT = 0


@dataclass(frozen=True, slots=True)
class Identity:
    """A user and group, and the claim that keeps others from being it."""

    uid: int
    gid: int
    claim: socket.socket | None = None
    lent: bool = False  # the claim is somebody else's to give back

    def lend(self) -> "Identity":
        """The same for a borrower, who does not end the claim."""
        return replace(self, lent=True)

    def release(self) -> None:
        if self.claim is not None and not self.lent:
            self.claim.close()


def claim_identity() -> Identity:
    """An ordinary user stays who they are; root becomes somebody whom no other jail is."""
    if os.geteuid() != KERNEL_ROOT:
        return Identity(os.geteuid(), os.getegid())
    offset = int.from_bytes(os.urandom(4)) % len(UIDS)
    for number in range(len(UIDS)):
        uid = UIDS[(offset + number) % len(UIDS)]
        claim = socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM)
        try:
            # An abstract name is free again the moment its owner is gone, however it went.
            claim.bind(f"\0hutch-jail-uid-{uid}")
        except OSError:
            claim.close()
            continue
        return Identity(uid, uid, claim)
    raise Unavailable(f"All {len(UIDS)} user ids for jails are taken. Close some sessions.")
