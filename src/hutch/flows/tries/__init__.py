"""Several agents work on one prompt; the best result is chosen by tests, checks, size and a review."""
