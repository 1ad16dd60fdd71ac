"""The precedence of settings, errors for invalid ones, and the limits of a repository's file."""

import os
import pwd
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from pydantic import ValidationError

from hutch.domain.errors import BadRequest, NotFound
from hutch.settings import LoadedSettings, Paths, Settings, find_paths, load
from hutch.settings.schema import FIELDS, RENAMED, environment_variable

GIB = 1024**3
REFERENCE = Path(__file__).parent.parent / "scripts" / "settings_reference.py"


class Place:
    """An installation and a repository to try settings in."""

    def __init__(self, root: Path) -> None:
        self.home = root / "home"
        self.repo = root / "repo"
        self.home.mkdir()
        (self.repo / ".hutch").mkdir(parents=True)
        self.user_file = self.home / "config.toml"
        self.repo_file = self.repo / ".hutch" / "config.toml"

    def load(self, flags: dict[str, Any] | None = None, **variables: str) -> LoadedSettings:
        return load(flags or {}, repo=self.repo, environ={"HUTCH_HOME": str(self.home), **variables})

    def refusal(self, flags: dict[str, Any] | None = None, **variables: str) -> str:
        with pytest.raises(BadRequest) as refused:
            self.load(flags, **variables)
        return str(refused.value)


@pytest.fixture
def place(tmp_path: Path) -> Place:
    return Place(tmp_path)


# Precedence


def test_nothing_said_means_defaults(place: Place) -> None:
    loaded = place.load()
    assert loaded.settings == Settings()
    assert set(loaded.origins) == set(FIELDS)
    assert set(loaded.origins.values()) == {"default"}
    assert loaded.refused == ()


def test_flag_beats_environment_beats_user_file_beats_repository_beats_default(place: Place) -> None:
    place.repo_file.write_text('persona = "from-repo"')
    assert (place.load().settings.persona, place.load().origins["persona"]) == (
        "from-repo",
        str(place.repo_file),
    )
    assert place.load().is_from_repository("persona")
    place.user_file.write_text('persona = "from-user"')
    assert not place.load().is_from_repository("persona")
    assert (place.load().settings.persona, place.load().origins["persona"]) == (
        "from-user",
        str(place.user_file),
    )
    loaded = place.load(HUTCH_PERSONA="from-environment")
    assert (loaded.settings.persona, loaded.origins["persona"]) == ("from-environment", "HUTCH_PERSONA")
    loaded = place.load({"persona": "from-flag"}, HUTCH_PERSONA="from-environment")
    assert (loaded.settings.persona, loaded.origins["persona"]) == ("from-flag", "the command line")


def test_layers_meet_inside_a_section(place: Place) -> None:
    place.user_file.write_text("[jail]\nprocesses = 100\nopen_files = 290\n")
    jail = place.load({"jail": {"command_timeout_s": 5}}, HUTCH_JAIL__OPEN_FILES="300").settings.jail
    assert (jail.processes, jail.open_files, jail.command_timeout_s, jail.tmp_bytes) == (100, 300, 5, GIB)


def test_an_absent_flag_and_an_empty_variable_count_as_not_set(place: Place) -> None:
    assert place.load({"model": None, "jail": {"processes": None}}, HUTCH_PERSONA="").settings == Settings()


@pytest.mark.parametrize(("said", "size"), [("2GiB", 2 * GIB), ("512MB", 512_000_000), ("134217728", 2**27)])
def test_sizes_are_numbers_or_have_a_unit(place: Place, said: str, size: int) -> None:
    assert place.load(HUTCH_JAIL__MEMORY_BYTES=said).settings.jail.memory_bytes == size
    place.user_file.write_text(f'jail.memory_bytes = "{said}"')
    assert place.load().settings.jail.memory_bytes == size
    place.user_file.write_text(f"jail.memory_bytes = {size}")
    assert place.load().settings.jail.memory_bytes == size


def test_lists_are_comma_separated_in_the_environment(place: Place) -> None:
    assert place.load(HUTCH_JAIL__NETWORK="docs.example.com, *.Example.ORG,").settings.jail.network == (
        "docs.example.com",
        "*.example.org",
    )


def test_prices_are_checked(place: Place) -> None:
    given = "openai-compatible:a/b:c=0.25/0.025/1.5,ollama:x=1/1/1"
    assert place.load(HUTCH_MODELS__PRICES=given).settings.models.prices == tuple(given.split(","))
    for wrong in ("x=1/1/1", "openai:x", "openai:x=1/1", "openai:x=1/1/-1", "openai:x=1/1/nan"):
        with pytest.raises(BadRequest, match="dollars per million input"):
            place.load(HUTCH_MODELS__PRICES=wrong)


def test_settings_cannot_be_changed(place: Place) -> None:
    settings = place.load().settings
    with pytest.raises(ValidationError):
        settings.persona = "other"  # type: ignore[misc]
    with pytest.raises(ValidationError):
        settings.jail.processes = 1  # type: ignore[misc]


@pytest.mark.parametrize("value", ['["/x"]', "[ '/x', '/y' ]"])
def test_a_list_in_brackets_in_the_environment_is_refused_with_how_to_write_it(
    place: Place, value: str
) -> None:
    with pytest.raises(
        BadRequest, match="should be a list with commas, without brackets and quotes: one,two"
    ):
        place.load(HUTCH_SERVER__REPOSITORY_ROOTS=value)


def test_settings_made_by_hand_do_not_read_the_environment(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HUTCH_PERSONA", "from-environment")
    assert Settings().persona == "engineer"


# Wrong values are refused with a reason


@pytest.mark.parametrize(
    ("variables", "message"),
    [
        (
            {"HUTCH_LOG__LEVEL": "loud"},
            "log.level is 'loud' (from HUTCH_LOG__LEVEL). "
            "It should be 'debug', 'info', 'warning' or 'error'.",
        ),
        (
            {"HUTCH_JAIL__COMMAND_TIMEOUT_S": "601"},
            "jail.command_timeout_s is '601' (from HUTCH_JAIL__COMMAND_TIMEOUT_S). It should be at most 600.",
        ),
        (
            {"HUTCH_JAIL__MEMORY_BYTES": "lots"},
            "jail.memory_bytes is 'lots' (from HUTCH_JAIL__MEMORY_BYTES). "
            "It should be a size such as 512MiB.",
        ),
        (
            {"HUTCH_JAIL__MEMORY_BYTES": "5XB"},
            "jail.memory_bytes is '5XB' (from HUTCH_JAIL__MEMORY_BYTES). It should be a size such as 512MiB.",
        ),
        (
            {"HUTCH_JAIL__MEMORY_BYTES": "1MiB"},
            "jail.memory_bytes is '1MiB' (from HUTCH_JAIL__MEMORY_BYTES). It should be at least 64MiB.",
        ),
        (
            {"HUTCH_JAIL__MEMORY_BYTES": "2EiB"},
            "jail.memory_bytes is '2EiB' (from HUTCH_JAIL__MEMORY_BYTES). It should be at most 1EiB.",
        ),
        (
            {"HUTCH_JAIL__PROCESSES": "many"},
            "jail.processes is 'many' (from HUTCH_JAIL__PROCESSES). It should be a whole number.",
        ),
        (
            {"HUTCH_TESTS__COMMAND": "make \udcff"},
            "tests.command is 'make \\udcff' (from HUTCH_TESTS__COMMAND). It should be text in UTF-8.",
        ),
        (
            {"HUTCH_JAIL__NETWORK": "docs.example.com,http://x"},
            "jail.network is 'docs.example.com,http://x' (from HUTCH_JAIL__NETWORK). "
            "It should be a host such as docs.example.com, or *.example.org for all under it.",
        ),
        (
            {"HUTCH_JAIL__MEMORY": "1GiB"},
            "HUTCH_JAIL__MEMORY (from the environment) is not a setting. "
            "Did you mean HUTCH_JAIL__MEMORY_BYTES?",
        ),
        (
            {"HUTCH_SESSIONS__KEEP_DAYS": "3"},
            "HUTCH_SESSIONS__KEEP_DAYS (from the environment) has a new name: "
            "HUTCH_SESSIONS__FILE_RETENTION_DAYS. Rename it there.",
        ),
        (
            {"HUTCH_ZZZ": "1"},
            "HUTCH_ZZZ (from the environment) is not a setting. "
            "Remove it; `hutch config show --defaults` lists all settings.",
        ),
    ],
)
def test_a_wrong_variable_is_refused_by_name(place: Place, variables: dict[str, str], message: str) -> None:
    assert place.refusal(None, **variables) == message


@pytest.mark.parametrize(
    ("toml", "message"),
    [
        ("[jail]\nprocesses = 3", "jail.processes is 3 (from {}). It should be at least 16."),
        (
            "retention.days = true",
            "retention.days is True (from {}). It should be a number, not true or false.",
        ),
        ("retention.days = 1.5", "retention.days is 1.5 (from {}). It should be a whole number."),
        ('model = ""', "model is '' (from {}). It should not be empty."),
        (
            'model = "openai:gpt\\n"',
            "model is 'openai:gpt\\n' (from {}). It should be a model such as ollama:NAME, "
            "without control characters.",
        ),
        ("ignore = 5", "ignore is 5 (from {}). It should be a list."),
        (
            "jail.tmp_bytes = [1]",
            "jail.tmp_bytes is [1] (from {}). It should be a size such as 512MiB.",
        ),
        ("persona = {a = 1}", "persona is {{'a': 1}} (from {}). It should be text."),
        ("jail = 5", "jail (from {}) is a section: it contains settings, and has no value itself."),
        ("[jail]\nprocesess = 3", "jail.procesess (from {}) is not a setting. Did you mean jail.processes?"),
        ("processes = 30", "processes (from {}) is not a setting. Did you mean jail.processes?"),
        *(
            (f"{old} = 30", f"{old} (from {{}}) has a new name: {new}. Rename it there.")
            for old, new in RENAMED.items()
        ),
        (
            '"a\\nb" = 1',
            "'a\\nb' (from {}) is not a setting. "
            "Remove it; `hutch config show --defaults` lists all settings.",
        ),
    ],
)
def test_a_wrong_line_in_the_users_file_is_refused_by_name(place: Place, toml: str, message: str) -> None:
    place.user_file.write_text(toml)
    assert place.refusal() == message.format(place.user_file)


def test_renamed_settings_lead_to_settings_that_exist() -> None:
    assert set(RENAMED.values()) <= FIELDS.keys() and not RENAMED.keys() & FIELDS.keys()


def test_all_problems_are_reported_at_once_also_overridden_ones(place: Place) -> None:
    place.user_file.write_text('log.level = "loud"\ncolour = "red"')
    said = place.refusal({"jail": {"processes": 0}}, HUTCH_LOG__LEVEL="info", HUTCH_COLOUR="red").splitlines()
    assert said[0] == "4 settings are wrong:"
    assert [line.split(" ")[1] for line in said[1:]] == [
        "log.level",
        "colour",
        "jail.processes",
        "HUTCH_COLOUR",
    ]
    assert "(from the command line)" in said[3]


def test_a_broken_users_file_is_refused_with_its_line(place: Place) -> None:
    place.user_file.write_text('persona = "a"\npersona = \nmodel = "m"')
    assert str(place.user_file) in place.refusal()
    assert "line 2" in place.refusal()


@pytest.mark.parametrize("content", [b"\xff\xfe", b"a = " + b"[" * 10_000, b"a = " + b"9" * 5_000])
def test_a_users_file_that_is_no_toml_at_all_is_refused(place: Place, content: bytes) -> None:
    place.user_file.write_bytes(content)
    assert "is not valid TOML" in place.refusal()
    assert not any(word in place.refusal() for word in ("codec", "recursion", "sys."))


def test_a_users_file_that_cannot_be_read_is_refused(place: Place) -> None:
    place.user_file.mkdir()
    assert (
        place.refusal()
        == f"The settings in {place.user_file} cannot be read: Is a directory. Fix or move it."
    )


def test_a_secret_in_the_wrong_place_is_not_repeated(place: Place) -> None:
    key = "sk-ant-api03-abcdefghijklmnopqrstuvwxyz"
    place.user_file.write_text(f'openai_api_key = "{key}"\n[log]\nlevel = "{key}"')
    said = place.refusal(HUTCH_ANTHROPIC_API_KEY=key, HUTCH_PERSONA=key)
    assert key not in said
    assert said.count("hutch config set-secret NAME") == 2


def test_variables_that_kubernetes_makes_for_a_service_are_passed_over(place: Place) -> None:
    variables = {
        "HUTCH_SERVICE_HOST": "10.0.0.1",
        "HUTCH_SERVICE_PORT_HTTP": "80",
        "HUTCH_PORT": "tcp://10.0.0.1:80",
        "HUTCH_WEB_PORT_80_TCP_ADDR": "10.0.0.1",
    }
    assert place.load(None, **variables).settings == Settings()
    assert "HUTCH_PORT" in place.refusal(HUTCH_PORT="8080")
    assert "HUTCH_JAI__PORT" in place.refusal(HUTCH_JAI__PORT="tcp://10.0.0.1:80")


# Settings of a repository


def test_a_repository_sets_free_settings(place: Place) -> None:
    place.repo_file.write_text('persona = "reviewer"\nignore = ["*.lock"]\ntests.command = "make check"')
    loaded = place.load()
    assert loaded.settings == Settings.model_validate(
        {"persona": "reviewer", "ignore": ["*.lock"], "tests": {"command": "make check"}}
    )
    assert loaded.origins["tests.command"] == str(place.repo_file)
    assert loaded.refused == ()


@pytest.mark.parametrize(
    ("toml", "sentence"),
    [
        ('model = "evil:model"', "model to 'evil:model', ignored: a repository may not set it; "),
        ('log.level = "error"', "log.level to 'error', ignored: a repository may not set it; "),
        ("retention.days = 1", "retention.days to 1, ignored: a repository may not set it; "),
        (
            'jail.memory_bytes = "3GiB"',
            "jail.memory_bytes to '3GiB', ignored: a repository may only tighten it, and it is 2GiB.",
        ),
        (
            'jail.network = ["evil.org"]',
            "jail.network to ['evil.org'], ignored: a repository may only tighten it, and it is [].",
        ),
        ("jail.processes = 1", "jail.processes to 1, ignored: it should be at least 16."),
        (
            "jail.processes = true",
            "jail.processes to True, ignored: it should be a number, not true or false.",
        ),
        (
            'tests.command = "echo a\\u001b[2J"',
            "tests.command to 'echo a\\x1b[2J', ignored: it should be a command w",
        ),
        (
            'tests.command = "a\\u0000b"',
            "tests.command to 'a\\x00b', ignored: it should be a command without control",
        ),
        (
            'tests.command = "a\\u202eb"',
            "tests.command to 'a\\u202eb', ignored: it should be a command without control",
        ),
        ('tests.command = "  "', "tests.command to '  ', ignored: it should be a command."),
        ('tests.report = "../r.xml"', "tests.report to '../r.xml', ignored: it should be a path or pattern"),
        ('tests.report = "/etc/passwd"', "tests.report to '/etc/passwd', ignored: it should be a path or"),
        ('tests.report = "$(id).xml"', "tests.report to '$(id).xml', ignored: it should be a path or"),
        ("tests.auto = true", "tests.auto"),
        ("jail = 1", "jail to 1, ignored: there is no such setting."),
        ('"\\u001b[2J\\n" = 1', "'\\x1b[2J\\n' to 1, ignored: there is no such setting."),
        ('api_key = "hunter22"', "api_key to a value that is not shown, ignored: there is no such setting."),
        (f"jail.processes = 0x{'f' * 8000}", "jail.processes to a value too large to show, ignored: "),
        (f'jail.memory_bytes = "{"9" * 900}GiB"', "jail.memory_bytes to '999"),
    ],
)
def test_settings_that_a_repository_may_not_set_are_ignored_and_reported(
    place: Place, toml: str, sentence: str
) -> None:
    place.repo_file.write_text(f'persona = "reviewer"\n{toml}')
    loaded = place.load()
    assert loaded.settings == Settings(persona="reviewer")
    assert len(loaded.refused) == 1
    assert loaded.refused[0].startswith(f"'{place.repo_file}' sets {sentence}")


def test_a_repository_tightens_values_of_other_layers(place: Place) -> None:
    place.user_file.write_text(
        '[jail]\nmemory_bytes = "8GiB"\nnetwork = ["docs.example.com", "*.a.org"]\nprocesses = 100'
    )
    place.repo_file.write_text('[jail]\nmemory_bytes = "4GiB"\nnetwork = ["x.a.org"]\nprocesses = 200')
    loaded = place.load()
    jail = loaded.settings.jail
    assert (jail.memory_bytes, jail.network, jail.processes) == (4 * GIB, ("x.a.org",), 100)
    assert loaded.origins["jail.memory_bytes"] == str(place.repo_file)
    assert len(loaded.refused) == 1
    assert "and it is 100" in loaded.refused[0]


def test_a_flag_has_the_last_word_over_a_repository(place: Place) -> None:
    place.repo_file.write_text("jail.processes = 20")
    loaded = place.load({"jail": {"processes": 300}})
    assert (loaded.settings.jail.processes, loaded.refused) == (300, ())


@pytest.mark.parametrize(
    ("wanted", "granted"),
    [
        ([], True),
        (["a.org"], True),
        (["x.b.org", "*.y.b.org", "*.b.org"], True),
        (["b.org"], False),
        (["evilb.org"], False),
        (["*.org"], False),
        (["x.a.org"], False),
        (["a.org", "evil.org"], False),
    ],
)
def test_a_repository_only_narrows_the_network(place: Place, wanted: list[str], granted: bool) -> None:
    place.repo_file.write_text(f"jail.network = {wanted}")
    loaded = place.load(HUTCH_JAIL__NETWORK="a.org,*.b.org")
    assert loaded.settings.jail.network == (tuple(wanted) if granted else ("a.org", "*.b.org"))
    assert len(loaded.refused) == (0 if granted else 1)


def test_a_flood_of_refusals_is_cut_short(place: Place) -> None:
    place.repo_file.write_text("\n".join(f"key{number} = 1" for number in range(600)))
    refused = place.load().refused
    assert len(refused) == 21
    assert refused[-1] == f"'{place.repo_file}' has 580 more that are ignored."


def _link_file(place: Place) -> None:
    (place.home / "outside.toml").write_text('persona = "outside"')
    place.repo_file.symlink_to(place.home / "outside.toml")


def _link_folder(place: Place) -> None:
    (place.home / "elsewhere").mkdir()
    (place.home / "elsewhere" / "config.toml").write_text('persona = "outside"')
    (place.repo / ".hutch").rmdir()
    (place.repo / ".hutch").symlink_to(place.home / "elsewhere")


def _plain_folder(place: Place) -> None:
    (place.repo / ".hutch").rmdir()
    (place.repo / ".hutch").write_text("a file")


@pytest.mark.parametrize(
    ("make", "why"),
    [
        (_link_file, "symbolic link"),
        (_link_folder, "symbolic link"),
        (_plain_folder, "Not a directory"),
        (lambda place: os.mkfifo(place.repo_file), "not a regular file"),
        (lambda place: place.repo_file.mkdir(), "not a regular file"),
        (lambda place: place.repo_file.write_text("#" * 8_193), "larger than 8 KiB"),
        (lambda place: place.repo_file.write_text("persona ="), "not valid TOML"),
        (lambda place: place.repo_file.write_bytes(b"\xff"), "not valid TOML"),
        (lambda place: place.repo_file.write_text("a = " + "[" * 8_000), "not valid TOML"),
        (lambda place: place.repo_file.write_text("a = " + "9" * 8_000), "not valid TOML"),
    ],
)
def test_an_unusable_file_is_reported_and_ignored(
    place: Place, make: Callable[[Place], object], why: str
) -> None:
    make(place)
    loaded = place.load()
    assert loaded.settings == Settings()
    assert len(loaded.refused) == 1
    assert loaded.refused[0].startswith(f"'{place.repo_file}' is ignored: it ")
    assert why in loaded.refused[0]


def test_a_repository_of_exactly_the_largest_size_is_read(place: Place) -> None:
    line = 'persona = "reviewer"\n'
    place.repo_file.write_text(line + "#" * (8_192 - len(line)))
    assert place.load().settings.persona == "reviewer"


def test_a_repository_without_a_file_says_nothing(place: Place) -> None:
    assert place.load().refused == ()
    (place.repo / ".hutch").rmdir()
    assert place.load().refused == ()


def test_a_repository_that_does_not_exist_is_refused(tmp_path: Path) -> None:
    with pytest.raises(NotFound, match="cannot be opened"):
        load(repo=tmp_path / "nowhere", environ={"HUTCH_HOME": str(tmp_path)})


def test_no_descriptor_stays_open(place: Place) -> None:
    before = len(list(Path("/proc/self/fd").iterdir()))
    place.repo_file.mkdir()
    place.load()
    place.repo_file.rmdir()
    place.repo_file.write_text("persona =")
    place.load()
    assert len(list(Path("/proc/self/fd").iterdir())) == before


# Where things are


def test_places_follow_xdg() -> None:
    assert find_paths({"HOME": "/home/ada"}) == Paths(
        config_file=Path("/home/ada/.config/hutch/config.toml"),
        data=Path("/home/ada/.local/share/hutch"),
        state=Path("/home/ada/.local/state/hutch"),
        cache=Path("/home/ada/.cache/hutch"),
    )
    assert find_paths(
        {
            "HOME": "/home/ada",
            "XDG_CONFIG_HOME": "/c",
            "XDG_DATA_HOME": "/d",
            "XDG_STATE_HOME": "/s",
            "XDG_CACHE_HOME": "relative/is/ignored",
        }
    ) == Paths(
        config_file=Path("/c/hutch/config.toml"),
        data=Path("/d/hutch"),
        state=Path("/s/hutch"),
        cache=Path("/home/ada/.cache/hutch"),
    )


def test_hutch_home_holds_everything() -> None:
    paths = find_paths({"HUTCH_HOME": "/srv/hutch", "XDG_DATA_HOME": "/d"})
    assert paths == Paths(
        config_file=Path("/srv/hutch/config.toml"),
        data=Path("/srv/hutch/data"),
        state=Path("/srv/hutch/state"),
        cache=Path("/srv/hutch/cache"),
    )
    assert [paths.database, paths.blobs, paths.signing_key, paths.vault, paths.vault_keys] == [
        Path("/srv/hutch/data") / name
        for name in ("hutch.db", "blobs", "keys/signing.pem", "vault.json", "keys/vault.keys")
    ]


def test_a_tilde_in_hutch_home_is_the_home_directory() -> None:
    assert find_paths({"HUTCH_HOME": "~/x", "HOME": "/home/ada"}).data == Path("/home/ada/x/data")
    assert find_paths({"HUTCH_HOME": "~", "HOME": "/home/ada"}).data == Path("/home/ada/data")
    assert find_paths({"HUTCH_HOME": "/srv/~/x", "HOME": "/home/ada"}).data == Path("/srv/~/x/data")
    assert find_paths({"HUTCH_HOME": "~root/x"}).home == Path(pwd.getpwnam("root").pw_dir) / "x"
    with pytest.raises(BadRequest, match="HUTCH_HOME is '~no-such-user/x', and there is no user"):
        find_paths({"HUTCH_HOME": "~no-such-user/x"})


def test_a_relative_hutch_home_begins_in_the_working_directory() -> None:
    assert find_paths({"HUTCH_HOME": "x/y"}).home == Path.cwd() / "x/y"


def test_a_hutch_home_that_is_no_directory_is_refused_by_name(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("x")
    for path in (tmp_path / "file", tmp_path / "file" / "below"):
        with pytest.raises(BadRequest) as refused:
            load(environ={"HUTCH_HOME": str(path)})
        assert str(refused.value) == f"HUTCH_HOME is '{path}', which is not a directory. Set it to one."


def test_the_home_is_the_topmost_directory_of_hutch() -> None:
    assert find_paths({"HUTCH_HOME": "/srv/hutch"}).home == Path("/srv/hutch")
    assert find_paths({"HOME": "/home/ada"}).home == Path("/home/ada/.local/share/hutch")


def test_asking_for_the_paths_loads_no_pydantic() -> None:
    program = "import sys; from hutch.settings import find_paths; sys.exit('pydantic' in sys.modules)"
    assert subprocess.run([sys.executable, "-c", program], check=False).returncode == 0


# The reference


def test_the_reference_is_fresh() -> None:
    done = subprocess.run([sys.executable, REFERENCE, "--check"], capture_output=True, text=True, check=False)
    assert (done.returncode, done.stderr) == (0, "")


def test_every_setting_is_described() -> None:
    assert [name for name, field in FIELDS.items() if not field.description] == []
    assert environment_variable("jail.memory_bytes") == "HUTCH_JAIL__MEMORY_BYTES"


# A repository's file costs little


@pytest.mark.parametrize(
    "text",
    [
        ".".join("a" * 4095) + "=1",
        f"[{'.'.join('a' * 2000)}]\n{'.'.join('a' * 2000)} = 1",
        f"[{'.'.join('a' * 1500)}]\n" + "\n".join(f"b.b{number}=1" for number in range(500)),
        "a=" + "[" * 4000 + "]" * 4000,
    ],
    ids=["dotted", "dotted in a table", "many in a deep table", "lists"],
)
def test_a_file_as_large_as_allowed_is_read_in_no_time(place: Place, text: str) -> None:
    place.repo_file.write_text(text)
    start = time.process_time()
    assert len(place.load().refused) == 1
    assert time.process_time() - start < 2  # measured below 0.5 s; of 64 KiB it took 10 s
