"""Every example runs as a user would run it, and does what it says."""

from __future__ import annotations

import gzip
import inspect
import json
import re
import runpy
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import pyframe as pf

EXAMPLES = Path(__file__).parent.parent / "examples"


def load(name: str) -> dict[str, Any]:
    return runpy.run_path(str(EXAMPLES / f"{name}.py"))


@pytest.fixture
def run(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> Callable[..., str]:
    """`run(name, *arguments)` is what an example prints that is run in an empty folder."""
    monkeypatch.chdir(tmp_path)

    def main(name: str, *arguments: str) -> str:
        monkeypatch.setattr(sys, "argv", [name, "--device", "cpu", *arguments])
        capsys.readouterr()
        runpy.run_path(str(EXAMPLES / f"{name}.py"), run_name="__main__")
        return capsys.readouterr().out

    return main


@pytest.fixture(scope="module")
def digits() -> dict[str, Any]:
    return load("digits")


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


def test_digits_learns_in_one_epoch(
    digits: dict[str, Any], run: Callable[..., str], tmp_path: Path
) -> None:
    said = run("digits", "--epochs", "1")
    percent = float(said.split("%")[0].split()[-1])
    assert percent > 90, said
    model = digits["make_model"]()
    model.load(tmp_path / "digits.safetensors")
    _, test = digits["load_data"]()
    assert model.evaluate(test)["accuracy"] * 100 == pytest.approx(percent, abs=0.05)


def test_gpt_writes(run: Callable[..., str]) -> None:
    said = run("gpt", "--epochs", "2", "--pieces", "64", "--characters", "20")
    head, *epochs, written = said.split("\n", 4)[1:]
    (first, high), (second, low) = (map(float, line.split()[1:]) for line in epochs)
    assert head.split() == ["epoch", "loss", "lr"]
    assert second < first < 4.3  # it begins at 4.2, with 65 characters
    assert low < high
    assert len(written) == 21  # and print's line end


def test_gpt_knows_its_letters() -> None:
    gpt = load("gpt")
    text = gzip.decompress(gpt["TEXT"].read_bytes()).decode()
    assert gpt["LETTERS"] == "".join(sorted(set(text)))
    train, test = gpt["load_data"]()
    for x, y in (train[3], test[5]):
        assert x[1:].tolist() == y[:-1].tolist()
    x, y = train[0]
    assert "".join(gpt["LETTERS"][i] for i in x.tolist()) == text[: gpt["CONTEXT"]]


def test_the_writer_learns_a_text(run: Callable[..., str]) -> None:
    """After it what it writes is of that text's words; before it is as it was."""
    said = run("writer", "--epochs", "6", "--begin", "The cup")
    losses = [float(line.split()[1]) for line in said.splitlines()[2:8]]
    assert losses == sorted(losses, reverse=True)
    assert losses[-1] < 0.6 * losses[0]
    before, after = said.split("--- ")[1:]
    writer = load("writer")
    known = set(re.findall(r"\w+", writer["RECIPES"]))
    shares = [np.mean([word in known for word in re.findall(r"\w+", text)[2:-1]])
              for text in (before, after)]  # fmt: skip
    assert shares[1] > 0.6 > shares[0]
    x, y = writer["load_data"]("ä" * 128)
    assert (x.shape, y is x) == ((5, 128), True)
    with pytest.raises(ValueError, match="256 characters or more"):
        writer["load_data"]("a" * 255)


def test_names_are_invented(run: Callable[..., str]) -> None:
    said = run("names", "--steps", "25")
    assert float(re.findall("loss (.*)", said)[-1]) < 3  # it begins at 3.3, with 27 letters
    names = said.splitlines()[-20:]
    assert all(name.split("  ")[0].isalpha() or not name for name in names), names


def test_resnet_learns(run: Callable[..., str]) -> None:
    said = run("resnet", "--epochs", "2", "--images", "640")
    assert float(said.splitlines()[-1].partition("%")[0]) > 15


@pytest.mark.parametrize("shape", ["spirals", "xor"])
def test_the_playground_parts_points(shape: str) -> None:
    playground = load("playground")
    train, test = playground["load_data"](shape)
    points, colours = train.tensors
    assert (points.abs() < 1.1).all()
    assert colours.float().mean().item() == 0.5
    model = playground["make_model"]()
    model.fit(train, epochs=60, batch_size=40, device="cpu", verbose=0)
    assert model.evaluate(test)["accuracy"] > 0.9


def test_a_model_takes_on_a_style(run: Callable[..., str], tmp_path: Path) -> None:
    said = run("finetune", "--pieces", "320", "--epochs", "3")
    assert all(said.split("\n---\n"))
    finetune = load("finetune")
    names = (EXAMPLES / "data" / "names.txt").read_text()
    batch = finetune["pack"]([finetune["Bytes"]().encode(names)], 128)
    x, y = {n: batch[n][-8:] for n in ("input_ids", "segments")}, batch["labels"][-8:]
    model = finetune["make_model"]()
    model.load(tmp_path / "finetuned.safetensors")
    after = model.evaluate((x, y))["loss"]
    pf.lora.remove(model.net)
    assert after < model.evaluate((x, y))["loss"] - 0.3
    pf.lora.load(model.net, tmp_path / "finetuned")
    assert model.evaluate((x, y))["loss"] == pytest.approx(after)
    assert "".join(finetune["demo"].predict(model, "a"))


@pytest.mark.parametrize(("name", "loss"), [("gpt", 1.75), ("vae", 165)])
def test_weights_of_demos_are_of_trained_networks(name: str, loss: float) -> None:
    """What the pages start from: they know the test data as no new network does."""
    example = load(name)
    _, test = example["load_data"]()
    model = example["make_model"]().load(EXAMPLES / "data" / f"{name}.safetensors")
    assert model.evaluate(*test[:32])["loss"] < loss


def test_photo_is_efficientnet() -> None:
    """The number of weights, and the size of what lies within, are as its authors have them."""
    photo = load("photo")
    net = photo["make_net"]().eval()
    assert sum(p.numel() for p in net.parameters()) == 4_652_008
    assert len(photo["NAMES"]) == 1000
    with pf.no_grad():
        inside = net[:-4](pf.rand(1, 3, 64, 64))
        assert inside.shape == (1, 1280, 2, 2)
        assert net[-4:](inside).shape == (1, 1000)


def test_photos_are_told_apart(run: Callable[..., str]) -> None:
    if not (EXAMPLES.parent / "build" / "photo" / "photo.safetensors").is_file():
        pytest.skip("build/photo is missing: run scripts/get_photo")
    photos = [str(EXAMPLES / "data" / "photos" / f"{n}.jpg") for n in ("camera", "cat", "coffee")]
    said = run("photo", *photos).splitlines()
    for line, what in zip(said, ("tripod", "Egyptian cat", "espresso"), strict=True):
        assert f": {what} " in line


@pytest.mark.parametrize("name", ["digits", "finetune", "gpt", "photo", "playground", "vae"])
def test_demos_say_what_a_page_needs(name: str) -> None:
    """Their controls are options that the program has, and the spec is JSON data."""
    demo = load(name)["demo"]
    spec = json.loads(json.dumps(demo.spec()))
    assert spec["title"]
    assert spec["description"]
    functions = [f for f in (demo.model, demo.data) if f is not None]
    options = {o for f in functions for o in inspect.signature(f).parameters}
    model = demo.model()
    if model.optimizer is not None:
        options |= set(model.optimizer.param_groups[0])
    assert {c.name for c in demo.controls} <= options
