"""Running recorded work: the executors of devices, their buffers, Programs made ready to run."""
