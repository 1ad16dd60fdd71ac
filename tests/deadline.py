"""How long tests wait for something that must come.

No test measures with this: only a hang reaches it, on a machine that is as busy as it likes.
"""

DEADLINE_S = 300.0
