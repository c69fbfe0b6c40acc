"""The oracle of language models."""

from __future__ import annotations

from typing import Any

import pytest


@pytest.fixture(scope="session")
def transformers(torch: Any) -> Any:
    """The package, without torchvision, which it would look for."""
    utils = pytest.importorskip("transformers.utils", reason="transformers is not installed")
    utils.is_torchvision_available = utils.import_utils.is_torchvision_available = lambda: False
    found = pytest.importorskip("transformers")
    found.logging.set_verbosity_error()
    found.logging.disable_progress_bar()
    return found
