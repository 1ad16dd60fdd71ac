"""Tables and columns get the names that the rest of the code uses for them."""

from alembic import op

revision = "0016"
down_revision = "0015"


def upgrade() -> None:
    op.rename_table("kept_rules", "approval_rules")
    op.rename_table("doomed_blobs", "blob_deletions")
    op.rename_table("refolds", "stale_projections")
    op.rename_table("removals", "session_removals")
    op.execute("ALTER TABLE inputs RENAME COLUMN taken TO processed")
    op.execute("ALTER TABLE deliveries RENAME COLUMN wish TO request")
