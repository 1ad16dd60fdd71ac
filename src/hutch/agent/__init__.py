"""How thought becomes action: the loop, what the model sees, what it may do, and its tools."""
