"""What things are: nouns, events, inputs, errors, ids. Nothing here does I/O."""
