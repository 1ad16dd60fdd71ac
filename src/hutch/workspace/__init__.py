"""What commands run on: files that nothing leads out of, and every state of them kept."""
