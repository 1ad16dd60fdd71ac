"""Where commands run, and what this machine must offer for that."""
