"""What every room needs of the machine: time, locks, files that are replaced whole, text for a terminal."""
