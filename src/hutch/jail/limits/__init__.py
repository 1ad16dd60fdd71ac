"""The limits of a jail (memory, processes, disk, locks): how they are measured and enforced."""
