"""The nouns of Hutch: sessions, events, inputs, errors, ids. Nothing here does I/O."""
