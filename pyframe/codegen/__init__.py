"""Printers of scheduled kernels: each makes of a Program what one kind of processor runs."""
