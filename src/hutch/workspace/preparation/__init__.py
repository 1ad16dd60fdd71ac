"""How a workspace comes to be, where it is kept, and how it goes."""
