"""A client of the gateway, and the few commands that work without a server."""
