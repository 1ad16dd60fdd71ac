"""Several files changed at once, checked as if one after the other."""

import os
from pathlib import Path

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from hutch.domain.errors import BadRequest, Conflict, Denied, HutchError, NotFound
from hutch.edit.file_operation_types import Delete, FileChange, Move, Operation, Write
from hutch.workspace.files.change_planning import MAX_FILE_BYTES
from hutch.workspace.files.file_reads_and_changes import Files
from tests.hypothesis_examples import examples
from tests.workspace.file_change_helpers import close, everything, make_place, opened, sha

ALPHA, BETA, GAMMA = b"alpha\n", b"beta\n", b"gamma\n"


@pytest.fixture
def tree(tmp_path: Path) -> Path:
    return make_place(tmp_path)


@pytest.fixture
def files(tree: Path) -> Files:
    return opened(tree)


def test_every_change_is_reported_with_both_hashes(files: Files) -> None:
    assert files.change(
        [
            Write("a", b"A", None, sha(ALPHA)),
            Write("new", b"N", None, None),
            Move("b", "c", None, sha(BETA)),
            Move("src/c", "d", b"D", sha(GAMMA)),
            Delete("new", sha(b"N")),
        ]
    ) == [
        FileChange("a", "modified", sha(ALPHA), sha(b"A")),
        FileChange("new", "created", None, sha(b"N")),
        FileChange("c", "moved", sha(BETA), sha(BETA), "b"),
        FileChange("d", "moved", sha(GAMMA), sha(b"D"), "src/c"),
        FileChange("new", "deleted", sha(b"N"), None),
    ]


def test_two_files_change_places(files: Files, tree: Path) -> None:
    files.change(
        [
            Move("a", "tmp", None, sha(ALPHA)),
            Move("b", "a", None, sha(BETA)),
            Move("tmp", "b", None, sha(ALPHA)),
        ]
    )
    assert (tree / "a").read_bytes() == BETA
    assert (tree / "b").read_bytes() == ALPHA
    assert (tree / "b").stat().st_mode & 0o777 == 0o755
    assert not (tree / "tmp").exists()


@pytest.mark.parametrize(
    ("operation", "error"),
    [
        (Write("a", b"", None, None), "exists already"),
        (Write("a", b"", None, sha(b"x")), f"its SHA-256 is {sha(ALPHA)}, not {sha(b'x')}"),
        (Write("none", b"", None, sha(b"x")), "does not exist"),
        (Delete("a", sha(BETA)), "has changed"),
        (Move("a", "b", None, sha(ALPHA)), "'b' exists already"),
        (Move("a", "b", None, sha(ALPHA), sha(ALPHA)), "'b' has changed"),
        (Move("a", "c", None, sha(BETA)), "'a' has changed"),
    ],
)
def test_what_does_not_hold_stops_everything(
    files: Files, tree: Path, operation: Operation, error: str
) -> None:
    before = everything(tree)
    with pytest.raises(Conflict, match=error):
        files.change([Write("first", b"1", None, None), operation])
    assert everything(tree) == before


@pytest.mark.parametrize(
    ("path", "kind"),
    [
        ("src", BadRequest),
        ("a/below", BadRequest),
        ("../outside/secret", Denied),
        ("out/secret", Denied),
        ("out", Denied),
        ("", BadRequest),
        ("none/../../x", BadRequest),
        ("x\0y", BadRequest),
        ("n" * 300, BadRequest),
        ("round", HutchError),
        ("pipe", BadRequest),
    ],
)
def test_paths_that_cannot_be_written(files: Files, tree: Path, path: str, kind: type[HutchError]) -> None:
    (tree / "out").symlink_to("../outside" if path != "out" else "../outside/secret")
    (tree / "round").symlink_to("round")
    os.mkfifo(tree / "pipe")
    before, outside = everything(tree), everything(tree.parent / "outside")
    for before_hash in (None, sha(b"secret")):
        with pytest.raises(kind):
            files.change([Write("new/file", b"1", None, None), Write(path, b"x", None, before_hash)])
    assert everything(tree) == before
    assert everything(tree.parent / "outside") == outside


def test_a_link_inside_is_followed_and_stays(files: Files, tree: Path) -> None:
    (tree / "second").symlink_to("link")
    change = files.write("second", b"through\n")
    assert change == FileChange("second", "modified", sha(GAMMA), sha(b"through\n"))
    assert (tree / "link").is_symlink()
    assert (tree / "src/c").read_bytes() == b"through\n"
    assert (tree / "src/c").stat().st_mode & 0o777 == 0o600
    (tree / "dangling").symlink_to("src/made")
    files.write("dangling", b"made\n")
    assert (tree / "src/made").read_bytes() == b"made\n"


def test_two_paths_to_one_file_are_one_file(files: Files, tree: Path) -> None:
    (tree / "way").symlink_to("src")
    files.change([Write("way/c", b"1", None, sha(GAMMA)), Write("src/../link", b"2", None, sha(b"1"))])
    assert (tree / "src/c").read_bytes() == b"2"
    with pytest.raises(Conflict):
        files.change([Delete("way/c", sha(b"2")), Write("src/c", b"3", None, sha(b"2"))])


def test_deleting_and_moving_a_link_leaves_what_it_leads_to(files: Files, tree: Path) -> None:
    files.change([Move("link", "renamed", None, sha(GAMMA))])
    assert (tree / "renamed").readlink() == Path("src/c")
    files.change([Delete("renamed", sha(GAMMA))])
    assert not (tree / "renamed").is_symlink()
    assert (tree / "src/c").read_bytes() == GAMMA


def test_modes(files: Files, tree: Path) -> None:
    (tree / "a").chmod(0o4755)
    files.change(
        [
            Write("a", b"1", None, sha(ALPHA)),  # set-id bits go, as when anybody writes to a file
            Write("b", BETA, 0o700, sha(BETA)),  # nothing but the mode changes
            Write("new", b"", None, None),
            Write("script", b"", 0o755, None),
            Move("src/c", "c", None, sha(GAMMA), mode=0o640),
        ]
    )
    found = {name: (tree / name).stat().st_mode & 0o7777 for name in ("a", "b", "new", "script", "c")}
    assert found == {"a": 0o755, "b": 0o700, "new": 0o644, "script": 0o755, "c": 0o640}


def test_the_same_content_again_touches_nothing(files: Files, tree: Path) -> None:
    before = everything(tree)
    assert files.write("a", ALPHA) == FileChange("a", "modified", sha(ALPHA), sha(ALPHA))
    assert everything(tree) == before


def test_a_directory_cannot_be_where_a_new_file_goes(files: Files, tree: Path) -> None:
    before = everything(tree)
    with pytest.raises(HutchError, match="Nothing was changed"):
        files.change([Write("n/x", b"", None, None), Write("n/x/y", b"", None, None)])
    assert everything(tree) == before


def test_a_file_too_large_to_hold_is_refused(files: Files, tree: Path) -> None:
    with (tree / "huge").open("wb") as file:
        file.truncate(MAX_FILE_BYTES + 1)
    with pytest.raises(BadRequest, match="33,554,433 bytes"):
        files.read_bytes("huge")
    with (tree / "huge").open("wb") as file:
        file.truncate(MAX_FILE_BYTES)
    assert len(files.read_bytes("huge")[0]) == MAX_FILE_BYTES
    with pytest.raises(NotFound):
        files.read_bytes("none")


names = st.sampled_from(["a", "b", "d/a", "d/b", "e/f/g"])
contents = st.sampled_from([b"", b"1", b"22"])
requested_changes = st.lists(
    st.tuples(st.sampled_from(["write", "move", "edit", "delete"]), names, names, contents), max_size=8
)


@settings(
    max_examples=examples(150), deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture]
)
@given(st.dictionaries(names, contents), requested_changes)
def test_any_operations_do_what_they_would_one_by_one(
    tmp_path_factory: pytest.TempPathFactory,
    first: dict[str, bytes],
    wished: list[tuple[str, str, str, bytes]],
) -> None:
    place = tmp_path_factory.mktemp("change")
    for name in ("tree", "journal"):
        (place / name).mkdir()
    for name, data in first.items():
        (place / "tree" / name).parent.mkdir(parents=True, exist_ok=True)
        (place / "tree" / name).write_bytes(data)
    model, operations = dict(first), list[Operation]()
    for kind, path, to, data in wished:
        before = sha(model[path]) if path in model else None
        if kind == "write":
            operations.append(Write(path, data, None, before))
            model[path] = data
        elif before is None:
            continue
        elif kind == "delete":
            operations.append(Delete(path, before))
            del model[path]
        else:
            replaced = sha(model[to]) if to in model and to != path else None
            operations.append(Move(path, to, data if kind == "edit" else None, before, replaced))
            content = model.pop(path)
            model[to] = data if kind == "edit" else content
    files = opened(place / "tree")
    files.change(operations)
    close(files)
    found = {
        str(path.relative_to(place / "tree")): path.read_bytes()
        for path in (place / "tree").rglob("*")
        if path.is_file()
    }
    assert found == model
    assert not list((place / "journal").iterdir())
