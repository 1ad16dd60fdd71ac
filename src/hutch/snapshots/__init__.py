"""Every state of a workspace: taken, compared, restored, collected."""
