"""The entry point ends every error with a message and an exit code."""

import os
import re
import signal
import subprocess
import sys
from pathlib import Path

import pytest

import hutch
from hutch.cli import exit_codes, top_level_help
from hutch.cli.command_table import COMMANDS, Command
from hutch.cli.main import run
from hutch.domain.errors import (
    BadRequest,
    Conflict,
    Denied,
    HutchError,
    LimitReached,
    NotFound,
    Unavailable,
)

HUTCH = Path(sys.executable).with_name("hutch")
HEAVY = {"pydantic", "sqlalchemy", "cryptography", "structlog", "rich"}

ERRORS: dict[str, BaseException] = {
    "bad": BadRequest("No."),
    "missing": NotFound("No."),
    "conflict": Conflict("No."),
    "denied": Denied("No."),
    "limit": LimitReached("No.", limit="jail.processes"),
    "unavailable": Unavailable("No."),
    "bug": ValueError("seven is odd"),
    "interrupt": KeyboardInterrupt(),
}


def fail(kind: str) -> None:
    """Fail in a known way."""
    raise ERRORS[kind]


def answer(code: int) -> int:
    """Return an exit code."""
    return code


TABLE = {
    "fail": Command("Work", "fail", f"{__name__}:fail", "Fail."),
    "answer": Command("Work", "answer", f"{__name__}:answer", "Answer."),
}


@pytest.mark.parametrize("args", [[], ["-h"], ["--help"], ["help"]])
def test_help_lists_every_command_under_its_group(
    args: list[str], capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("COLUMNS", "80")
    assert run(args) == exit_codes.OK
    said = capsys.readouterr().out
    for command in COMMANDS:
        section = re.search(rf"^{command.group}:\n((?:  .*\n)+)", said, re.M)
        assert section and re.search(rf"^  {command.name} +{re.escape(command.help)}$", section[1], re.M)


@pytest.mark.parametrize("width", [40, 41, 59, 60, 72, 80, 100, 300])
def test_help_fits_the_terminal_without_loss(width: int) -> None:
    result = top_level_help.help_text(width)
    assert [line for line in result.splitlines() if len(line) > width] == []
    assert result.split() == top_level_help.help_text(80).split()
    assert not re.search(r"\d\n", result)


def test_help_uses_the_width_of_the_terminal(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("COLUMNS", "44")
    assert run(["--help"]) == exit_codes.OK
    assert capsys.readouterr().out == top_level_help.help_text(44)


def test_wrapped_help_is_indented() -> None:
    assert (
        "  --debug     Show a traceback when a\n              command fails.\n"
        in top_level_help.help_text(40)
    )


def test_help_lists_every_exit_code() -> None:
    result = {int(number) for number in re.findall(r"\b\d+\b", top_level_help.EXIT_CODES)}
    assert result == set(exit_codes.MEANINGS)
    assert "hutch verify RECORD" in top_level_help.help_text()
    assert "bundle" not in top_level_help.help_text().lower()


@pytest.mark.parametrize("words", [["doctor"], ["config"], ["config", "show"], ["help"]])
def test_the_help_command_equals_the_help_option(
    words: list[str], capsys: pytest.CaptureFixture[str]
) -> None:
    assert run([*words, "--help"]) == exit_codes.OK
    wanted = capsys.readouterr().out
    assert run(["help", *words]) == exit_codes.OK
    assert capsys.readouterr().out == wanted


def test_help_for_an_unknown_command_gets_a_suggestion(capsys: pytest.CaptureFixture[str]) -> None:
    assert run(["help", "vrify"]) == exit_codes.BAD_REQUEST
    assert capsys.readouterr().err == "hutch: There is no command 'vrify'. Did you mean 'verify'?\n"


def test_version(capsys: pytest.CaptureFixture[str]) -> None:
    assert run(["--version"]) == exit_codes.OK
    assert capsys.readouterr().out == f"hutch {hutch.__version__}\n"


@pytest.mark.parametrize(
    ("word", "message"),
    [
        ("vrify", "hutch: There is no command 'vrify'. Did you mean 'verify'?\n"),
        ("zzz", "hutch: There is no command 'zzz'. 'hutch --help' lists every command.\n"),
        ("--versoin", "hutch: There is no option '--versoin'. Did you mean '--version'?\n"),
    ],
)
def test_an_unknown_word_gets_a_suggestion(
    word: str, message: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert run([word]) == exit_codes.BAD_REQUEST
    assert capsys.readouterr().err == message


@pytest.mark.parametrize(
    ("kind", "code"),
    [
        ("bad", 2),
        ("missing", 2),
        ("conflict", 2),
        ("denied", 4),
        ("limit", 5),
        ("unavailable", 6),
    ],
)
def test_an_error_is_printed_as_its_message(kind: str, code: int, capsys: pytest.CaptureFixture[str]) -> None:
    assert isinstance(ERRORS[kind], HutchError)
    assert run(["fail", kind], TABLE) == code
    assert capsys.readouterr().err == "hutch: No.\n"


def test_anything_else_is_called_a_bug(capsys: pytest.CaptureFixture[str]) -> None:
    assert run(["fail", "bug"], TABLE) == exit_codes.BUG
    said = capsys.readouterr().err
    bug = ERRORS["bug"]
    assert said.startswith(f"hutch: {type(bug).__name__}: {bug}\n")
    assert "hutch --debug" in said
    assert "Traceback" not in said


def test_debug_shows_a_traceback(capsys: pytest.CaptureFixture[str]) -> None:
    assert run(["--debug", "fail", "bug"], TABLE) == exit_codes.BUG
    assert "Traceback" in capsys.readouterr().err


def test_an_interrupt_leaves_no_traceback(capsys: pytest.CaptureFixture[str]) -> None:
    assert run(["fail", "interrupt"], TABLE) == exit_codes.INTERRUPTED
    assert capsys.readouterr().err == "hutch: interrupted\n"


def test_a_command_decides_its_exit_code() -> None:
    assert [run(["answer", str(code)], TABLE) for code in (exit_codes.OK, exit_codes.NO)] == [
        exit_codes.OK,
        exit_codes.NO,
    ]


@pytest.mark.parametrize(
    ("args", "said"),
    [
        (["answer"], "Missing argument 'code'. For help: hutch answer --help"),
        (["answer", "0", "--loud"], "No such option: --loud. For help: hutch answer --help"),
    ],
)
def test_wrong_usage_points_to_the_help(
    args: list[str], said: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert run(args, TABLE) == exit_codes.BAD_REQUEST
    assert capsys.readouterr().err == f"hutch: {said}\n"


@pytest.mark.parametrize(
    ("args", "output"),
    [
        (["run", "x", "--max-turns", "0"], "'--max-turns': it must be at least 1."),
        (["run", "x", "--max-turns", "x"], "'--max-turns': it must be a whole number."),
        (["run", "x", "--max-cost", "x"], "'--max-cost': it must be a number."),
    ],
)
def test_a_wrong_value_is_explained(args: list[str], output: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert run(args) == exit_codes.BAD_REQUEST
    assert output in capsys.readouterr().err


def test_a_closed_pipe_is_no_error() -> None:
    reader, writer = os.pipe()
    os.close(reader)
    try:
        ran = subprocess.run([HUTCH, "--help"], stdout=writer, stderr=subprocess.PIPE)
    finally:
        os.close(writer)
    assert (ran.returncode, ran.stderr) == (exit_codes.BROKEN_PIPE, b"")


@pytest.mark.parametrize("redirected", ["2>&1 | true", "2>&-", ">&- 2>&-", "2>/dev/full"])
def test_an_error_that_nobody_reads_has_its_exit_code(redirected: str) -> None:
    for _ in range(3):  # `true` may end before or after the message is written
        ran = subprocess.run(
            ["/bin/bash", "-o", "pipefail", "-c", f"{HUTCH} vrify {redirected}"], capture_output=True
        )
        assert (ran.returncode, ran.stdout, ran.stderr) == (exit_codes.BAD_REQUEST, b"", b"")


@pytest.mark.parametrize(
    "args",
    [
        *(["--help"], ["--version"], ["version"], ["vrify"]),
        *(["__complete", "v"], ["__complete", "log", ""], ["__complete", "export", "l"]),
    ],
)
def test_simple_commands_load_few_modules(args: list[str]) -> None:
    program = f"import sys; from hutch.cli.main import run; run({args!r}); print('\\n', *sys.modules)"
    ran = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True)
    assert HEAVY.intersection(ran.stdout.splitlines()[-1].split()) == set()


def test_the_first_help_does_not_even_load_typer() -> None:
    program = "import sys; from hutch.cli.main import run; run(['--help']); sys.exit('typer' in sys.modules)"
    assert subprocess.run([sys.executable, "-c", program], capture_output=True).returncode == 0


def test_a_run_sends_its_request_before_loading_the_client() -> None:
    program = (
        "import sys\n"
        "from hutch.cli.command_table import BY_NAME\n"
        "from hutch.cli.dispatch import load\n"
        "load(BY_NAME['run']).make_context('run', ['Look.', '--repo', '.', '--server'])\n"
        "import hutch.cli.early_session_request\n"
        "import hutch.cli.git_author, hutch.settings.author_setting_without_pydantic\n"
        "print(*sys.modules)"
    )
    ran = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True)
    late = {"asyncio", "hutch.cli.api_client", "hutch.cli.run_lifecycle", "httpx2", "ssl"}
    assert late.intersection(ran.stdout.split()) == set()


def test_a_run_on_a_server_loads_neither_agents_nor_a_database() -> None:
    """It follows the run, and looks for uncommitted files of the repository in a jail."""
    program = (
        "import sys\n"
        "from hutch.system.fast_imports import load_structlog\n"
        "import hutch.cli.run_lifecycle\n"
        "load_structlog()\n"
        "import hutch.flows.uncommitted_files_warning, hutch.app.forges, hutch.app.workspaces\n"
        "print(*sys.modules)"
    )
    ran = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True)
    unused = {"alembic", "cryptography", "genai_prices", "pygments", "sqlalchemy", "yaml"}
    unused |= {f"hutch.{room}" for room in ("agent", "gateway", "sessions")}
    assert unused.intersection(ran.stdout.split()) == set()


@pytest.mark.parametrize(
    ("args", "loads"),
    [(["Look.", "--model", "a:b"], False), (["Look.", "--max-turns", "3"], True), (["\udcff"], True)],
)
def test_only_values_that_are_converted_load_pydantic(args: list[str], loads: bool) -> None:
    program = (
        "import sys\n"
        "from hutch.cli.command_table import BY_NAME\n"
        "from hutch.cli.dispatch import invoke\n"
        "from hutch.domain.errors import BadRequest\n"
        "try: invoke(BY_NAME['run'], [*sys.argv[1:], '--server', '--here'])\n"
        "except BadRequest: pass\n"
        "print('pydantic' in sys.modules)"
    )
    ran = subprocess.run([sys.executable, "-c", program, *args], capture_output=True, text=True, check=True)
    assert ran.stdout == f"{loads}\n"


def test_an_interrupt_while_the_command_line_loads_prints_no_traceback() -> None:
    program = """
import os, signal, sys
from hutch.cli.console_script import main

class InterruptedImport:
    def find_spec(self, name, path=None, target=None):
        if name == "hutch.cli.main":
            os.kill(os.getpid(), signal.SIGINT)

sys.meta_path.insert(0, InterruptedImport())
sys.exit(main())
"""
    ran = subprocess.run([sys.executable, "-c", program], capture_output=True)
    assert (ran.returncode, ran.stderr) == (-signal.SIGINT, b"")
