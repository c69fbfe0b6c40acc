# Made by scripts/make_stubs; what it says is changed where the function is written.
"""Names that are made when pyframe is imported."""
