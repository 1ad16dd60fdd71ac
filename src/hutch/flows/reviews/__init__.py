"""What people and the agent say about a change, where that is kept, and where it is posted."""
