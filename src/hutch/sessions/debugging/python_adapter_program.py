"""The program that starts debugpy in a jail.

A jail cannot see where Hutch is installed, and must not: beside debugpy lie all of Hutch's files. So the
modules of debugpy, without its compiled ones, go through the standard input as a zip. A small program
unpacks them in the jail's own /tmp and becomes the debug adapter. A command in the jail can change these
copies. That matters to this jail alone: everything that an adapter sends is hostile anyway.
"""

import io
import zipfile
from functools import cache
from importlib.util import find_spec
from pathlib import Path

from hutch.domain.errors import Unavailable

LEFT_OUT = ("third_party", "stubs", "tests")
HELPERS = "pydevd_attach_to_process"  # debugpy warns in the program's output if these libraries are missing
_SOURCE = """\
import glob, io, os, shutil, sys, tempfile, zipfile
if sys.version_info < (3, 8):
    sys.exit("debugpy needs Python 3.8 or newer.")
data = bytearray()
while len(data) < {size}:
    part = os.read(0, min(65536, {size} - len(data)))
    if not part:
        sys.exit(1)
    data += part
for old in glob.glob(os.path.join(tempfile.gettempdir(), "hutch-debugger-*")):
    shutil.rmtree(old, ignore_errors=True)
place = tempfile.mkdtemp(prefix="hutch-debugger-")
zipfile.ZipFile(io.BytesIO(bytes(data))).extractall(place)
os.environ["PYDEVD_USE_CYTHON"] = "NO"
os.environ["PYDEVD_DISABLE_FILE_VALIDATION"] = "1"
os.execv(sys.executable, [sys.executable, os.path.join(place, "debugpy", "adapter")])
"""


def python_adapter_argv(python: str, size: int) -> tuple[str, ...]:
    """The command that receives debugpy, as so many bytes, and becomes its adapter."""
    return (python, "-I", "-c", _SOURCE.format(size=size))


@cache
def debugpy_zip() -> bytes:
    """The modules of debugpy. The same for every jail, so it is made once. Blocks."""
    found = find_spec("debugpy")
    if found is None or found.origin is None:
        raise Unavailable("debugpy is not installed beside Hutch. Install it: pip install debugpy")
    top = Path(found.origin).parent
    packed = io.BytesIO()
    with zipfile.ZipFile(packed, "w", zipfile.ZIP_DEFLATED, compresslevel=6) as zipped:
        for file in sorted(top.rglob("*")):
            name = file.relative_to(top.parent)
            is_helper = file.suffix == ".so" and HELPERS in name.parts
            if (file.suffix == ".py" or is_helper) and not set(name.parts) & set(LEFT_OUT):
                zipped.write(file, str(name))
    return packed.getvalue()
