"""The same promises when Hutch is started by an ordinary user, not by root who drops to one."""

import os
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path

import pytest

HERE = Path(__file__).parent
UID = 1717


@pytest.mark.skipif(os.geteuid() != 0, reason="the whole suite runs as an ordinary user already")
@pytest.mark.skipif(shutil.which("setpriv") is None, reason="needs setpriv (util-linux)")
def test_shells_of_an_ordinary_user() -> None:
    own = Path(tempfile.mkdtemp(prefix="hutch-test-"))
    os.chown(own, UID, UID)
    try:
        run_as_ordinary_user(own)
    finally:
        shutil.rmtree(own)


def run_as_ordinary_user(own: Path) -> None:
    ran = subprocess.run(
        [
            *("setpriv", f"--reuid={UID}", f"--regid={UID}", "--clear-groups"),
            *(sys.executable, "-m", "pytest", "-p", "no:cacheprovider", "-n", "2"),
            f"--basetemp={own / 'pytest'}",
            *(str(HERE / "test_shell.py"), str(HERE / "test_background.py")),
        ],
        cwd=HERE.parent.parent,
        env={
            "PATH": os.environ["PATH"],
            "HOME": str(own),
            "LANG": "C.UTF-8",
            "PYTHONDONTWRITEBYTECODE": "1",
        },
        capture_output=True,
        text=True,
        timeout=300,
    )
    assert ran.returncode == 0, ran.stdout[-4000:] + ran.stderr[-2000:]
