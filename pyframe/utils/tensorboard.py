"""Logs for TensorBoard, as torch.utils.tensorboard: extra `tensorboard`.

The events and the format of their files are tensorboardX's.
"""

from __future__ import annotations

import functools
import itertools
import os
import socket
import time
from collections.abc import Mapping, Sequence
from datetime import datetime
from importlib import import_module
from pathlib import Path
from typing import Any, Self

import numpy as np

import pyframe as pf
from pyframe.core.extras import install
from pyframe.tools.flow import trace

try:
    embedding, summary, _files, _utils = (
        import_module(f"tensorboardX.{name}")
        for name in ("embedding", "summary", "event_file_writer", "utils")
    )
    attr_value, event, graph, node_def, plugin_hparams, proto, tensor, tensor_shape, versions = (
        import_module(f"tensorboardX.proto.{name}_pb2")
        for name in """attr_value event graph node_def plugin_hparams summary tensor tensor_shape
        versions""".split()
    )
except ImportError as error:
    raise ImportError(
        f"pyframe.utils.tensorboard needs tensorboardX: {install('tensorboard')}"
    ) from error

__all__ = ["FileWriter", "SummaryWriter"]


@functools.cache
def _default_bins() -> list[float]:
    """The ends of a histogram's bins: each tenth more than the last, from 1e-12 to 1e20."""
    ends, v = [], 1e-12
    while v < 1e20:
        ends.append(v)
        v *= 1.1
    return [*(-v for v in reversed(ends)), 0, *ends]


def _array(x: Any) -> np.ndarray:
    """A tensor of any device, an array, a number or a list of them, as an array."""
    if isinstance(x, pf.Tensor):
        x = x.detach()
        return (x.float() if x.dtype is pf.bfloat16 else x).numpy(force=True)
    if isinstance(x, list | tuple):
        return np.array([_array(v) for v in x])
    found = np.asarray(x)
    if found.dtype.kind not in "biuf":
        raise TypeError(f"SummaryWriter: expected a Tensor, an array or numbers, got {x!r:.80}")
    return found


def _arrays(*values: Any) -> list[Any]:
    """Each as an array, and None as None."""
    return [None if x is None else _array(x) for x in values]


def _number(what: str, x: Any) -> float:
    found = _array(x)
    if found.size != 1:
        raise ValueError(f"{what}: expected one number, got shape {list(found.shape)}")
    return float(found.reshape(()))


class FileWriter:
    """Writes events into a new file in the folder `log_dir`, at once into the file's buffer.

    tensorboardX's own has a queue and a thread, which `flush` does not wait for, and names files
    by the second: of two in one second the later replaces the earlier.

    Args:
        max_queue, flush_secs: How many events, or seconds, until they are on the disk.
        filename_suffix: What the file's name ends in.
    """

    _numbers = itertools.count()  # of the files of this process, as in TensorBoard's names of them

    def __init__(
        self, log_dir: Any, max_queue: int = 10, flush_secs: float = 120, filename_suffix: str = ""
    ) -> None:
        self.log_dir = os.fspath(log_dir)
        self.max_queue, self.flush_secs, self.filename_suffix = (
            max_queue, flush_secs, filename_suffix
        )  # fmt: skip
        self._events: Any = None
        self.reopen()

    def get_logdir(self) -> str:
        """The folder."""
        return self.log_dir

    def add_event(self, event: Any, step: Any = None, walltime: float | None = None) -> None:
        """Write an Event; the file is flushed after `max_queue` of them or `flush_secs` seconds.

        Args:
            walltime: Seconds since 1970; None is now.
            event: An Event of tensorboardX's protocol.
            step: The step that it is of.
        """
        now = time.time()
        event.wall_time = now if walltime is None else walltime
        if step is not None:
            event.step = int(_number("global_step", step))
        self._events.write_event(event)
        self._pending += 1
        if self._pending >= self.max_queue or now >= self._flushed + self.flush_secs:
            self.flush()

    def add_summary(
        self, summary: Any, global_step: Any = None, walltime: float | None = None
    ) -> None:
        """Write an Event that holds a Summary.

        Args:
            walltime: Seconds since 1970; None is now.
            summary: A Summary of it.
            global_step: The step that it is of.
        """
        self.add_event(event.Event(summary=summary), global_step, walltime)

    def flush(self) -> None:
        """Have everything on the disk."""
        self._pending, self._flushed = 0, time.time()
        if self._events is not None:
            self._events.flush()

    def close(self) -> None:
        """Flush and close the file."""
        if self._events is not None:
            self._events.close()
            self._events = None

    def reopen(self) -> None:
        """Begin another file, if this one was closed."""
        if self._events is None:
            os.makedirs(self.log_dir, exist_ok=True)
            suffix = f".{os.getpid()}.{next(self._numbers)}{self.filename_suffix}"
            self._events = _files.EventsWriter(os.path.join(self.log_dir, "events"), suffix)
            self.flush()


class SummaryWriter:
    """Writes what a run shows into event files in `log_dir`, as torch.utils.tensorboard's.

    `log_dir` is runs/<time>_<host><comment> if none is given. Values are tensors on any device,
    arrays or numbers. The files are flushed after `max_queue` events or `flush_secs` seconds, and
    by `flush` and `close`; with `purge_step`, TensorBoard hides what an earlier run wrote from that
    step on.
    https://docs.pytorch.org/docs/stable/tensorboard.html

    Args:
        comment: What the folder's name ends in.
        filename_suffix: What the files' names end in.
        tag, global_step: In methods the name that TensorBoard shows, and the step that a value is
            of.
        walltime: In methods when it was, in seconds since 1970; None is now.
        dataformats: In methods the order of an image's dims: "CHW", "HWC", "HW", or with "N".
    """

    def __init__(
        self, log_dir: Any = None, comment: str = "", purge_step: int | None = None,
        max_queue: int = 10, flush_secs: float = 120, filename_suffix: str = "",
    ) -> None:  # fmt: skip
        if not log_dir:
            now = datetime.now().strftime("%b%d_%H-%M-%S")
            log_dir = os.path.join("runs", f"{now}_{socket.gethostname()}{comment}")
        self.log_dir = os.fspath(log_dir)
        self.purge_step = purge_step
        self.max_queue = max_queue
        self.flush_secs = flush_secs
        self.filename_suffix = filename_suffix
        self.all_writers: dict[str, Any] = {}  # by their folders
        self._projector = ""  # what the embeddings' file says so far
        self._file_writer()

    def _file_writer(self, folder: str | None = None) -> Any:
        """The writer of a folder, the run's own if none is named; a closed one is made anew."""
        folder = folder or self.log_dir
        writer = self.all_writers.get(folder)
        if writer is None:
            writer = FileWriter(folder, self.max_queue, self.flush_secs, self.filename_suffix)
            self.all_writers[folder] = writer
            if self.purge_step is not None and folder == self.log_dir:
                start = event.SessionLog(status=event.SessionLog.START)
                writer.add_event(event.Event(file_version="brain.Event:2"), self.purge_step)
                writer.add_event(event.Event(session_log=start), self.purge_step)
                self.purge_step = None
        return writer

    @property
    def file_writer(self) -> Any:
        """The writer of the run's own folder."""
        return self._file_writer()

    def get_logdir(self) -> str:
        """The folder of the event files."""
        return self.log_dir

    def _add(self, found: Any, global_step: Any, walltime: float | None) -> None:
        self._file_writer().add_summary(found, global_step, walltime)

    # --- numbers

    def add_scalar(
        self, tag: str, scalar_value: Any, global_step: Any = None, walltime: float | None = None,
        new_style: bool = False, double_precision: bool = False,
    ) -> None:  # fmt: skip
        """One number. `new_style` writes it as a tensor, in float64 if `double_precision`.

        Args:
            scalar_value: The number.
        """
        value = _number(f"add_scalar({tag!r})", scalar_value)
        if not (new_style or double_precision):
            self._add(summary.scalar(tag, value), global_step, walltime)
            return
        data = np.float64(value) if double_precision else np.float32(value)
        self._add_tensor(tag, data, global_step, walltime, "scalars")

    def add_scalars(
        self, main_tag: str, tag_scalar_dict: Mapping[str, Any], global_step: Any = None,
        walltime: float | None = None,
    ) -> None:  # fmt: skip
        """Several numbers in one chart: each has a run of its own, in a folder below.

        Args:
            main_tag: The chart's name.
            tag_scalar_dict: The numbers by name.
        """
        walltime = time.time() if walltime is None else walltime
        for tag, value in tag_scalar_dict.items():
            folder = f"{self.log_dir}/{main_tag.replace('/', '_')}_{tag}"
            number = _number(f"add_scalars({main_tag!r}): {tag!r}", value)
            found = summary.scalar(main_tag, number)
            self._file_writer(folder).add_summary(found, global_step, walltime)

    def add_tensor(
        self, tag: str, tensor: Any, global_step: Any = None, walltime: float | None = None
    ) -> None:
        """A tensor's values, as they are.

        Args:
            tensor: The values.
        """
        self._add_tensor(tag, _array(tensor), global_step, walltime)

    def _add_tensor(
        self, tag: str, data: Any, global_step: Any, walltime: float | None, plugin: str = ""
    ) -> None:
        kind = {"f2": "HALF", "f4": "FLOAT", "f8": "DOUBLE", "i1": "INT8", "i2": "INT16",
                "i4": "INT32", "i8": "INT64", "u1": "UINT8", "b1": "BOOL"}.get(
            np.asarray(data).dtype.str[1:]
        )  # fmt: skip
        if kind is None:
            raise TypeError(f"add_tensor({tag!r}): TensorBoard has no {np.asarray(data).dtype}")
        value = proto.Summary.Value(
            tag=tag,
            tensor=tensor.TensorProto(
                dtype=f"DT_{kind}",
                tensor_shape=_shape(np.shape(data)),
                tensor_content=np.ascontiguousarray(data).tobytes(),
            ),
        )
        if plugin:
            value.metadata.plugin_data.plugin_name = plugin
        self._add(proto.Summary(value=[value]), global_step, walltime)

    def add_histogram(
        self, tag: str, values: Any, global_step: Any = None, bins: Any = "tensorflow",
        walltime: float | None = None, max_bins: int | None = None,
    ) -> None:  # fmt: skip
        """How values are distributed; `bins` are NumPy's (numpy.histogram), or TensorFlow's.

        Args:
            values: What is counted, of any shape.
            max_bins: How many bins NumPy's are joined to at most; None joins none.
        """
        ends = _default_bins() if isinstance(bins, str) and bins == "tensorflow" else bins
        data = _array(values)
        self._add(summary.histogram(tag, data, ends, max_bins), global_step, walltime)

    def add_histogram_raw(
        self, tag: str, min: Any, max: Any, num: int, sum: Any, sum_squares: Any,
        bucket_limits: Any, bucket_counts: Any, global_step: Any = None,
        walltime: float | None = None,
    ) -> None:  # fmt: skip
        """A histogram that is there already; ValueError unless each count has its bin's end.

        Args:
            min, max, num, sum, sum_squares: Of the values: bounds, how many, their sum, that of
                their squares.
            bucket_limits, bucket_counts: The ends of the bins, and how many values each has.
        """
        limits, counts = _array(bucket_limits).tolist(), _array(bucket_counts).tolist()
        if len(limits) != len(counts):
            raise ValueError(
                f"add_histogram_raw({tag!r}): expected as many bucket_counts as bucket_limits, got "
                f"{len(counts)} and {len(limits)}; the limits are the bins' right ends"
            )
        given = min, max, num, sum, sum_squares
        numbers = [_number(f"add_histogram_raw({tag!r})", v) for v in given]
        found = summary.histogram_raw(tag, *numbers, limits, counts)
        self._add(found, global_step, walltime)

    def add_pr_curve(
        self, tag: str, labels: Any, predictions: Any, global_step: Any = None,
        num_thresholds: int = 127, weights: Any = None, walltime: float | None = None,
    ) -> None:  # fmt: skip
        """Precision over recall of `predictions` from 0 to 1 for `labels` that are 0 or 1.

        Args:
            num_thresholds: How many points.
            weights: A weight for each; None for 1.
        """
        labels, predictions, weights = _arrays(labels, predictions, weights)
        found = summary.pr_curve(tag, labels, predictions, num_thresholds, weights)
        self._add(found, global_step, walltime)

    def add_pr_curve_raw(
        self, tag: str, true_positive_counts: Any, false_positive_counts: Any,
        true_negative_counts: Any, false_negative_counts: Any, precision: Any, recall: Any,
        global_step: Any = None, num_thresholds: int = 127, weights: Any = None,
        walltime: float | None = None,
    ) -> None:  # fmt: skip
        """A curve of precision over recall that is there already.

        Args:
            true_positive_counts, false_positive_counts: A number for each threshold.
            true_negative_counts, false_negative_counts, precision, recall: As these.
            num_thresholds, weights: As of `add_pr_curve`.
        """
        *curve, weights = _arrays(
            true_positive_counts, false_positive_counts, true_negative_counts,
            false_negative_counts, precision, recall, weights,
        )  # fmt: skip
        found = summary.pr_curve_raw(tag, *curve, num_thresholds, weights)
        self._add(found, global_step, walltime)

    # --- pictures, texts and others

    def add_image(
        self, tag: str, img_tensor: Any, global_step: Any = None, walltime: float | None = None,
        dataformats: str = "CHW",
    ) -> None:  # fmt: skip
        """An image of 1, 3 or 4 channels: floats from 0 to 1, or uint8. Needs Pillow.

        Args:
            img_tensor: The pixels.
        """
        _need("add_image", "PIL", "pillow")
        found = summary.image(tag, _pixels(img_tensor), dataformats=dataformats)
        self._add(found, global_step, walltime)

    def add_images(
        self, tag: str, img_tensor: Any, global_step: Any = None, walltime: float | None = None,
        dataformats: str = "NCHW",
    ) -> None:  # fmt: skip
        """Images side by side in one picture.

        Args:
            img_tensor: The pixels.
        """
        if isinstance(img_tensor, list) and "N" not in dataformats.upper():
            dataformats = f"N{dataformats}"
        self.add_image(tag, img_tensor, global_step, walltime, dataformats)

    def add_image_with_boxes(
        self, tag: str, img_tensor: Any, box_tensor: Any, global_step: Any = None,
        walltime: float | None = None, rescale: float = 1, dataformats: str = "CHW",
        labels: Sequence[str] | None = None,
    ) -> None:  # fmt: skip
        """An image with boxes (N, 4), each from (x, y) to (x, y) in pixels.

        Args:
            img_tensor, box_tensor: The pixels, and the boxes.
            rescale: A factor of the image's size.
            labels: A text for each box.
        """
        boxes = _array(box_tensor)
        names = None if labels is None else [labels] if isinstance(labels, str) else list(labels)
        if names is not None and len(names) != len(boxes):
            raise ValueError(
                f"add_image_with_boxes({tag!r}): got {len(names)} labels for {len(boxes)} boxes"
            )
        found = summary.image_boxes(tag, _pixels(img_tensor), boxes, rescale, dataformats, names)
        self._add(found, global_step, walltime)

    def add_figure(
        self, tag: str, figure: Any, global_step: Any = None, close: bool = True,
        walltime: float | None = None,
    ) -> None:  # fmt: skip
        """A matplotlib figure, or a list of them side by side; pyplot forgets it if `close`.

        Args:
            figure: It, or the list.
        """
        formats = "NCHW" if isinstance(figure, list) else "CHW"
        pixels = _utils.figure_to_image(figure, close)
        self.add_image(tag, pixels, global_step, walltime, formats)

    def add_video(
        self, tag: str, vid_tensor: Any, global_step: Any = None, fps: int = 4,
        walltime: float | None = None,
    ) -> None:  # fmt: skip
        """A film (N, T, C, H, W) of floats from 0 to 1, or uint8. Needs moviepy.

        Args:
            vid_tensor: The film.
            fps: Images in a second.
        """
        _need("add_video", "moviepy")
        self._add(summary.video(tag, _pixels(vid_tensor), fps), global_step, walltime)

    def add_audio(
        self, tag: str, snd_tensor: Any, global_step: Any = None, sample_rate: int = 44100,
        walltime: float | None = None,
    ) -> None:  # fmt: skip
        """Sound (samples,), or (samples, channels), from -1 to 1. Needs soundfile.

        Args:
            snd_tensor: The sound.
            sample_rate: Samples in a second.
        """
        _need("add_audio", "soundfile")
        found = summary.audio(tag, _array(snd_tensor), sample_rate)
        self._add(found, global_step, walltime)

    def add_text(
        self, tag: str, text_string: str, global_step: Any = None, walltime: float | None = None
    ) -> None:
        """A text, in Markdown.

        Args:
            text_string: The text.
        """
        self._add(summary.text(tag, text_string), global_step, walltime)

    def add_mesh(
        self, tag: str, vertices: Any, colors: Any = None, faces: Any = None,
        config_dict: Any = None, global_step: Any = None, walltime: float | None = None,
    ) -> None:  # fmt: skip
        """Points (N, points, 3) in space, with colors from 0 to 255 and triangles of them.

        Args:
            vertices: The points.
            colors: (N, points, 3).
            faces: (N, triangles, 3): indices of points.
            config_dict: How three.js is to show it.
        """
        found = summary.mesh(tag, *_arrays(vertices, colors, faces), config_dict)
        self._add(found, global_step, walltime)

    def add_embedding(
        self, mat: Any, metadata: Any = None, label_img: Any = None, global_step: Any = None,
        tag: str = "default", metadata_header: Sequence[str] | None = None,
    ) -> None:  # fmt: skip
        """Points (N, D) for the projector, with a label (or, by `metadata_header`, a row of them)
        and a square image (N, C, H, W) for each.

        Args:
            mat: The points.
            metadata: Their labels.
            label_img: Their images.
        """
        points = _array(mat)
        if points.ndim != 2:
            raise ValueError(f"add_embedding: expected points (N, D), got {list(points.shape)}")
        (pictures,) = _arrays(label_img)
        for name, given in (("metadata", metadata), ("label_img", pictures)):
            if given is not None and len(given) != len(points):
                raise ValueError(f"add_embedding: got {len(given)} {name} for {len(points)} points")
        step = 0 if global_step is None else int(_number("global_step", global_step))
        name = tag.replace("%", "%25").replace("/", "%2f").replace("\\", "%5c")
        folder = f"{step:05}/{name}"
        path = Path(self.log_dir, folder)
        path.mkdir(parents=True, exist_ok=True)
        lines = [f'tensor_name: "{tag}:{step:05}"', f'tensor_path: "{folder}/tensors.tsv"']
        embedding.make_mat(points, path)
        if metadata is not None:
            embedding.make_tsv(metadata, path, metadata_header)
            lines.append(f'metadata_path: "{folder}/metadata.tsv"')
        if pictures is not None:
            embedding.make_sprite(pictures, path)
            h, w = pictures.shape[2:]
            sizes = f"single_image_dim: {w} single_image_dim: {h}"
            lines.append(f'sprite {{ image_path: "{folder}/sprite.png" {sizes} }}')
        self._projector += "embeddings {\n  " + "\n  ".join(lines) + "\n}\n"
        Path(self.log_dir, "projector_config.pbtxt").write_text(self._projector, "utf-8")

    def add_custom_scalars(self, layout: Mapping[str, Any]) -> None:
        """Charts of several tags: {category: {chart: ["Multiline" or "Margin", tags]}}.

        Args:
            layout: That dict.
        """
        self._add(summary.custom_scalars(layout), None, None)

    def add_custom_scalars_multilinechart(
        self, tags: Sequence[str], category: str = "default", title: str = "untitled"
    ) -> None:
        """One chart with the lines of several tags.

        Args:
            tags: Those of the chart.
            category, title: Where it stands, and what it is called.
        """
        self.add_custom_scalars({category: {title: ["Multiline", tags]}})

    def add_custom_scalars_marginchart(
        self, tags: Sequence[str], category: str = "default", title: str = "untitled"
    ) -> None:
        """One chart of three tags: a line, and the ends of its margin.

        Args:
            tags: Those of the chart.
            category, title: Where it stands, and what it is called.
        """
        if len(tags) != 3:
            raise ValueError(
                f"add_custom_scalars_marginchart: expected 3 tags (value, lower and upper end), "
                f"got {len(tags)}"
            )
        self.add_custom_scalars({category: {title: ["Margin", tags]}})

    # --- a run

    def add_hparams(
        self, hparam_dict: dict[str, Any], metric_dict: dict[str, Any],
        hparam_domain_discrete: Mapping[str, Sequence[Any]] | None = None,
        run_name: str | None = None, global_step: Any = None,
    ) -> None:  # fmt: skip
        """What a run was made with and what it came to, for TensorBoard's table of runs: in a
        folder `run_name` below, the time if none is given. `hparam_domain_discrete` has for some
        of them all values that they may have.

        Args:
            hparam_dict, metric_dict: These by name: numbers, texts and bools; numbers.
        """
        if not isinstance(hparam_dict, dict) or not isinstance(metric_dict, dict):
            raise TypeError("add_hparams: hparam_dict and metric_dict should be dictionary.")
        given = {k: _hparam(k, v) for k, v in hparam_dict.items()}
        results = {k: _number(f"add_hparams: {k!r}", v) for k, v in metric_dict.items()}
        experiment, start, end = summary.hparams(given, results)
        if hparam_domain_discrete:
            _add_domains(experiment, given, hparam_domain_discrete)
        with SummaryWriter(os.path.join(self.log_dir, run_name or str(time.time()))) as writer:
            for found in (experiment, start, end):
                writer._add(found, global_step, None)
            for k, v in results.items():
                writer.add_scalar(k, v, global_step)

    def add_graph(
        self, model: Any, input_to_model: Any = None, verbose: bool = False,
        use_strict_trace: bool = True,
    ) -> None:  # fmt: skip
        """The layers of `model` and how an input, or a tuple of them, flows through them.

        The forward pass runs once, in evaluation mode. `verbose` prints the nodes;
        `use_strict_trace` is accepted, as any container may be returned.

        Args:
            input_to_model: The input.
        """
        if input_to_model is None:
            raise ValueError("add_graph: give an input: add_graph(model, x)")
        found = _graph(model, input_to_model)
        if verbose:
            print(found)
        self._file_writer().add_event(event.Event(graph_def=found.SerializeToString()))

    # --- the files

    def flush(self) -> None:
        """Write all that was added so far."""
        for writer in self.all_writers.values():
            writer.flush()

    def close(self) -> None:
        """Write all and close the files; what is added later goes to new ones."""
        for writer in self.all_writers.values():
            writer.close()
        self.all_writers.clear()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *exc: object) -> None:
        self.close()


def _need(what: str, module: str, package: str = "") -> None:
    """ImportError for a package that tensorboardX needs for one kind of thing only."""
    try:
        import_module(module)
    except ImportError as error:
        package = package or module
        raise ImportError(f"{what} needs {package}: pip install {package}") from error


def _pixels(x: Any) -> np.ndarray:
    """Floats in float32 and within 0 to 1, as a number beyond would come out as another colour."""
    found = _array(x)
    return found if found.dtype == np.uint8 else found.astype(np.float32).clip(0, 1)


def _shape(shape: Sequence[int]) -> Any:
    dims = [tensor_shape.TensorShapeProto.Dim(size=n) for n in shape]
    return tensor_shape.TensorShapeProto(dim=dims)


def _hparam(name: str, value: Any) -> Any:
    """A value that a table of runs can hold."""
    if value is None or isinstance(value, bool | str | int | float):
        return value
    if isinstance(value, np.bool_):
        return bool(value)
    if isinstance(value, pf.Tensor | np.number | np.ndarray):
        return _number(f"add_hparams: {name!r}", value)
    raise ValueError(
        f"add_hparams: {name!r} must be a bool, str, float, int or None, got "
        f"{type(value).__name__}; give str({name}) instead"
    )


def _add_domains(experiment: Any, given: Any, domains: Mapping[str, Sequence[Any]]) -> None:
    plugin = experiment.value[0].metadata.plugin_data
    data = plugin_hparams.HParamsPluginData.FromString(plugin.content)
    for name, values in domains.items():
        if name not in given:
            raise ValueError(
                f"add_hparams: hparam_domain_discrete has {name!r}; expected one of "
                f"{', '.join(map(repr, given))}"
            )
        info = next((i for i in data.experiment.hparam_infos if i.name == name), None)
        if info is not None:
            info.domain_discrete.extend(values)
    plugin.content = data.SerializeToString()


def _graph(model: Any, inputs: Any) -> Any:
    """A GraphDef of a model's layers: TensorBoard makes groups of what stands between slashes."""
    whole = trace(model, inputs)
    names: dict[Any, str] = {}
    nodes = []
    for box in whole.boxes():
        first = name = "/".join([whole.type, *box.path])
        times = 1
        while name in names.values():  # a module that is called again
            name = f"{first}_{times}"
            times += 1
        names[box] = name
        shapes = attr_value.AttrValue.ListValue(shape=[_shape(s) for s in box.shapes])
        attr = {"_output_shapes": attr_value.AttrValue(list=shapes)}
        if box.module is not None:
            attr["attr"] = attr_value.AttrValue(s=box.module.extra_repr().encode())
            attr["parameters"] = attr_value.AttrValue(i=box.parameters)
        sources = [names[s] for s in box.sources]
        nodes.append(node_def.NodeDef(name=name, op=box.type, input=sources, attr=attr))
    return graph.GraphDef(node=nodes, versions=versions.VersionDef(producer=22))
