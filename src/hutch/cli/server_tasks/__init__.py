"""Tasks of the server that commands use: a copy for offline, and changes that wait to be sent."""
