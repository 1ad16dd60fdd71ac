"""What goes on: events as they come, terminals, and pages that are served in a jail."""
