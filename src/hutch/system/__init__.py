"""What every room needs of the operating system: time, locks, files that are replaced whole."""
