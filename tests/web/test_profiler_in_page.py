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
