"""Storage: the event log with its hash chain, the tables, and secrets."""
