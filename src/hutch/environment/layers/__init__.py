"""Layers: installed dependencies as directories that sessions share."""
