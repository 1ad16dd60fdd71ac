"""Live sessions, the queue of their runs, and their recovery after a crash."""
