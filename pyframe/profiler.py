"""Where the time goes, under the names of torch.profiler; see `pyframe.tools.profiler`."""

from pyframe.tools.profiler import (
    Average as Average,
    Averages as Averages,
    Event as Event,
    ProfilerActivity as ProfilerActivity,
    profile as profile,
    record_function as record_function,
)

__all__ = ["Average", "Averages", "Event", "ProfilerActivity", "profile", "record_function"]
