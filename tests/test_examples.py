"""Every example runs as a user would run it, and does what it says."""

from __future__ import annotations

import os
import runpy
import subprocess
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import pyframe as pf

EXAMPLES = Path(__file__).parent.parent / "examples"


@pytest.fixture(scope="module")
def digits() -> dict[str, Any]:
    return runpy.run_path(str(EXAMPLES / "digits.py"))


def test_digits_are_all_there(digits: dict[str, Any]) -> None:
    train, test = digits["load_data"]()
    assert (len(train), len(test)) == (9000, 1000)
    for dataset in (train, test):
        assert tuple(dataset.images.shape[1:]) == (1, 28, 28)
        pixels, labels = dataset.images.numpy(), dataset.labels.numpy()
        assert pixels.dtype == np.float32
        assert (pixels.min(), pixels.max()) == (0, 1)
        assert set(labels.tolist()) == set(range(10))


def test_digits_model_always_has_the_same_start(digits: dict[str, Any]) -> None:
    first = digits["make_model"]().net.state_dict()
    pf.randn(5)  # whatever was drawn before
    second = digits["make_model"]().net.state_dict()
    assert sum(value.numel() for value in first.values()) == 8882
    for name, value in first.items():
        assert np.array_equal(value.numpy(), second[name].numpy())


def test_digits_learns_in_one_epoch(digits: dict[str, Any], tmp_path: Path) -> None:
    command = [sys.executable, str(EXAMPLES / "digits.py"), "--epochs", "1", "--device", "cpu"]
    env = {**os.environ, "PYTHONPATH": str(EXAMPLES.parent)}
    done = subprocess.run(
        command, cwd=tmp_path, env=env, capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stderr
    percent = float(done.stdout.split("%")[0].split()[-1])
    assert percent > 90, done.stdout

    model = digits["make_model"]()
    model.load(tmp_path / "digits.safetensors")
    _, test = digits["load_data"]()
    assert model.evaluate(test)["accuracy"] * 100 == pytest.approx(percent, abs=0.05)


def run_example(folder: Path, name: str, *arguments: str, device: str = "cpu") -> str:
    env = {**os.environ, "PYTHONPATH": str(EXAMPLES.parent)}
    done = subprocess.run(
        [sys.executable, str(EXAMPLES / name), "--device", device, *arguments], cwd=folder, env=env,
        capture_output=True, text=True, check=False,
    )  # fmt: skip
    assert done.returncode == 0, done.stderr
    return done.stdout


def losses(said: str) -> list[float]:
    return [float(line.rpartition("loss ")[2]) for line in said.splitlines() if "loss " in line]


def test_gpt_writes(tmp_path: Path) -> None:
    said = run_example(tmp_path, "gpt.py", "--steps", "12", "--characters", "40")
    assert losses(said)[-1] < 3.5  # it begins at 4.2, with 65 characters
    written = said.partition("step 12: ")[2].partition("\n")[2]
    assert len(written) == 42  # the first line's end and print's


def test_names_are_invented(tmp_path: Path) -> None:
    said = run_example(tmp_path, "names.py", "--steps", "25")
    assert losses(said)[-1] < 3  # it begins at 3.3, with 27 letters
    names = said.splitlines()[-20:]
    assert all(name.split("  ")[0].isalpha() or not name for name in names), names


def test_vae_draws(tmp_path: Path) -> None:
    said = run_example(tmp_path, "vae.py", "--epochs", "2", "--images", "1280")
    assert losses(said)[1] < losses(said)[0] < 600
    assert (tmp_path / "vae.png").read_bytes().startswith(b"\x89PNG")


def test_resnet_learns(tmp_path: Path) -> None:
    said = run_example(tmp_path, "resnet.py", "--epochs", "2", "--images", "640")
    assert float(said.splitlines()[-1].partition("%")[0]) > 15
