"""The grammar of a terminal's output: text, control characters and escape sequences (ECMA-48)."""

import re

MAX_HELD_CHARS = 4096  # of an incomplete sequence; a longer one is shown as text

# An OSC may end with BEL; it and the strings of ESC P, X, ^ and _ end with ESC \. A cancelled string, or one
# that another sequence interrupts, matches as a plain escape, and the rest of it as text.
TOKEN = re.compile(
    r"(?P<text>[^\x00-\x1f\x7f-\x9f]+)"
    r"|\x1b\[(?P<parameters>[0-?]*)(?P<between>[ -/]*)(?P<final>[@-~])"
    r"|\x1b\](?P<title>[^\x07\x18\x1a\x1b]*)(?:\x07|\x1b\\)"
    r"|\x1b[PX^_](?P<string>[^\x18\x1a\x1b]*)\x1b\\"
    r"|\x1b(?P<which>[()])(?P<set>.)"
    r"|\x1b[*+#%-/ ](?P<ignored>.)"
    r"|\x1b(?P<escape>[0-~])"
    r"|(?P<control>[\x00-\x1f\x7f-\x9f])",
    re.DOTALL,
)
PARTIAL = re.compile(
    r"\x1b(?:\[[0-?]*[ -/]*|\][^\x07\x18\x1a\x1b]*\x1b?|[PX^_][^\x18\x1a\x1b]*\x1b?|[()*+#%-/ ])?\Z"
)
