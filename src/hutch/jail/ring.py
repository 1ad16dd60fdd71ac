"""The last bytes of an endless stream, each known by its number in it."""

import os

RING_BYTES = 1024 * 1024


class Ring:
    """Keeps `size_bytes`; what is older is gone. Memory is used only as far as it was written to."""

    def __init__(self, size_bytes: int = RING_BYTES) -> None:
        self._memory = memoryview(bytearray(size_bytes))
        self.end = 0  # the number that the next byte will have

    @property
    def start(self) -> int:
        """The number of the oldest byte still here."""
        return max(0, self.end - len(self._memory))

    def fill(self, fd: int, most: int) -> int:
        """Read from a descriptor, straight into place, and return how many bytes came."""
        at = self.end % len(self._memory)
        count = os.readv(fd, [self._memory[at : at + most]])
        self.end += count
        return count

    def read(self, seq: int, until: int) -> bytes:
        """Bytes from `seq` on and before `until`: at least one if there are any, not always all."""
        at = seq % len(self._memory)
        return bytes(self._memory[at : at + max(0, until - seq)])
