"""What functions share: arguments, out=, autocast, checks, in-place variants, batching."""
