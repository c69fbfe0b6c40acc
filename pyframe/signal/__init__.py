"""Signal processing: windows, as torch.signal."""

from pyframe.signal import windows as windows

__all__ = ["windows"]
