"""The program `hutch`: loads the command line and runs it."""

import signal


def main() -> int:
    """Run the command line. Ctrl-C while it loads ends the process without a traceback."""
    is_default = signal.getsignal(signal.SIGINT) is signal.default_int_handler
    if is_default:
        signal.signal(signal.SIGINT, signal.SIG_DFL)
    from hutch.cli.main import main as run_command_line

    if is_default:
        signal.signal(signal.SIGINT, signal.default_int_handler)
    return run_command_line()
