"""Interview questions: read from folders, checked in jails, imported and exported."""
