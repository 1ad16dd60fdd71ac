"""All that a jail promises, once more as somebody who is not root."""

import os
import subprocess
import sys
import tempfile
from pathlib import Path

import pytest

UID = 54399
TESTS = Path(__file__).parents[1]
SUITES = (
    "contracts/test_jail_contract.py",
    *(
        f"jail/test_{name}.py"
        for name in ("control", "walls", "warden", "limits", "limits_hidden", "launch", "oom", "seccomp")
    ),
)


@pytest.mark.skipif(os.geteuid() != 0, reason="is an ordinary user already")
@pytest.mark.parametrize("suite", SUITES)
def test_as_an_ordinary_user(suite: str) -> None:
    with tempfile.TemporaryDirectory() as home:
        os.chown(home, UID, UID)
        ran = subprocess.run(
            [
                *("setpriv", "--reuid", str(UID), "--regid", str(UID), "--clear-groups"),
                *(sys.executable, "-m", "pytest", "-p", "no:cacheprovider", "--basetemp", f"{home}/tests"),
                str(TESTS / suite),
            ],
            env={"HOME": home, "PATH": os.defpath, "HYPOTHESIS_STORAGE_DIRECTORY": f"{home}/examples"},
            cwd=TESTS.parent,
            capture_output=True,
            text=True,
            timeout=180,
            check=False,
        )
    assert ran.returncode == 0, ran.stdout[-8000:]
