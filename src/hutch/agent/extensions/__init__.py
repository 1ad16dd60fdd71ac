"""Extensions: third-party programs that give the agent tools, each in a jail of its own."""
