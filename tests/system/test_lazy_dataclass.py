"""Classes behave as those of the standard library."""

import copy
import dataclasses
import inspect
import pickle
from collections.abc import Callable
from typing import Any, ClassVar, get_type_hints

import pytest

from hutch.system import lazy_dataclass

Decorator = Callable[..., Any]
BOTH = pytest.mark.parametrize("dataclass", [dataclasses.dataclass, lazy_dataclass.dataclass])


@lazy_dataclass.dataclass(frozen=True, slots=True)
class Point:
    x: int
    y: int = 2
    note: str = dataclasses.field(default="", compare=False, repr=False)


@lazy_dataclass.dataclass(frozen=True, slots=True)
class Point3(Point):
    z: int = 3


def make_shelf(dataclass: Decorator) -> Any:
    @dataclass(slots=True)
    class Shelf:
        name: str
        books: list[str] = dataclasses.field(default_factory=list)
        height: int = dataclasses.field(init=False)
        count: ClassVar[int] = 7

        def __post_init__(self) -> None:
            self.height = len(self.name)

    return Shelf


@BOTH
def test_fields_have_defaults_and_factories_of_their_own(dataclass: Decorator) -> None:
    Shelf = make_shelf(dataclass)
    first, second = Shelf("oak"), Shelf(name="elm", books=["a"])
    first.books.append("b")
    assert (first.books, second.books, Shelf("ash").books) == (["b"], ["a"], [])
    assert (first.height, first.count) == (3, 7)
    assert repr(first).endswith("Shelf(name='oak', books=['b'], height=3)")


@BOTH
def test_instances_with_equal_fields_are_equal(dataclass: Decorator) -> None:
    Shelf, Other = make_shelf(dataclass), make_shelf(dataclass)
    assert Shelf("oak") == Shelf("oak")
    assert Shelf("oak") != Shelf("oak", ["a"])
    assert Shelf("oak") != Other("oak")
    assert Shelf.__hash__ is None


@BOTH
def test_a_frozen_class_hashes_its_compared_fields_and_cannot_change(dataclass: Decorator) -> None:
    @dataclass(frozen=True, slots=True)
    class Cell:
        x: int
        y: int = dataclasses.field(default=0, compare=False)

    one = Cell(1, 2)
    assert {one, Cell(1, 3)} == {one}
    assert one != (1,)
    with pytest.raises(dataclasses.FrozenInstanceError):
        one.x = 5
    with pytest.raises(dataclasses.FrozenInstanceError):
        del one.x
    with pytest.raises((AttributeError, TypeError)):  # a defect of the standard library makes it a TypeError
        one.z = 5
    assert not hasattr(one, "__dict__")


@BOTH
def test_a_class_without_equality_compares_by_identity(dataclass: Decorator) -> None:
    @dataclass(frozen=True, slots=True, eq=False)
    class Job:
        name: str

    job = Job("a")
    assert job == job
    assert job != Job("a")
    assert len({job, Job("a")}) == 2


@BOTH
def test_methods_of_the_class_itself_stay(dataclass: Decorator) -> None:
    @dataclass(frozen=True, slots=True)
    class Name:
        text: str

        def __repr__(self) -> str:
            return f"<{self.text}>"

        def __eq__(self, other: object) -> bool:
            return isinstance(other, Name) and self.text.lower() == other.text.lower()

        def __hash__(self) -> int:
            return 1

    assert (repr(Name("a")), hash(Name("a")), Name("a") == Name("A")) == ("<a>", 1, True)


@BOTH
def test_arguments_are_checked_from_the_first_call(dataclass: Decorator) -> None:
    @dataclass(frozen=True, slots=True, kw_only=True)
    class Options:
        a: int
        b: int = 0

    for _ in range(2):
        with pytest.raises(TypeError, match=r"Options.__init__\(\) missing 1 .* keyword-only argument: 'a'"):
            Options(b=1)
        with pytest.raises(TypeError, match=r"Options.__init__\(\) got an unexpected keyword argument 'c'"):
            Options(a=1, c=1)
        with pytest.raises(TypeError, match=r"Options.__init__\(\) takes 1 positional argument"):
            Options(1)


def test_the_functions_and_patterns_of_the_standard_library_work() -> None:
    assert dataclasses.asdict(dataclasses.replace(Point(1), y=5)) == {"x": 1, "y": 5, "note": ""}
    match Point3(1, 2, "n", 9):
        case Point(x, y):
            assert (x, y) == (1, 2)
    assert [field.name for field in dataclasses.fields(Point3)] == ["x", "y", "note", "z"]
    assert Point3(1) != Point(1)


def test_an_instance_can_be_copied_and_pickled() -> None:
    point = Point3(1, 4, "note", 5)
    for other in (copy.copy(point), copy.deepcopy(point), pickle.loads(pickle.dumps(point))):
        assert (other, other.note, other is point) == (point, "note", False)


def test_a_class_without_slots_is_refused() -> None:
    with pytest.raises(TypeError, match="slots"):
        lazy_dataclass.dataclass(frozen=True)


def test_the_signature_and_its_types_are_known_before_the_first_instance() -> None:
    Theirs, Ours = make_shelf(dataclasses.dataclass), make_shelf(lazy_dataclass.dataclass)
    parameters = [list(inspect.signature(each).parameters) for each in (Theirs, Ours)]
    assert parameters[0] == parameters[1] == ["name", "books"]
    assert get_type_hints(Ours.__init__) == get_type_hints(Theirs.__init__)
    Ours("oak")
    assert get_type_hints(Ours.__init__) == get_type_hints(Theirs.__init__)
