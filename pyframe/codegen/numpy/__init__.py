"""Programs as bound NumPy calls: the CPU's way to run the same step many times."""
