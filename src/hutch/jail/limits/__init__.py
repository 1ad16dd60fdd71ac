"""The limits of a jail: memory, processes, disk, locks; who counts them, and what happens at one."""
