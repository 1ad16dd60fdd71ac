"""Column definitions that the current tables and the migrations share."""

from sqlalchemy import BigInteger, Column, Integer, Text

ROW = BigInteger().with_variant(Integer, "sqlite")  # a numeric primary key


def texts(names: str) -> list[Column[str]]:
    """Texts that may be empty, and are never NULL."""
    return [Column(name, Text, nullable=False) for name in names.split()]


def text_keys(names: str) -> list[Column[str]]:
    """The parts of a primary key."""
    return [Column(name, Text, primary_key=True) for name in names.split()]


def numbers(names: str) -> list[Column[int]]:
    return [Column(name, BigInteger, nullable=False) for name in names.split()]
