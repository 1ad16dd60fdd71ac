"""Files that several people edit at once, in editors of the browser."""
