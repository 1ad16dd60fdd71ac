"""Start a program that can read files below one directory and nothing else.

Runs inside the jail, as `python3 -I -S -c TEXT DIRECTORY PROGRAM [ARGUMENT…]`; Hutch
never imports it. A search opens files by path, so an attacker who swaps a
directory for a link at the right moment could redirect it after any check. With
Landlock the kernel checks each file as it is opened. On a kernel without Landlock the
program starts without this protection.

Depends on nothing but the interpreter, also an old one (3.9), and imports little: this
is part of every search.
"""

import _ctypes
import os
import sys

CREATE_RULESET, ADD_RULE, RESTRICT_SELF = 444, 445, 446  # the same on every architecture
PATH_BENEATH, PR_SET_NO_NEW_PRIVS = 1, 38
EXECUTE, READ_FILE, READ_DIR, ALL = 1, 4, 8, 0x1FFF  # ALL that the first version of Landlock knows
LIBRARIES = (
    *("/lib", "/lib32", "/lib64", "/libx32", "/usr/lib", "/usr/lib32", "/usr/lib64", "/usr/libx32"),
    *("/usr/local/lib", "/nix/store", "/etc/ld.so.cache"),
)
NOT_CONFINED, NOT_FOUND = 126, 127  # exit codes that no search ends with

_library = _ctypes.dlopen(None, 2)  # type: ignore[arg-type]
_syscall, _prctl = _ctypes.dlsym(_library, "syscall"), _ctypes.dlsym(_library, "prctl")


def confine(directory: str, program: str) -> None:
    """Deny this process, and the program it executes, access to all other files."""
    ruleset = _ctypes.call_function(_syscall, (CREATE_RULESET, ALL.to_bytes(8, sys.byteorder), 8, 0))
    if ruleset < 0:
        return  # no Landlock here
    allow(ruleset, directory, READ_FILE | READ_DIR)
    for path in (program, *LIBRARIES):
        allow(ruleset, path, READ_FILE | EXECUTE)
    _ctypes.call_function(_prctl, (PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0))
    if _ctypes.call_function(_syscall, (RESTRICT_SELF, ruleset, 0)) < 0:
        sys.exit(NOT_CONFINED)


def allow(ruleset: int, path: str, rights: int) -> None:
    try:
        fd = os.open(path, os.O_PATH | os.O_CLOEXEC)
    except OSError:
        return  # not on this machine
    rule = rights.to_bytes(8, sys.byteorder) + fd.to_bytes(4, sys.byteorder)
    if _ctypes.call_function(_syscall, (ADD_RULE, ruleset, PATH_BENEATH, rule, 0)) < 0:
        sys.exit(NOT_CONFINED)
    os.close(fd)


def find(program: str) -> str:
    for directory in os.get_exec_path():
        path = directory + "/" + program
        if os.access(path, os.X_OK):
            return path
    sys.exit(NOT_FOUND)


def main() -> None:
    directory, *argv = sys.argv[1:]
    program = find(argv[0])
    confine(directory, program)
    os.execv(program, argv)


if __name__ == "__main__":
    main()
