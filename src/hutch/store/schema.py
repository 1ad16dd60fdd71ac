"""The tables, for every supported database.

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

from hutch.store.columns_shared_with_migrations import ROW, numbers, text_keys, texts

_NUMBERS = (*range(1, 17), 18, 19, 20, 22, 23, 24, 28, 29, 30, 31, 32)
REVISIONS = tuple(f"{number:04}" for number in _NUMBERS)
"""Every schema revision, oldest first; the last is the one this code needs."""

metadata = MetaData()
logs = Table(
    "logs",
    metadata,
    Column("id", ROW, primary_key=True),
    Column("session_id", Text, nullable=False, unique=True),
    Column("seq", BigInteger, nullable=False),
    Column("hash", Text, nullable=False),
    *numbers("at_ms opened_ms"),
    Column("ended", Boolean, nullable=False),
    Column("signed_seq", BigInteger, nullable=False),
    Column("payload_bytes", BigInteger, nullable=False),  # of all its events, erased ones included
    Column("omitted", Text, nullable=False),  # omitted events since the last marker; see `log_limit`
)
Index("logs_unsigned", logs.c.id, sqlite_where=logs.c.signed_seq < logs.c.seq)  # partial in PostgreSQL, too

events = Table(
    "events",
    metadata,
    Column("position", ROW, primary_key=True),
    Column("log_id", ForeignKey(logs.c.id), nullable=False),
    *numbers("seq at_ms"),
    *texts("type payload_hash hash"),
    Column("salt", LargeBinary),
    Column("payload", LargeBinary),
    UniqueConstraint("log_id", "seq"),
)

statements = Table(
    "statements",
    metadata,
    Column("id", ROW, primary_key=True),
    Column("log_id", ForeignKey(logs.c.id), nullable=False),
    Column("kind", Text, nullable=False),
    Column("seq", BigInteger, nullable=False),
    Column("hash", Text, nullable=False),
    Column("at_ms", BigInteger, nullable=False),
    *texts("reason key"),
    Column("signature", LargeBinary, nullable=False),
    Index("statements_by_seq", "log_id", "seq"),
)

public_keys = Table(
    "public_keys",
    metadata,
    Column("fingerprint", Text, primary_key=True),
    Column("public_key", LargeBinary, nullable=False),
)

blob_deletions = Table("blob_deletions", metadata, Column("name", Text, primary_key=True))

changes = Table(
    "changes",
    metadata,
    Column("id", Text, primary_key=True),
    *texts("session_id run_id repository branch base base_commit commit title body tests state"),
    Column("created_ms", BigInteger, nullable=False),
    *texts("merged_commit forge"),
    Column("number", BigInteger, nullable=False),
    Column("web_url", Text, nullable=False),
)

comments = Table(
    "comments",
    metadata,
    Column("id", Text, primary_key=True),
    Column("change_id", Text, nullable=False, index=True),
    Column("review_id", Text, nullable=False),  # empty when it was made by itself
    *texts("author path"),
    Column("line", BigInteger, nullable=False),
    *texts("side severity body commit"),
    Column("created_ms", BigInteger, nullable=False),
    Column("resolved_ms", BigInteger, nullable=False),  # 0 until then
    Column("resolved_by", Text, nullable=False),
)

reviews = Table(
    "reviews",
    metadata,
    Column("id", Text, primary_key=True),
    Column("change_id", Text, nullable=False, index=True),
    Column("pull_url", Text, nullable=False, index=True),
    *texts("author verdict title body commit session_id"),
    Column("run_id", Text, nullable=False, index=True),
    Column("url", Text, nullable=False),
    Column("created_ms", BigInteger, nullable=False),
)

# Webhook deliveries of forges, once each: the request and its progress.
deliveries = Table(
    "deliveries",
    metadata,
    Column("id", Text, primary_key=True),  # the forge's id
    Column("digest", Text, nullable=False, unique=True),  # of the content, independent of the id
    Column("at_ms", BigInteger, nullable=False, index=True),
    Column("event", Text, nullable=False),
    Column("state", Text, nullable=False, index=True),  # queued, working, ended, ignored
    Column("request", Text, nullable=False),  # JSON
    *texts("reason session_id run_id"),
    Column("input", BigInteger, nullable=False),  # number of the input to an existing session; else 0
    Column("comment_id", BigInteger, nullable=False),  # of the progress comment; 0 until it exists
    Column("attempts", Integer, nullable=False),
    Column("next_ms", BigInteger, nullable=False),  # earliest time of the next attempt
)

# --- Users and logins. Secrets are stored only as hashes; times are milliseconds. ---

users = Table(
    "users",
    metadata,
    Column("id", Text, primary_key=True),
    Column("name", Text, nullable=False),
    Column("name_key", Text, nullable=False, unique=True),  # the name, normalised for comparison
    Column("role", Text, nullable=False),
    Column("password_hash", Text, nullable=False),  # empty when there is no password
    Column("created_ms", BigInteger, nullable=False),
    Column("disabled", Boolean, nullable=False),
)

tokens = Table(
    "tokens",
    metadata,
    Column("id", Text, primary_key=True),
    Column("user_id", ForeignKey(users.c.id), nullable=False, index=True),
    Column("name", Text, nullable=False),
    Column("hash", Text, nullable=False, unique=True),
    *texts("prefix scopes"),
    Column("created_ms", BigInteger, nullable=False),
    Column("expires_ms", BigInteger),
    Column("last_used_ms", BigInteger),
    Column("revoked_ms", BigInteger),
)

browser_sessions = Table(
    "browser_sessions",
    metadata,
    Column("id", Text, primary_key=True),
    Column("user_id", ForeignKey(users.c.id), nullable=False, index=True),
    Column("hash", Text, nullable=False, unique=True),
    Column("began_by", Text, nullable=False),  # password, link, oidc
    *texts("address agent"),
    *numbers("created_ms used_ms"),
)

links = Table(
    "links",
    metadata,
    Column("id", Text, primary_key=True),
    Column("hash", Text, nullable=False, unique=True),
    Column("kind", Text, nullable=False),  # login, invite
    Column("user_id", ForeignKey(users.c.id)),  # the user that it logs in
    Column("role", Text),  # of the user that an invite creates
    Column("session_id", Text),  # what an invite shares
    Column("share_role", Text),
    Column("more_sessions", Text, nullable=False, server_default=""),  # further ids, with commas
    Column("share_scopes", Text, nullable=False, server_default=""),
    Column("access_until_ms", BigInteger),  # when the shares end
    Column("created_by", Text, nullable=False),
    *numbers("created_ms expires_ms"),
    Column("used_ms", BigInteger),
    Column("used_by", Text),
)

identities = Table(
    "identities",
    metadata,
    *text_keys("issuer subject"),
    Column("user_id", ForeignKey(users.c.id), nullable=False, index=True),
    Column("email", Text, nullable=False),
    Column("created_ms", BigInteger, nullable=False),
)

shares = Table(
    "shares",
    metadata,
    Column("session_id", Text, primary_key=True),
    Column("user_id", ForeignKey(users.c.id), primary_key=True, index=True),
    *texts("role created_by"),
    Column("created_ms", BigInteger, nullable=False),
    Column("scopes", Text, nullable=False, server_default=""),  # with commas; empty: all of the role
    Column("expires_ms", BigInteger),  # NULL: never
)

login_attempts = Table(
    "login_attempts",
    metadata,
    Column("key", Text, primary_key=True),  # hash of the name and address
    Column("failures", Integer, nullable=False),
    Column("last_ms", BigInteger, nullable=False, index=True),
    Column("until_ms", BigInteger, nullable=False),  # no further attempt before
)

audit = Table(
    "audit",
    metadata,
    Column("id", ROW, primary_key=True),
    Column("at_ms", BigInteger, nullable=False),
    Column("user_id", Text, nullable=False),  # empty when it is not known
    *texts("credential_id action object address"),
    Column("ok", Boolean, nullable=False),
    *texts("detail trace_id"),
)

# --- Sessions and their requests. Their events are in the logs. ---

sessions = Table(
    "sessions",
    metadata,
    Column("id", Text, primary_key=True),
    Column("owner", Text, nullable=False, index=True),
    *texts("purpose role company expectations repository revision persona model"),
    Column("network", Text, nullable=False),  # JSON
    Column("variables", Text, nullable=False),  # JSON: pairs of name and value
    Column("secrets", Text, nullable=False),  # JSON: names
    Column("limits", Text, nullable=False),  # JSON
    Column("resources", Text, nullable=False),  # JSON
    Column("generation", Text, nullable=False),  # JSON
    Column("deliver", Boolean, nullable=False),
    Column("delivery", Text, nullable=False),  # JSON: delivery options
    Column("workspace_id", Text, nullable=False),  # empty until it is prepared
    Column("forked_from", Text, nullable=False),  # a session and a snapshot of it, or empty
    Column("parent", Text, nullable=False, index=True, server_default=""),  # whose helper it is
    Column("helper", Text, nullable=False, server_default="{}"),  # JSON: the rights of a helper
    Column("state", Text, nullable=False, index=True),
    Column("reason", Text, nullable=False),
    *numbers("created_ms updated_ms"),
)

runs = Table(
    "runs",
    metadata,
    Column("id", Text, primary_key=True),
    Column("session_id", ForeignKey(sessions.c.id), nullable=False, index=True),
    Column("owner", Text, nullable=False),
    Column("kind", Text, nullable=False),  # prepare, prompt
    Column("prompt", Text, nullable=False),
    Column("generation", Text, nullable=False),  # JSON
    Column("input", BigInteger, nullable=False),  # the input that it came from; 0 when none
    Column("state", Text, nullable=False, index=True),  # queued, running, held, ended
    Column("worker", Text, nullable=False),
    *numbers("lease_until_ms queued_ms"),
    Column("started_ms", BigInteger, nullable=False),  # 0 until then
    Column("ended_ms", BigInteger, nullable=False),
    *texts("outcome reason"),
    Column("trace_id", Text, nullable=False),  # of the request that started it
    Column("delivered", Text, nullable=False),  # JSON: the delivery result; empty before that
)

# Sessions whose removal is in progress.
session_removals = Table("session_removals", metadata, Column("session_id", Text, primary_key=True))

inputs = Table(
    "inputs",
    metadata,
    Column("position", ROW, primary_key=True),
    Column("session_id", ForeignKey(sessions.c.id), nullable=False),
    *numbers("seq at_ms"),
    Column("by", Text, nullable=False),
    Column("body", Text, nullable=False),  # JSON
    Column("processed", Boolean, nullable=False),
    Column("audience", Text),  # NULL: everyone who may see the session
    UniqueConstraint("session_id", "seq"),
)

approval_rules = Table(
    "approval_rules",
    metadata,
    Column("position", ROW, primary_key=True),
    *texts("user_id tool pattern"),
    UniqueConstraint("user_id", "tool", "pattern"),
)

# Policies that owners added while the server runs.
policies = Table(
    "policies",
    metadata,
    Column("name", Text, primary_key=True),
    Column("body", Text, nullable=False),  # JSON
    Column("created_by", Text, nullable=False),
    Column("created_ms", BigInteger, nullable=False),
)

preferences = Table("preferences", metadata, *text_keys("user_id name"), *texts("value"))

# Users whose erasure has begun. Names are not kept.
user_erasures = Table(
    "user_erasures",
    metadata,
    Column("user_id", Text, primary_key=True),
    Column("heir", Text, nullable=False),  # the user who gets the sessions; empty: they are erased
    Column("mentions", Text, nullable=False),  # erase or keep: events of other sessions with the user's name
    Column("sessions", Text, nullable=False),  # their ids, with spaces
    *numbers("started_ms ended_ms"),  # 0 until its end
)

answered_requests = Table(
    "answered_requests",
    metadata,
    Column("user_id", Text, primary_key=True),
    Column("key", Text, primary_key=True),  # hashed: clients may put anything into it
    Column("request_hash", Text, nullable=False),  # empty when it was erased
    Column("status", Integer, nullable=False),  # 0 while it is being answered
    Column("headers", Text, nullable=False),  # JSON
    Column("body", LargeBinary, nullable=False),
    Column("at_ms", BigInteger, nullable=False, index=True),
)

# --- Projections: rows computed from the logs; they can be deleted and computed again. ---

projections = Table(
    "projections",
    metadata,
    Column("name", Text, primary_key=True),
    Column("version", Integer, nullable=False),  # of the fold that made its rows
    Column("position", BigInteger, nullable=False),  # of the last event that is in them
)

# Logs that have lost payloads since they were folded.
stale_projections = Table(
    "stale_projections",
    metadata,
    *text_keys("projection session_id"),
    Column("erasures", BigInteger, nullable=False),  # the count: an erasure during a fold is noticed
)

usage = Table(
    "usage",
    metadata,
    Column("session_id", Text, primary_key=True),
    Column("user_id", Text, primary_key=True),  # the session's owner; empty when it is not known
    *text_keys("model persona"),
    Column("day", Text, primary_key=True),  # in UTC, as 2025-01-31
    *numbers("runs turns input_tokens cached_tokens output_tokens"),
    Column("cost_nano_usd", BigInteger, nullable=False),  # a whole number: sums are exact in any order
    *numbers("unpriced tool_calls tool_errors duration_ms"),
    Index("usage_by_user", "user_id"),
)

usage_sessions = Table(
    "usage_sessions",
    metadata,
    Column("session_id", Text, primary_key=True),
    Column("user_id", Text, nullable=False),
)

usage_runs = Table(
    "usage_runs",
    metadata,
    *text_keys("session_id run_id"),
    *texts("model persona"),
    Column("duration_ms", BigInteger, nullable=False),
)
