"""backend/browser.py alone: what it asks of runtime.js, with a tiny program by hand."""

from __future__ import annotations

from .conftest import PythonPage
from .test_runtime import SCALE

# What the program of the test uses; SCALE comes before it.
PRELUDE = """
from array import array
import numpy as np
import pyframe as pf
from pyframe.backend.base import ProgramCode

gpu = pf.device("gpu").backend
params = lambda factor: np.float32(factor).tobytes() + np.uint32(2).tobytes() + bytes(248)
steps = [v for i in range(40) for v in (0, 1, 1, 1, 0, 8, 2, i % 2, 1 - i % 2)]
loaded = gpu.load(ProgramCode([SCALE], ["scale"], array("i", steps), 2, 256))
whole = gpu.create(512)
x, y, z = gpu.slice(whole, 0, 256), gpu.create(256), gpu.create(256)
write = lambda handle, *values: gpu.write(handle, memoryview(np.float32(values)).cast("B"))
"""


def test_parts_copies_submits_profile_and_unload(python_page: PythonPage) -> None:
    out = python_page.run(
        f"SCALE = '''{SCALE}'''\n{PRELUDE}\n"
        """
write(x, 1, 2)
gpu.stats.reset()
gpu.run(loaded, [x, y], params(-1))
gpu.run(loaded, [x, y], params(-1))
s = gpu.stats
counted = [s.dispatches, s.submits, s.bind_groups, s.bytes_uploaded]
gpu.copy(z, y, 8)
times = gpu.profile(loaded, [x, y], params(1))
gpu.unload(loaded)
try:
    gpu.run(loaded, [x, y], params(1))
except RuntimeError as error:
    gone = str(error)
try:
    gpu.slice(x, 0, 260)
except RuntimeError as error:
    small = str(error)
gpu.destroy(whole)
gpu.destroy(x)
read = np.frombuffer(b"".join(await gpu.read_begin([(z, 8)])()), np.float32).tolist()
[counted, times, "is not loaded" in gone, "fewer than 260" in small, read]
"""
    )
    counted, times, gone, small, read = out
    assert counted == [80, 8, 40, 256]
    assert times is None or len(times) == 40
    assert gone
    assert small
    assert read == [-1, -2]
