"""The files of a workspace, listed, read and changed beneath one descriptor."""
