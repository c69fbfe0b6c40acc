"""pf.profiler in a page: kernels by the browser's clock, or Programs where it has none."""

from __future__ import annotations

from .conftest import PythonPage


def test_a_profile(python_page: PythonPage) -> None:
    out = python_page.run(
        """
import json
import pyframe as pf

work = lambda: (pf.ones(3, 4, device="gpu") @ pf.ones(4, 5, device="gpu")).relu().tolist()
want = work()
with pf.profiler.profile() as prof:
    got = work()
prof.export_chrome_trace("/tmp/trace.json")
spans = [e for e in json.load(open("/tmp/trace.json"))["traceEvents"] if e["ph"] == "X"]
svg = pf.graph.show(lambda x: x.exp(), pf.ones(3, device="gpu")).svg
[got == want, [e.kind for e in prof.events], len(spans), str(prof), "exp" in svg]
"""
    )
    same, kinds, spans, table, drawn = out
    assert same
    assert set(kinds) in ({"kernel"}, {"program"})
    assert spans == len(kinds)
    assert "matmul" in table
    assert drawn


def test_a_page_asks_for_its_gpu(python_page: PythonPage) -> None:
    """pf.gpu in a page, where only what waits has a twin."""
    out = python_page.run(
        """
import pyframe as pf

about = pf.gpu.get_device_properties()
start, end = pf.gpu.Event(enable_timing=True), pf.gpu.Event(enable_timing=True)
await start.record_async()
x = pf.ones(64, 64, device="gpu") @ pf.ones(64, 64, device="gpu")
await end.record_async()
took = await start.elapsed_time_async(end)
await pf.gpu.synchronize_async()
try:
    pf.ones(1, device="gpu:1")
except RuntimeError as error:
    missing = str(error)
[took, start.clock == ("gpu" if about.timestamps else "host"), about.total_memory,
 about.adapter == pf.device_name("gpu"), pf.gpu.memory_allocated() >= 64 * 64 * 4, missing,
 pf.gpu.device_count() == int(not about.software), "in use" in pf.gpu.memory_summary()]
"""
    )
    took, clock, memory, named, held, missing, count, table = out
    assert took >= 0
    assert clock
    assert memory is None
    assert named
    assert held
    assert "'gpu:1': no such GPU; there is 'gpu:0' (" in missing
    assert count
    assert table
