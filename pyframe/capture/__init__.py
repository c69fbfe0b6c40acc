"""Captures of functions: how one is recorded, when it may be replayed, and how a replay runs."""
