"""What is computed for each element."""
