"""Sessions, runs and changes as text for a terminal."""
