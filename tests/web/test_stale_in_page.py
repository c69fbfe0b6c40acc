"""In the page too a compiled step is never stale: patterns of each kind, on both devices."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Any

import pytest

sys.path.insert(0, str(Path(__file__).parent.parent / "graph"))

import forms
import stale_patterns

ON_THE_GPU = [
    "a_global_number", "a_result_in_a_cell", "a_counter_on_an_object", "a_tensor_that_is_carried",
    "a_temperature", "a_number_as_an_argument", "a_list_that_grows", "a_value_that_is_read",
    "layers_replaced_added_and_removed", "the_rate_of_dropout", "gradients_set_to_none_by_hand",
    "a_group_that_is_replaced", "accumulation_every_second_step", "a_trainer_class",
    "an_array_that_is_changed", "tensors_from_outside_that_change_each_time",
]  # fmt: skip


def run(page: Any, name: str, device: str) -> None:
    page.give(forms, stale_patterns)
    call = f"forms.run(stale_patterns.PATTERNS[{name!r}], {device!r})"
    done = page.run(f"import forms, stale_patterns\n{call}\n'the same'")
    assert done == "the same"


@pytest.mark.parametrize("name", sorted(stale_patterns.PATTERNS))
def test_patterns_on_the_cpu_of_the_page(python_page: Any, name: str) -> None:
    run(python_page, name, "cpu")


@pytest.mark.parametrize("name", ON_THE_GPU)
def test_patterns_on_the_gpu_of_the_page(python_page: Any, name: str) -> None:
    run(python_page, name, "gpu")
