"""The hardware: memory, loading a Program, running it; see `base`."""
