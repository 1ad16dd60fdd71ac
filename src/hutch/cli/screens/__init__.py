"""The full-screen app, and the prompt below scrolling output."""
