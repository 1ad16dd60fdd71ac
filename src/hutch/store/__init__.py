"""Where facts rest: the event log, its proof, and secrets."""
