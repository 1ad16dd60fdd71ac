"""The tables, once, for every database Hutch can rest on.

`logs` has one row per session and holds the head of its chain; `events` has the
chain itself. An event's payload is inline, or in a blob named by its payload
hash when `payload` is NULL, or erased when `salt` is NULL too.
"""

from sqlalchemy import (
    BigInteger,
    Boolean,
    Column,
    ForeignKey,
    Index,
    Integer,
    LargeBinary,
    MetaData,
    Table,
    Text,
    UniqueConstraint,
)

REVISIONS = ("0001", "0002")
"""Every schema revision, oldest first; the last is the one this code needs."""

metadata = MetaData()
_key = BigInteger().with_variant(Integer, "sqlite")

logs = Table(
    "logs",
    metadata,
    Column("id", _key, primary_key=True),
    Column("session_id", Text, nullable=False, unique=True),
    Column("seq", BigInteger, nullable=False),
    Column("hash", Text, nullable=False),
    Column("at_ms", BigInteger, nullable=False),
    Column("opened_ms", BigInteger, nullable=False),
    Column("ended", Boolean, nullable=False),
    Column("signed_seq", BigInteger, nullable=False),
)
Index("logs_unsigned", logs.c.id, sqlite_where=logs.c.signed_seq < logs.c.seq)

events = Table(
    "events",
    metadata,
    Column("position", _key, primary_key=True),
    Column("log_id", ForeignKey(logs.c.id), nullable=False),
    Column("seq", BigInteger, nullable=False),
    Column("at_ms", BigInteger, nullable=False),
    Column("type", Text, nullable=False),
    Column("payload_hash", Text, nullable=False),
    Column("hash", Text, nullable=False),
    Column("salt", LargeBinary),
    Column("payload", LargeBinary),
    UniqueConstraint("log_id", "seq"),
)

statements = Table(
    "statements",
    metadata,
    Column("id", _key, primary_key=True),
    Column("log_id", ForeignKey(logs.c.id), nullable=False),
    Column("kind", Text, nullable=False),
    Column("seq", BigInteger, nullable=False),
    Column("hash", Text, nullable=False),
    Column("at_ms", BigInteger, nullable=False),
    Column("reason", Text, nullable=False),
    Column("key", Text, nullable=False),
    Column("signature", LargeBinary, nullable=False),
    Index("statements_by_seq", "log_id", "seq"),
)

public_keys = Table(
    "public_keys",
    metadata,
    Column("fingerprint", Text, primary_key=True),
    Column("public_key", LargeBinary, nullable=False),
)

doomed_blobs = Table("doomed_blobs", metadata, Column("name", Text, primary_key=True))

changes = Table(
    "changes",
    metadata,
    Column("id", Text, primary_key=True),
    Column("session_id", Text, nullable=False),
    Column("run_id", Text, nullable=False),
    Column("repository", Text, nullable=False),
    Column("branch", Text, nullable=False),
    Column("base", Text, nullable=False),
    Column("base_commit", Text, nullable=False),
    Column("commit", Text, nullable=False),
    Column("title", Text, nullable=False),
    Column("body", Text, nullable=False),
    Column("tests", Text, nullable=False),
    Column("state", Text, nullable=False),
    Column("created_ms", BigInteger, nullable=False),
    Column("merged_commit", Text, nullable=False),
)
