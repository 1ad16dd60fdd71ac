"""External agents: programs such as codex run in the jail, with a model endpoint that counts and records."""
