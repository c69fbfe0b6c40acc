"""The Python half of worker.js: trains the model of digits.py and tells the page how it goes.

The page calls the functions in CALLS; what they take and give is JSON's kind of data. Nothing here
blocks: every value is read with `await`, so that the page is heard between two steps, and no
browser needs more than WebAssembly and, for the GPU, WebGPU.
"""

from __future__ import annotations

import inspect
import time
from pathlib import Path
from typing import Any

import digits
import js
import numpy as np
from pyodide.ffi import to_js
from pyodide.http import pyfetch

import pyframe as pf
from pyframe import io, train
from pyframe.data import DataLoader, Subset

WEIGHTS = Path("digits.safetensors")
SAMPLES = 21  # unseen digits whose reading the page shows
LOOK = 0.4  # seconds between two looks at them while training

model = digits.make_model()
trained = False
training_digits, test_digits = digits.load_data() if digits.DATA.is_dir() else (None, None)


def post(event: str, **details: Any) -> None:
    """Tell the page about something."""
    js.pyframePost(event, to_js(details, dict_converter=js.Object.fromEntries))


def describe(device: str | None = None) -> dict[str, Any]:
    """What there is: the GPU, the device chosen (or `device`, where it is there), and samples."""
    gpu = software = None
    if hasattr(js, "pyframeRuntime"):
        gpu, software = pf.device_name("gpu"), pf.device("gpu").backend.software
    if device not in ("cpu", "gpu") or (device == "gpu" and gpu is None):
        device = str(pf.device("auto"))
    model.to(device)
    samples = []
    if test_digits is not None:
        for pixels, label in zip(test_digits.data[:SAMPLES], test_digits.targets, strict=False):
            samples.append({"pixels": pixels.flatten().tolist(), "label": label.item()})
    return {"gpu": gpu, "software": software, "samples": samples, "device": device, **state()}


def state(accuracy: float | None = None) -> dict[str, Any]:
    """The model as it is now."""
    name = pf.device_name(model.device)
    return {"trained": trained, "device_name": name, "accuracy": accuracy}


async def fit(device: str, epochs: int | None = None, limit: int | None = None) -> dict[str, Any]:
    """Train (on) for some epochs of the first `limit` digits; gives how that went."""
    global trained
    data, test = first(training_digits, limit), first(test_digits, limit)
    loader = DataLoader(data, digits.BATCH_SIZE, shuffle=True)
    watch = Watch(len(data), len(loader), epochs or digits.EPOCHS)
    trained, start = True, time.perf_counter()
    await model.fit_async(
        loader,
        watch.epochs,
        validation_data=test,
        device=device,
        callbacks=[watch],
        read_every=4,  # a page wants to be heard often
    )
    seconds = time.perf_counter() - start
    await look()
    accuracy = watch.accuracy
    if accuracy is None:  # the last epoch was cut short
        accuracy = (await model.evaluate_async(test))["accuracy"]
    after = {"steps": watch.step, "seconds": seconds, "stopped": model.stop_training}
    return {**after, **state(accuracy)}


def first(data: Any, limit: int | None) -> Any:
    """The first `limit` samples of a data set; all of them for None."""
    return data if limit is None else Subset(data, range(min(limit, len(data))))


def stop() -> None:
    """End the training after the step that is under way."""
    model.stop_training = True


class Watch(train.Callback):
    """Posts each loss that was read, each epoch, and now and then what the samples look like."""

    def __init__(self, size: int, steps: int, epochs: int) -> None:
        self.size, self.steps, self.epochs = size, steps, epochs
        self.step = self.epoch = 0
        self.accuracy: float | None = None  # on the test digits, after the last epoch
        self.seen, self.total = 0, 0.0  # samples and the sum of their losses in this epoch
        self.started = self.looked = time.perf_counter()

    async def on_step(self, model: pf.Model, step: int, logs: dict[str, float]) -> None:
        """`logs` has the epoch's mean so far; the page wants the loss since the last time."""
        if step == self.step:
            return  # an epoch's last step is told twice
        self.step = step
        if model.epoch != self.epoch:
            self.epoch, self.seen, self.total = model.epoch, 0, 0.0
        seen = min((step - self.epoch * self.steps) * digits.BATCH_SIZE, self.size)
        total = logs["loss"] * seen
        loss = (total - self.total) / (seen - self.seen)
        self.seen, self.total = seen, total
        now = time.perf_counter()
        post(
            "step",
            loss=loss,
            step=step,
            steps=self.steps * self.epochs,
            epoch=model.epoch + 1,
            epochs=self.epochs,
            speed=step / (now - self.started),
            device_name=pf.device_name(model.device),
        )
        if now - self.looked > LOOK:
            await look()
            self.looked = time.perf_counter()

    async def on_epoch(self, model: pf.Model, epoch: int, logs: dict[str, float]) -> None:
        """An epoch that was stopped has no test accuracy and gets no line."""
        self.accuracy = logs.get("val_accuracy")
        if self.accuracy is not None:
            post(
                "epoch",
                loss=logs["loss"],
                accuracy=logs["accuracy"],
                test_accuracy=self.accuracy,
            )


def scores(images: pf.Tensor) -> pf.Tensor:
    """How likely each digit is: (N, 1, 28, 28) -> (N, 10). Training may go on before it is read."""
    was = model.net.training
    model.net.eval()
    try:
        with pf.no_grad():
            return model.net(images.to(model.device)).softmax(1)
    finally:
        model.net.train(was)


async def look() -> None:
    """Tell the page what the network makes of the samples."""
    if test_digits is not None:
        images = next(iter(DataLoader(test_digits, SAMPLES)))[0]
        post("samples", guesses=await scores(images).argmax(1).tolist_async())


async def predict(pixels: Any) -> list[float]:
    """How likely each digit is, for 784 pixels from 0 to 255."""
    image = np.frombuffer(pixels, np.uint8).astype(np.float32) / 255
    (answer,) = await scores(pf.from_numpy(image.reshape(1, 1, 28, 28))).tolist_async()
    return answer


async def news() -> dict[str, Any]:
    """After a change: what the samples look like now, and how many test digits are read right."""
    await look()
    accuracy = None
    if trained and test_digits is not None:
        accuracy = (await model.evaluate_async(test_digits))["accuracy"]
    return state(accuracy)


async def load(url: str, device: str) -> dict[str, Any]:
    """Take over weights that `Model.save` wrote."""
    global trained
    response = await pyfetch(url)
    response.raise_for_status()
    WEIGHTS.write_bytes(await response.bytes())
    model.load(WEIGHTS).to(device)
    trained = True
    return await news()


async def reset(device: str) -> dict[str, Any]:
    """A new model, which starts where every model of digits.py starts."""
    global model, trained
    model, trained = digits.make_model().to(device), False
    return await news()


async def move(device: str) -> dict[str, Any]:
    """The same model on another device."""
    model.to(device)
    return await news()


async def save() -> bytes:
    """The weights as the bytes of a safetensors file."""
    await io.save_async(model.net.state_dict(), WEIGHTS)
    return WEIGHTS.read_bytes()


CALLS = {
    "describe": describe, "train": fit, "stop": stop, "predict": predict, "load": load,
    "reset": reset, "move": move, "save": save, "look": look,
}  # fmt: skip


async def call(name: str, values: dict[str, Any]) -> Any:
    """Run one of CALLS; what worker.js calls."""
    answer = CALLS[name](**values)
    return await answer if inspect.isawaitable(answer) else answer
