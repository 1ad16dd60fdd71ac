"""Operating-system basics for all packages: clocks, locks, atomic file replacement, terminal text."""
