"""Files that a crash left are distinguished from files in use."""

import os
import subprocess
import sys

from hutch.jail.pid_stamped_names import is_left_over, make_directory, own_mark


def test_our_own_mark_is_in_use_and_anothers_start_is_not() -> None:
    assert not is_left_over(own_mark())
    assert is_left_over(f"{os.getpid()}.12")
    assert not is_left_over("not a mark")


def test_a_dead_processs_directory_is_swept_by_the_next() -> None:
    script = "from hutch.jail.pid_stamped_names import make_directory; print(make_directory())"
    made = [
        subprocess.run(
            [sys.executable, "-c", script], capture_output=True, text=True, check=True
        ).stdout.strip()
        for _ in range(2)
    ]
    assert [os.path.exists(path) for path in made] == [False, True]  # noqa: PTH110
    subprocess.run([sys.executable, "-c", script.replace("print", "import os; os.rmdir")], check=True)
    assert not os.path.exists(made[1])  # noqa: PTH110


def test_a_directory_is_private() -> None:
    directory = make_directory()
    assert directory.stat().st_mode & 0o777 == 0o700
    directory.rmdir()
