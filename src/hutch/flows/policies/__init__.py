"""The policies of owners: rules bound to roles, repositories and categories."""
