"""Every example runs as a user would run it, and does what it says."""

from __future__ import annotations

import gzip
import inspect
import json
import re
import runpy
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from processes import python

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
    said = run_example(tmp_path, "digits.py", "--epochs", "1")
    percent = float(said.split("%")[0].split()[-1])
    assert percent > 90, said
    model = digits["make_model"]()
    model.load(tmp_path / "digits.safetensors")
    _, test = digits["load_data"]()
    assert model.evaluate(test)["accuracy"] * 100 == pytest.approx(percent, abs=0.05)


def run_example(folder: Path, name: str, *arguments: str, device: str = "cpu") -> str:
    return python(EXAMPLES / name, "--device", device, *arguments, folder=folder)[0]


def losses(said: str) -> list[float]:
    return [float(line.rpartition("loss ")[2]) for line in said.splitlines() if "loss " in line]


def test_gpt_writes(tmp_path: Path) -> None:
    said = run_example(tmp_path, "gpt.py", "--epochs", "2", "--pieces", "192", "--characters", "40")
    head, *epochs, written = said.split("\n", 4)[1:]
    (first, high), (second, low) = (map(float, line.split()[1:]) for line in epochs)
    assert head.split() == ["epoch", "loss", "lr"]
    assert second < first < 4.3  # it begins at 4.2, with 65 characters
    assert low < high
    assert len(written) == 41  # and print's line end


def test_gpt_knows_its_letters() -> None:
    gpt = runpy.run_path(str(EXAMPLES / "gpt.py"))
    text = gzip.decompress(gpt["TEXT"].read_bytes()).decode()
    assert gpt["LETTERS"] == "".join(sorted(set(text)))
    train, test = gpt["load_data"]()
    for x, y in (train[3], test[5]):
        assert x[1:].tolist() == y[:-1].tolist()
    x, y = train[0]
    assert "".join(gpt["LETTERS"][i] for i in x.tolist()) == text[: gpt["CONTEXT"]]


def test_the_writer_learns_a_text(tmp_path: Path) -> None:
    """After it what it writes is of that text's words; before it is as it was."""
    said = run_example(tmp_path, "writer.py", "--epochs", "6", "--begin", "The cup")
    losses = [float(line.split()[1]) for line in said.splitlines()[2:8]]
    assert losses == sorted(losses, reverse=True)
    assert losses[-1] < 0.6 * losses[0]
    before, after = said.split("--- ")[1:]
    recipes = runpy.run_path(str(EXAMPLES / "writer.py"))["RECIPES"]
    known = set(re.findall(r"\w+", recipes))
    shares = [np.mean([word in known for word in re.findall(r"\w+", text)[2:-1]])
              for text in (before, after)]  # fmt: skip
    assert shares[1] > 0.6 > shares[0]


def test_the_writers_text_has_a_least_length() -> None:
    load_data = runpy.run_path(str(EXAMPLES / "writer.py"))["load_data"]
    x, y = load_data("ä" * 128)
    assert (x.shape, y is x) == ((5, 128), True)
    with pytest.raises(ValueError, match="256 characters or more"):
        load_data("a" * 255)


def test_names_are_invented(tmp_path: Path) -> None:
    said = run_example(tmp_path, "names.py", "--steps", "25")
    assert losses(said)[-1] < 3  # it begins at 3.3, with 27 letters
    names = said.splitlines()[-20:]
    assert all(name.split("  ")[0].isalpha() or not name for name in names), names


def test_vae_draws(tmp_path: Path) -> None:
    said = run_example(tmp_path, "vae.py", "--epochs", "2", "--images", "1280")
    first, second = map(float, said.splitlines()[0].split()[-2:])
    assert second < first < 600
    assert (tmp_path / "vae.png").read_bytes().startswith(b"\x89PNG")


def test_resnet_learns(tmp_path: Path) -> None:
    said = run_example(tmp_path, "resnet.py", "--epochs", "2", "--images", "640")
    assert float(said.splitlines()[-1].partition("%")[0]) > 15


@pytest.mark.parametrize("shape", ["spirals", "moons", "circles", "xor", "blobs"])
def test_the_playground_parts_points(shape: str) -> None:
    playground = runpy.run_path(str(EXAMPLES / "playground.py"))
    train, test = playground["load_data"](shape)
    points, colours = train.tensors
    assert (points.abs() < 1.1).all()
    assert colours.float().mean().item() == 0.5
    model = playground["make_model"]()
    model.fit(train, epochs=60, batch_size=40, device="cpu", verbose=0)
    assert model.evaluate(test)["accuracy"] > 0.9


def test_the_playground_runs(tmp_path: Path) -> None:
    said = run_example(tmp_path, "playground.py", "--epochs", "20", "--shape", "blobs")
    assert float(said.partition("%")[0]) > 95


def test_a_model_takes_on_a_style(tmp_path: Path) -> None:
    said = run_example(tmp_path, "finetune.py", "--pieces", "320", "--epochs", "3")
    assert all(said.split("\n---\n"))
    finetune = runpy.run_path(str(EXAMPLES / "finetune.py"))
    names = (EXAMPLES / "data" / "names.txt").read_text()
    batch = finetune["pack"]([finetune["Bytes"]().encode(names)], 128)
    x, y = {n: batch[n][-32:] for n in ("input_ids", "segments")}, batch["labels"][-32:]
    model = finetune["make_model"]()
    model.load(tmp_path / "finetuned.safetensors")
    after = model.evaluate((x, y))["loss"]
    pf.lora.remove(model.net)
    assert after < model.evaluate((x, y))["loss"] - 0.3
    pf.lora.load(model.net, tmp_path / "finetuned")
    assert model.evaluate((x, y))["loss"] == pytest.approx(after)
    assert "".join(finetune["demo"].predict(model, "a"))


@pytest.mark.parametrize("name", ["gpt", "vae"])
def test_weights_of_demos_are_of_trained_networks(name: str) -> None:
    """What the pages start from: they know the test data as a new network does not."""
    example = runpy.run_path(str(EXAMPLES / f"{name}.py"))
    model = example["make_model"]()
    _, test = example["load_data"]()
    x, y = test[:128]
    before = model.evaluate(x, y)["loss"]
    after = model.load(EXAMPLES / "data" / f"{name}.safetensors").evaluate(x, y)["loss"]
    assert after < {"gpt": 1.75, "vae": 165}[name] < before


def test_photo_is_efficientnet() -> None:
    """The number of weights, and the size of what lies within, are as its authors have them."""
    photo = runpy.run_path(str(EXAMPLES / "photo.py"))
    net = photo["make_net"]().eval()
    assert sum(p.numel() for p in net.parameters()) == 4_652_008
    assert len(photo["NAMES"]) == 1000
    with pf.no_grad():
        x = pf.rand(1, 3, 224, 224)
        assert net[:-4](x).shape == (1, 1280, 7, 7)
        assert net(x).shape == (1, 1000)


def test_photos_are_told_apart(tmp_path: Path) -> None:
    weights = EXAMPLES.parent / "build" / "photo" / "photo.safetensors"
    if not weights.is_file():
        pytest.skip("build/photo is missing: run scripts/get_photo")
    photos = [str(EXAMPLES / "data" / "photos" / f"{n}.jpg") for n in ("camera", "cat", "coffee")]
    said = run_example(tmp_path, "photo.py", *photos).splitlines()
    for line, what in zip(said, ("tripod", "Egyptian cat", "espresso"), strict=True):
        assert f": {what} " in line


@pytest.mark.parametrize("name", ["digits", "finetune", "gpt", "photo", "playground", "vae"])
def test_demos_say_what_a_page_needs(name: str) -> None:
    """Their controls are options that the program has, and the spec is JSON data."""
    example = runpy.run_path(str(EXAMPLES / f"{name}.py"))
    demo = example["demo"]
    spec = json.loads(json.dumps(demo.spec()))
    assert spec["title"]
    assert spec["description"]
    functions = [f for f in (demo.model, demo.data) if f is not None]
    options = {o for f in functions for o in inspect.signature(f).parameters}
    model = demo.model()
    if model.optimizer is not None:
        options |= set(model.optimizer.param_groups[0])
    assert {c.name for c in demo.controls} <= options
