"""Elements by index, order and counting."""
