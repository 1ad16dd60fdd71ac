"""Reviews of changes by users and the agent: created, stored and posted."""
