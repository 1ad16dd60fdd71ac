"""Who drives: sessions that live, the queue of their runs, and how they come back after a crash."""
