"""The resources of `/api/v1`, one router each."""
