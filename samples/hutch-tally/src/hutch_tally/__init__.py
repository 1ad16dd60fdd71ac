"""An example of a plugin for Hutch."""
