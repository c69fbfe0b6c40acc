"""The backend of the page keeps the contract that the host's and the native one keep."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from contract import CHECKS

SOURCE = Path(__file__).parent.parent / "contract.py"


@pytest.mark.parametrize("check", [c.__name__ for c in CHECKS])
def test_contract_in_the_page(python_page: Any, check: str) -> None:
    python_page.put("contract.py", SOURCE.read_text())
    assert (
        python_page.run(
            "import contract, pyframe as pf\n"
            "backend = pf.device('gpu').backend\n"
            "assert backend.name == 'browser'\n"
            f"await contract.{check}(backend)\n"
            "'kept'"
        )
        == "kept"
    )
