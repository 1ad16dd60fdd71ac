"""Commands of other distributions: real little ones, as an installer leaves them."""

import os
import subprocess
import sys
from pathlib import Path

import pytest

from hutch.cli import exit_codes
from hutch.cli.command_table import COMMANDS
from hutch.cli.entry_point_commands import find_plugin, find_plugins
from tests.cli.attached_users import running_server
from tests.cli.hutch_up_process import HUTCH
from tests.deadline import DEADLINE_S

HELLO = '''
import sys
from typing import Annotated

import typer

app = typer.Typer(help="Greet people.")


@app.command()
def world(loud: Annotated[bool, typer.Option("--loud")] = False) -> int:
    """Greet everybody."""
    print("HELLO" if loud else "hello")
    return 7 if loud else 0


@app.command()
def fail() -> None:
    """Fail."""
    raise ValueError("seven is odd")


def plain(name: str) -> None:
    """Greet one."""
    print(f"hello {name}")


class Click:
    """As click's commands are called."""

    def __call__(self) -> None: ...

    def main(self, args: list[str], prog_name: str, standalone_mode: bool) -> int:
        print(prog_name, args, standalone_mode)
        return 3


click = Click()
number = 7
'''


def install(place: Path, distribution: str, entries: str, **modules: str) -> None:
    """Put a distribution where an installer would."""
    info = place / f"{distribution.replace('-', '_')}-1.0.dist-info"
    info.mkdir(parents=True)
    (info / "METADATA").write_text(f"Metadata-Version: 2.1\nName: {distribution}\nVersion: 1.0\n")
    (info / "entry_points.txt").write_text(
        f"[console_scripts]\nx = y:z\n\n[hutch.commands]\n{entries}\n\n[other]\na = b:c\n"
    )
    for name, text in modules.items():
        (place / f"{name}.py").write_text(text)


@pytest.fixture
def place(tmp_path: Path) -> Path:
    install(
        tmp_path,
        "hutch-hello",
        "hello = hello_plugin:app\nplain-hello = hello_plugin:plain\nclicked = hello_plugin:click\n"
        "broken = nowhere_to_be_found:app\nnumber = hello_plugin:number\nbad name = x:y\nBAD = x:y",
        hello_plugin=HELLO,
    )
    install(tmp_path, "hutch-thief", "run = hello_plugin:plain\ntwice = a:b\nvague = nothing")
    install(tmp_path, "hutch-other", "twice = a:b")
    return tmp_path


def hutch(place: Path, *words: str) -> "subprocess.CompletedProcess[str]":
    env = {"PATH": os.environ["PATH"], "PYTHONPATH": str(place), "HUTCH_HOME": str(place / "home")}
    return subprocess.run(
        [HUTCH, *words], env=env, stdin=subprocess.DEVNULL, capture_output=True, text=True, timeout=DEADLINE_S
    )


def test_a_plugin_runs_like_any_command(place: Path) -> None:
    assert hutch(place, "hello", "world").stdout == "hello\n"
    loud = hutch(place, "hello", "world", "--loud")
    assert (loud.returncode, loud.stdout) == (7, "HELLO\n")
    assert "Greet everybody." in hutch(place, "hello", "--help").stdout
    assert "Greet everybody." in hutch(place, "help", "hello").stdout
    assert hutch(place, "plain-hello", "bob").stdout == "hello bob\n"
    wrong = hutch(place, "hello", "world", "--nonsense")
    assert wrong.returncode == exit_codes.BAD_REQUEST and "nonsense" in wrong.stderr
    clicked = hutch(place, "clicked", "a", "--b")
    assert (clicked.returncode, clicked.stdout) == (3, "hutch clicked ['a', '--b'] False\n")


def test_help_names_them_without_loading_any(place: Path) -> None:
    result = hutch(place, "--help")
    assert result.returncode == exit_codes.OK, result.stderr
    section = result.stdout.split("\nPlugins:\n")[1].split("\n\n")[0]
    assert "  hello                Added by hutch-hello 1.0.\n" in section
    assert "  broken               Added by hutch-hello 1.0.\n" in section
    assert "Not used: 'run' is a command of Hutch itself" in section
    assert "bad name" not in section and "BAD" not in section
    assert "hello\tAdded by hutch-hello 1.0.\n" in hutch(place, "__complete", "hel").stdout
    assert hutch(place, "__complete", "hello", "wo").stdout == "world\tGreet everybody.\n"
    for broken in ("broken", "number", "clicked", "run-away", "vague"):
        completed = hutch(place, "__complete", broken, "--")
        assert (completed.returncode, completed.stdout, completed.stderr) == (exit_codes.OK, "", "")


def test_a_broken_plugin_does_not_affect_others(place: Path) -> None:
    broken = hutch(place, "broken")
    assert broken.returncode == exit_codes.UNAVAILABLE
    assert "The plugin 'broken' of hutch-hello 1.0 cannot be loaded: ModuleNotFoundError" in broken.stderr
    assert "cannot be loaded: TypeError" in hutch(place, "number").stderr
    failed = hutch(place, "hello", "fail")
    assert failed.returncode == exit_codes.UNAVAILABLE
    assert "The plugin 'hello' of hutch-hello 1.0 failed: ValueError: seven is odd" in failed.stderr
    assert "bug in Hutch" not in failed.stderr
    for name, why in (("twice", "2 distributions add 'twice'"), ("vague", "is not of the form")):
        result = hutch(place, name)
        assert result.returncode == exit_codes.BAD_REQUEST and why in result.stderr


def test_a_plugin_cannot_replace_a_command_of_hutch(place: Path) -> None:
    assert "Turn a prompt" in hutch(place, "--help").stdout
    assert "PROMPT" in hutch(place, "run", "--help").stdout
    names = {command.name for command in COMMANDS}
    assert [each.command.name for each in find_plugins([str(place)]) if each.command.name in names] == ["run"]


def test_no_plugin_is_found_in_the_current_directory(place: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(place)
    assert find_plugins(["", ".", "nowhere"]) == []
    assert find_plugin("hello", [str(place)]) is not None


def test_the_first_of_two_versions_is_used(place: Path, tmp_path_factory: pytest.TempPathFactory) -> None:
    other = tmp_path_factory.mktemp("second")
    install(other, "hutch-hello", "hello = elsewhere:app")
    found = find_plugin("hello", [str(other), str(place)])
    assert found and found.command.target == "elsewhere:app"
    assert found.problem == ""


SAMPLE = Path(__file__).parents[2] / "samples" / "hutch-tally"
START = "import sys; from hutch.cli.main import run; sys.exit(run(sys.argv[1:]))"


@pytest.fixture(scope="module")
def installed(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The Python of an environment of its own, in which Hutch is and the sample is installed."""
    made = tmp_path_factory.mktemp("environment") / "venv"
    uv = Path(sys.executable).with_name("uv")
    subprocess.run([uv, "venv", "--quiet", "--offline", "--python", sys.executable, made], check=True)
    [packages] = made.glob("lib/python*/site-packages")
    of_hutch = [path for path in sys.path if path.endswith(("packages", "src"))]
    (packages / "hutch.pth").write_text("\n".join(of_hutch))
    python = made / "bin" / "python"
    install = [uv, "pip", "install", "--quiet", "--offline", "--python", python, SAMPLE]
    subprocess.run(install, check=True, timeout=DEADLINE_S)
    return python


def test_the_sample_plugin_can_be_installed_and_used(installed: Path) -> None:
    with running_server() as server:
        env = server.environment()

        def tally(*words: str) -> "subprocess.CompletedProcess[str]":
            command = [installed, "-c", START, *words]
            return subprocess.run(command, env=env, capture_output=True, text=True, timeout=DEADLINE_S)

        made = server.json("sessions", "new")["id"]
        server.until(made, "idle", "parked")
        server.hutch("sessions", "end", made)
        server.until(made, "ended")
        counted = tally("tally", "--json")
        assert (counted.returncode, counted.stdout) == (exit_codes.OK, '{"ended": 1}\n'), counted.stderr
        assert tally("tally").stdout == "    1  ended\n"
        assert "tally                Added by hutch-tally 1.0.0.\n" in tally("--help").stdout
        assert "Count your sessions by state." in tally("tally", "--help").stdout
        assert tally("__complete", "tal").stdout == "tally\tAdded by hutch-tally 1.0.0.\n"
        assert "--search" in tally("__complete", "tally", "--s").stdout
    assert "tally" not in hutch(installed.parent, "--help").stdout


def test_the_page_shows_the_sample_as_it_is() -> None:
    page = (SAMPLE.parents[1] / "docs" / "client.md").read_text()
    assert (SAMPLE / "pyproject.toml").read_text().split("\n\n")[1] in page
