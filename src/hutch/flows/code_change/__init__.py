"""A prompt becomes a tested change: submitted, performed by a worker, delivered."""
