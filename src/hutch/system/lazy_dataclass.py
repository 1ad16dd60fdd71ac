"""`dataclass` as in the standard library, but cheap to define: `__init__` is compiled at its first call.

The standard library compiles up to six methods for each class when its module is imported, although most
processes create instances of few of them. Here the methods other than `__init__` are not compiled at all.
"""

import dataclasses
from collections.abc import Callable
from inspect import Signature, signature
from operator import attrgetter
from typing import TYPE_CHECKING, Any

Method = Callable[..., Any]


class _Missing:
    """The default of a field with a default factory."""

    def __repr__(self) -> str:
        return "<factory>"


_MISSING = _Missing()


def _lazy_dataclass(*, frozen: bool = False, slots: bool, kw_only: bool = False, eq: bool = True) -> Method:
    """The standard `dataclass`, limited to classes with slots."""
    assert slots

    def decorate(cls: type) -> type:
        cls.__doc__ = cls.__doc__ or cls.__name__  # otherwise it would be computed from the signature
        own = set(vars(cls))
        decorator = dataclasses.dataclass(init=False, repr=False, eq=False, slots=True, kw_only=kw_only)
        made: type = decorator(cls)
        methods: dict[str, Any] = {"__init__": _first_init(made, frozen=frozen), "__repr__": _represent}
        if eq:
            key = _comparison_key(made)
            methods |= {"__eq__": _equality(key), "__hash__": _hash(key) if frozen else None}
        if frozen:
            methods |= FROZEN
        if "__init__" not in own:
            methods["__signature__"] = _LazySignature()
        for name, method in methods.items():
            if name not in own:
                setattr(made, name, method)
        return made

    return decorate


def _first_init(cls: type, *, frozen: bool) -> Method:
    """The first call replaces it."""

    def __init__(self: Any, *args: Any, **kwargs: Any) -> None:
        init = _compile_init(cls, frozen=frozen)
        setattr(cls, "__init__", init)  # noqa: B010 - mypy forbids to assign it
        init(self, *args, **kwargs)

    __init__.__annotations__ = _annotations(cls)
    return __init__


def _annotations(cls: type) -> dict[str, Any]:
    return {field.name: field.type for field in dataclasses.fields(cls) if field.init} | {"return": None}


class _LazySignature:
    """The signature of a class for `inspect`: that of its compiled `__init__`, without `self`."""

    def __get__(self, instance: object, cls: type) -> Signature:
        whole = signature(_compile_init(cls, frozen=False))
        return whole.replace(parameters=list(whole.parameters.values())[1:])


def _compile_init(cls: type, *, frozen: bool) -> Method:
    names: dict[str, Any] = {"_MISSING": _MISSING}
    positional, keyword, body = ["self"], ["*"], ["pass"]
    for field in dataclasses.fields(cls):
        if not field.init:  # `__post_init__` sets it
            continue
        parameter = value = name = field.name
        if field.default is not dataclasses.MISSING:
            names[f"_default_{name}"] = field.default
            parameter = f"{name}=_default_{name}"
        elif field.default_factory is not dataclasses.MISSING:
            names[f"_make_{name}"] = field.default_factory
            parameter = f"{name}=_MISSING"
            value = f"_make_{name}() if {name} is _MISSING else {name}"
        (keyword if field.kw_only else positional).append(parameter)
        if frozen:
            names[f"_set_{name}"] = getattr(cls, name).__set__
            body.append(f"_set_{name}(self, {value})")
        else:
            body.append(f"self.{name} = {value}")
    if hasattr(cls, "__post_init__"):
        body.append("self.__post_init__()")
    parameters = positional + (keyword if len(keyword) > 1 else [])
    exec(f"def __init__({', '.join(parameters)}):\n " + "\n ".join(body), names)
    init: Method = names["__init__"]
    init.__qualname__ = f"{cls.__qualname__}.__init__"
    init.__annotations__ = _annotations(cls)
    return init


def _represent(self: Any) -> str:
    shown = (
        f"{field.name}={getattr(self, field.name)!r}" for field in dataclasses.fields(self) if field.repr
    )
    return f"{type(self).__qualname__}({', '.join(shown)})"


def _comparison_key(cls: type) -> Method:
    compared = [field.name for field in dataclasses.fields(cls) if field.compare]
    if len(compared) > 1:
        return attrgetter(*compared)
    return lambda self: tuple(getattr(self, name) for name in compared)


def _equality(key: Method) -> Method:
    return lambda self, other: key(self) == key(other) if type(other) is type(self) else NotImplemented


def _hash(key: Method) -> Method:
    return lambda self: hash(key(self))


def _refuse_set(self: Any, name: str, value: object) -> None:
    raise dataclasses.FrozenInstanceError(f"cannot assign to field {name!r}")


def _refuse_delete(self: Any, name: str) -> None:
    raise dataclasses.FrozenInstanceError(f"cannot delete field {name!r}")


def _state(self: Any) -> list[Any]:
    return [getattr(self, field.name) for field in dataclasses.fields(self)]


def _set_state(self: Any, state: list[Any]) -> None:
    for field, value in zip(dataclasses.fields(self), state, strict=True):
        object.__setattr__(self, field.name, value)


FROZEN = {
    "__setattr__": _refuse_set,
    "__delattr__": _refuse_delete,
    "__getstate__": _state,
    "__setstate__": _set_state,
}

if TYPE_CHECKING:
    from dataclasses import dataclass as dataclass
else:
    dataclass = _lazy_dataclass
