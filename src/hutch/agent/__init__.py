"""The agent: its loop, the conversation with the model, its rules and its tools."""
