"""What users ask for, each story in one file."""
