"""What files are that are not what they were taken for."""

from __future__ import annotations

import os
import re

from pyframe.io.files import PICKLES

NOT_OURS = {  # the names of other programs' files, and what to do with such
    ".onnx": "ONNX, a whole network; pf.onnx.load makes a Module of it",
    ".h5": "HDF5, of Keras; give the arrays of model.get_weights(), as pf.tensor(array), to "
    "load_state_dict",
    ".gguf": "GGUF, of llama.cpp; load the model's .safetensors files",
    ".tflite": "TensorFlow Lite's",
    ".pb": "TensorFlow's",
    ".npy": "one array of NumPy's: pf.from_numpy(np.load(path))",
}
NOT_OURS |= dict.fromkeys((".hdf5", ".keras"), NOT_OURS[".h5"])
_STARTS = {b"GGUF": ".gguf", b"\x89HDF\r\n\x1a\n": ".h5", b"\x93NUMPY": ".npy"}


def not_ours(name: str, start: bytes) -> str:
    """What a file of another program's is, by how it begins, else by its name; "" for others."""
    found = next((end for magic, end in _STARTS.items() if start.startswith(magic)), "")
    if start[4:8] == b"TFL3":
        found = ".tflite"
    known = start[8:9] == b"{" or start[:2] in (b"PK", *PICKLES)  # safetensors, or as `beginning`
    if not found and not known and not mistaken(start):
        found = os.path.splitext(name)[1].lower()
    return NOT_OURS.get(found, "")


def check_name(path: str | os.PathLike[str]) -> None:
    """ValueError for the name of another program's file, by which people would take it for one."""
    stem, end = os.path.splitext(os.fspath(path))
    if kind := NOT_OURS.get(end.lower()):
        raise ValueError(
            f"save: {os.fspath(path)} is a name for {re.split('[;:]', kind)[0]}, which is not what "
            f"is written: call it {os.path.basename(stem)}.safetensors, or .pt or .npz"
        )


def mistaken(start: bytes) -> str:
    """What a file is that begins so and was put in the place of another: a Git LFS pointer, or a
    page that a server sent. "" where it may be what it should be."""
    text = start.removeprefix(b"\xef\xbb\xbf").lstrip()[:100].lower()
    if text.startswith(b"version https://git-lfs"):
        return (
            "a Git LFS pointer, which stands for the file: run git lfs pull in its repository, or "
            "download the file itself"
        )
    if text.startswith((b"<!doctype html", b"<html", b"<head", b"<?xml", b"<error")):
        return (
            "an HTML page (or XML), as servers send to a browser or with an error: download the "
            "file itself"
        )
    return ""
