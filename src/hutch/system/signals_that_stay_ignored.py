"""Which signals this process handles, and which stay ignored.

A signal that was ignored when Hutch started stays ignored: `nohup` ignores SIGHUP for the
program it starts, and a script ignores SIGINT and SIGQUIT for those it starts in the background.
SIGTERM is always handled, because `hutch down` and service managers send it.
"""

import signal

TERMINATION_SIGNALS = (signal.SIGTERM, signal.SIGINT, signal.SIGHUP)
MAY_BE_IGNORED = frozenset({signal.SIGHUP, signal.SIGINT, signal.SIGQUIT, signal.SIGTSTP})


def is_handled(number: signal.Signals) -> bool:
    return number not in MAY_BE_IGNORED or signal.getsignal(number) is not signal.SIG_IGN
