"""Views, joining, and other layouts of the same elements."""
