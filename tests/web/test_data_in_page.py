"""Data loaders in the page, which has no worker processes."""

from __future__ import annotations

import json
from typing import Any

PROGRAM = """
import json, warnings
import pyframe as pf
from pyframe.utils.data import DataLoader, RandomSampler, StackDataset, get_worker_info

pf.manual_seed(5)
data = StackDataset(range(6), pf.arange(6) * 2)
loader = DataLoader(data, 4, shuffle=True, num_workers=2, persistent_workers=True, timeout=3)
with warnings.catch_warnings(record=True) as told:
    warnings.simplefilter("always")
    epochs = [[[part.tolist() for part in batch] for batch in loader] for _ in range(2)]
json.dumps([epochs, [str(w.message) for w in told], get_worker_info()])
"""


def test_loaders_in_the_page(python_page: Any) -> None:
    page = json.loads(python_page.run(PROGRAM))
    here: dict[str, Any] = {}
    exec(PROGRAM.replace("num_workers=2, persistent_workers=True, timeout=3", ""), here)
    assert page[0] == here["epochs"], "the same order as here"
    assert len(page[1]) == 1
    assert "a web page has no worker processes" in page[1][0]
    assert page[2] is None
