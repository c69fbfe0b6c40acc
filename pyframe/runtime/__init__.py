"""Running recorded work: executors of devices, captured functions and what they rely on."""
