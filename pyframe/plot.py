"""Plots of what training gives, with matplotlib: `pip install "pyframe-webgpu[plot]"`.

Each function returns a matplotlib Figure, which a notebook shows and `savefig` writes. None needs
pyplot, shows a window or keeps a figure; `ax` is where to draw instead, on a figure of one's own.
"""

from __future__ import annotations

import importlib
import math
from collections.abc import Mapping, Sequence
from io import BytesIO
from typing import Any

import numpy as np

import pyframe as pf
from pyframe import nn
from pyframe.core.extras import install
from pyframe.nn.modules.module import Evaluation
from pyframe.tools.flow import net_of, placed

try:
    from matplotlib import figure as _figure
    from matplotlib.colors import to_rgb
    from matplotlib.ticker import MaxNLocator, PercentFormatter
except ImportError as error:
    raise ImportError(f"pyframe.plot needs matplotlib: {install('plot')}") from error

__all__ = [
    "Figure", "confusion_matrix", "embedding", "feature_maps", "filters", "history", "images",
    "lr_find",
]  # fmt: skip

# Okabe and Ito's, which people of all kinds of colour vision tell apart
# (https://jfly.uni-koeln.de/color/), and black.
COLORS = ("#0072B2", "#D55E00", "#009E73", "#CC79A7", "#E69F00", "#56B4E9", "#8C6D1F", "#000000")
INK, FAINT = "#333333", "#D8DCE2"
INCHES = 4.2  # the width of a panel
PIXELS = 100  # an inch has in a notebook


class Figure(_figure.Figure):
    """A figure that a notebook shows, whatever matplotlib's backend is."""

    def _repr_png_(self) -> tuple[bytes, dict[str, int]]:
        file = BytesIO()
        self.savefig(file, format="png", dpi=2 * PIXELS)
        width, height = (round(PIXELS * n) for n in self.get_size_inches())
        return file.getvalue(), {"width": width, "height": height}


def _new(width: float, height: float) -> Figure:
    figure = Figure(figsize=(width, height), layout="constrained")
    figure.get_layout_engine().set(w_pad=0.08, h_pad=0.06)
    return figure


def _axes(ax: Any, width: float = INCHES + 0.8, height: float = 3.4) -> Any:
    """`ax`, or that of a new figure."""
    return _new(width, height).subplots() if ax is None else ax


def _array(what: str, x: Any) -> np.ndarray:
    """The numbers of a tensor on any device, of an array or of a list."""
    if isinstance(x, pf.Tensor):
        x = x.detach()
        return (x.float() if x.dtype is pf.bfloat16 else x).numpy(force=True)
    if isinstance(x, list | tuple) and any(isinstance(v, pf.Tensor) for v in x):
        x = [_array(what, v) for v in x]
    try:
        found = np.asarray(x)
        if found.dtype.kind not in "biuf":
            raise TypeError
    except (TypeError, ValueError):
        raise TypeError(f"plot.{what}: expected numbers, got {type(x).__name__}") from None
    return found


def _plain(ax: Any) -> None:
    """No frame, and a light grid behind what is drawn."""
    ax.spines[["top", "right"]].set_visible(False)
    ax.spines[["left", "bottom"]].set_color(FAINT)
    ax.tick_params(color=FAINT, labelcolor=INK, labelsize=9)
    ax.grid(color=FAINT, linewidth=0.6, alpha=0.7)
    ax.set_axisbelow(True)


def _title(ax: Any, text: str) -> None:
    ax.set_title(text, loc="left", fontsize=11, color=INK)


# --- training


def history(history: Any, ax: Any = None) -> Any:
    """The quantities of a History (or of a Model, or a dict of lists) over the epochs.

    Training and validation of one quantity share a panel; the least validation loss is marked. A
    learning rate that never changes is left out.
    With `ax`, one Axes or several, the quantities are drawn there, all that are left in the last.
    ValueError if there is nothing to draw.

    Args:
        history: What is drawn.
    """
    epochs = None
    while not isinstance(history, Mapping) and hasattr(history, "history"):
        epochs = getattr(history, "epoch", None)
        history = history.history
    if not hasattr(history, "items"):
        raise TypeError(
            "plot.history: expected a History or a dict of lists, got "
            f"{type(history).__name__}; model.fit returns a History"
        )
    table = {k: _array("history", v) for k, v in history.items() if k != "epoch"}
    table = {k: v for k, v in table.items() if v.ndim == 1 and len(v)}
    if not table:
        raise ValueError("plot.history: the history is empty; plot it after model.fit")
    most = max(map(len, table.values()))
    numbered = isinstance(epochs, Sequence) and len(epochs) == most
    x = np.array(epochs if numbered else range(1, most + 1))
    panels: dict[str, list[str]] = {}
    for name in table:
        panels.setdefault(name.removeprefix("val_"), []).append(name)
    for name in [n for n in panels if n.startswith("lr") and np.ptp(table[n]) == 0]:
        if len(panels) > 1:  # a rate that stays the same says nothing
            del panels[name]
    names = sorted(panels, key=lambda n: (n.startswith("lr"), n != "loss"))  # else in their order
    if ax is None:
        columns = min(len(names), 3)
        rows = -(-len(names) // columns)
        figure = _new(INCHES * columns + 0.3, 3.1 * rows)
        axes = list(figure.subplots(rows, columns, squeeze=False).flat)
        for empty in axes[len(names) :]:
            empty.set_axis_off()
    else:
        axes = list(np.asarray(ax, dtype=object).flat)
    for i, name in enumerate(names):
        shown = axes[min(i, len(axes) - 1)]
        _quantity(shown, x, name, {n: table[n] for n in panels[name]})
    return axes[0].figure


def _quantity(ax: Any, x: np.ndarray, name: str, lines: dict[str, np.ndarray]) -> None:
    """The panel of one quantity; it may have others' lines already."""
    alone = not ax.lines
    for n, values in lines.items():
        validation = n.startswith("val_")
        label = ("validation" if validation else "training") if alone else n
        color = COLORS[len(ax.lines) % len(COLORS)] if not alone else COLORS[int(validation)]
        at = x[-len(values) :]  # what came later has the last epochs
        known = np.isfinite(values)  # an epoch may be without validation
        at, values = at[known], values[known]
        ax.plot(
            at, values, color=color, label=label, linewidth=1.8, clip_on=False, zorder=3,
            marker="o" if len(at) <= 25 else None, markersize=3.5,
        )  # fmt: skip
        if n == "val_loss" and len(values) > 1:
            best = int(values.argmin())
            ax.plot(at[best], values[best], "o", color=color, markersize=8, markerfacecolor="none",
                    zorder=4, label=f"least: {values[best]:.4g} in epoch {at[best]}")  # fmt: skip
    _plain(ax)
    ax.xaxis.set_major_locator(MaxNLocator(integer=True))
    ax.set_xlabel("epoch", color=INK)
    title = {"lr": "learning rate"}.get(name, name.replace("_", " "))
    if alone:
        _title(ax, title)
        numbers = np.concatenate(list(lines.values()))
        if name.startswith("lr") and (numbers > 0).all() and numbers.max() > 10 * numbers.min():
            ax.set_yscale("log")
    if len(ax.lines) > 1 or not alone:
        ax.legend(frameon=False, fontsize=9, labelcolor=INK)


def lr_find(rates: Any, losses: Any, suggestion: float | None = None, ax: Any = None) -> Any:
    """The loss at each learning rate that was tried, and which of them is suggested.

    Args:
        rates: The learning rates.
        losses: The loss at each.
        suggestion: The one to mark.
        ax: The Axes to draw in; new ones if None.
    """
    x, y = _array("lr_find", rates).astype(float), _array("lr_find", losses).astype(float)
    if x.shape != y.shape or x.ndim != 1:
        raise ValueError(
            f"plot.lr_find: expected as many losses as rates, got {list(x.shape)} and "
            f"{list(y.shape)}"
        )
    kept = np.isfinite(y) & (x > 0)
    x, y = x[kept], y[kept]
    if not len(x):
        raise ValueError("plot.lr_find: expected positive rates with finite losses, got none")
    ax = _axes(ax)
    ax.plot(x, y, color=COLORS[0], linewidth=1.8)
    ax.set_xscale("log")
    _plain(ax)
    least, first = y.min(), y[: max(len(y) // 10, 1)].max()
    if first > least:  # what it rises to when it diverges would flatten all before
        room = first - least
        ax.set_ylim(least - 0.15 * room, min(first + 0.6 * room, y.max() + 0.05 * room))
    if suggestion is not None:
        value = np.interp(math.log(suggestion), np.log(x), y)
        ax.axvline(suggestion, color=COLORS[1], linewidth=1, linestyle="--")
        ax.plot(suggestion, value, "o", color=COLORS[1], markersize=7)
        right = math.log(suggestion) > np.log(x).mean()  # the loss is high before it and low after
        ax.annotate(
            f"suggested: {suggestion:.2g}", (suggestion, 0.06 if right else 0.94),
            (-8 if right else 8, 0), xycoords=("data", "axes fraction"),
            textcoords="offset points", color=COLORS[1], ha="right" if right else "left",
            va="bottom" if right else "top",
        )  # fmt: skip
    ax.set_xlabel("learning rate", color=INK)
    ax.set_ylabel("loss", color=INK)
    _title(ax, "learning-rate finder")
    return ax.figure


def confusion_matrix(m: Any, labels: Sequence[Any] | None = None, ax: Any = None) -> Any:
    """Counts (C, C) of the true classes, in rows, and of the predicted ones, in columns: each with
    its share of the row. `m` may be the metric itself.

    Args:
        labels: The names of the classes.
        ax: The Axes to draw in; new ones if None.
    """
    counts = _array("confusion_matrix", m.compute() if hasattr(m, "compute") else m)
    n = len(counts) if counts.ndim else 0
    if counts.shape != (n, n) or not n:
        raise ValueError(
            f"plot.confusion_matrix: expected counts (C, C), got shape {list(counts.shape)}"
        )
    names = [str(i) for i in (range(n) if labels is None else labels)]
    if len(names) != n:
        raise ValueError(f"plot.confusion_matrix: got {len(names)} labels for {n} classes")
    rows = counts.sum(1, keepdims=True)
    shares = np.divide(counts, rows, out=np.zeros(counts.shape), where=rows != 0)
    size = min(max(0.62 * n, 2.6), 11)
    ax = _axes(ax, size + 1.5, size + 0.9)
    shown = ax.imshow(shares, cmap="Blues", vmin=0, vmax=1)
    whole = bool((counts == counts.round()).all())
    small = 9 if n <= 12 else 7
    for i in range(n if n <= 24 else 0):  # more of them can't be read
        for j in range(n):
            if not counts[i, j]:
                continue
            text = f"{counts[i, j]:,.0f}" if whole else f"{counts[i, j]:.2g}"
            if whole and n <= 12:
                text += f"\n{_percent(shares[i, j])}"
            bright = _luminance(shown.cmap(shares[i, j])) > 0.4
            ax.text(j, i, text, ha="center", va="center", fontsize=small, linespacing=1.3,
                    color=INK if bright else "white")  # fmt: skip
    turned = max(map(len, names)) > 6
    ax.set_xticks(range(n), names, rotation=45 if turned else 0, ha="right" if turned else "center",
                  rotation_mode="anchor")  # fmt: skip
    ax.set_yticks(range(n), names)
    ax.tick_params(length=0, labelcolor=INK, labelsize=9 if n <= 24 else 6)
    ax.spines[:].set_visible(False)
    ax.set_xlabel("predicted class", color=INK)
    ax.set_ylabel("true class", color=INK)
    if counts.sum() and whole:
        right = np.trace(counts) / counts.sum()
        _title(ax, f"{_percent(right)} of {counts.sum():,.0f} are right")
    bar = ax.figure.colorbar(shown, ax=ax, fraction=0.046, pad=0.03)
    bar.ax.yaxis.set_major_formatter(PercentFormatter(1))
    bar.ax.tick_params(length=0, labelcolor=INK, labelsize=8)
    bar.outline.set_visible(False)
    bar.set_label("share of the true class", color=INK, fontsize=9)
    return ax.figure


def _percent(share: float) -> str:
    percent = 100 * share
    return f"{percent:.0f} %" if percent >= 99.95 or percent == 0 else f"{percent:.1f} %"


def _luminance(color: Any) -> float:
    """How bright a colour is, from 0 to 1 (https://www.w3.org/TR/WCAG21/#dfn-relative-luminance)"""
    parts = [c / 12.92 if c <= 0.04045 else ((c + 0.055) / 1.055) ** 2.4 for c in to_rgb(color)]
    return float(np.dot(parts, (0.2126, 0.7152, 0.0722)))


# --- pictures


def _grid(
    pictures: Sequence[np.ndarray], titles: Sequence[str] | None, columns: int | None = None,
    each: float = 1.0, title: str = "", figure: Any = None, **how: Any,
) -> Any:  # fmt: skip
    """Pictures (H, W) or (H, W, 3) side by side, in rows."""
    n = len(pictures)
    if columns is None:  # about a square, with the fewest empty cells
        some = range(math.ceil(math.sqrt(n)), math.ceil(1.5 * math.sqrt(n)) + 1)
        columns = min(some, key=lambda c: -n % c)
    rows = -(-n // columns)
    h, w = pictures[0].shape[:2]
    wide = each * min(max(w / h, 0.3), 4)
    room = 0.24 if titles else 0.0
    if figure is None:
        size = max(columns * wide, 2.4) + 0.1, rows * (each + room) + 0.1 + (0.3 if title else 0)
        figure = _new(*size)
        figure.get_layout_engine().set(w_pad=0.03, h_pad=0.03, wspace=0.02, hspace=0.02)
    axes = figure.subplots(rows, columns, squeeze=False)
    for i, ax in enumerate(axes.flat):
        ax.set_axis_off()
        if i < n:
            ax.imshow(pictures[i], interpolation="nearest", **how)
            if titles:
                ax.set_title(titles[i], fontsize=9, pad=3, color=INK)
    if title:
        figure.suptitle(title, fontsize=11, color=INK, x=0.02, ha="left")
    return figure


def images(
    x: Any, labels: Sequence[Any] | None = None, *, columns: int | None = None, most: int = 64,
    figure: Any = None,
) -> Any:  # fmt: skip
    """Images (N, C, H, W), (N, H, W) or (N, H, W, C), or a list of them, with `labels` as titles;
    the first `most` of them. Values beyond 0 to 1 (uint8: to 255) are scaled to it, all alike.

    Args:
        x: The images.
        columns: How many stand side by side.
        figure: The figure to draw in; a new one if None.
    """
    if isinstance(x, list | tuple):
        x = [_array("images", i) for i in x]
    whole = _array("images", x)
    if whole.ndim == 2 or (whole.ndim == 3 and len(whole) in (1, 3) and labels is None):
        whole = whole[None]  # one image
    if whole.ndim == 3:
        whole = whole[:, None]
    if whole.ndim == 4 and whole.shape[1] not in (1, 3, 4) and whole.shape[3] in (1, 3, 4):
        whole = whole.transpose(0, 3, 1, 2)
    if whole.ndim != 4 or whole.shape[1] not in (1, 3, 4) or not len(whole):
        raise ValueError(
            "plot.images: expected images (N, C, H, W) of 1, 3 or 4 channels, (N, H, W) or "
            f"(N, H, W, C), got shape {list(whole.shape)}"
        )
    total = len(whole)
    texts = None if labels is None else [_text(v) for v in labels]
    if texts is not None and len(texts) != total:
        raise ValueError(f"plot.images: got {len(texts)} labels for {total} images")
    shown = whole[:most]
    if shown.dtype == np.uint8:
        shown = shown / 255
    else:
        shown = shown.astype(np.float32)
        low, high = np.nanmin(shown), np.nanmax(shown)
        if low < 0 or high > 1:
            shown = (shown - low) / max(high - low, 1e-12)
    pictures = [i[0] if len(i) == 1 else i.transpose(1, 2, 0) for i in shown]
    title = f"{most} of {total:,} images" if total > most else ""
    return _grid(pictures, texts and texts[:most], columns, title=title, figure=figure,
                 cmap="gray", vmin=0, vmax=1)  # fmt: skip


def _text(label: Any) -> str:
    if isinstance(label, pf.Tensor | np.generic | np.ndarray):
        label = label.item()
    return f"{label:.3g}" if isinstance(label, float) else str(label)


def filters(layer: Any, *, most: int = 64, figure: Any = None) -> Any:
    """The filters of a layer (or of a weight), the first `most`, each in its own range.

    Those of three channels are in colour, others have a picture a channel; red is positive, blue
    negative. Of a Linear layer each row is one, a square if it can be.

    Args:
        layer: The layer, or its weight.
        figure: The figure to draw in; a new one if None.
    """
    weight = getattr(layer, "weight", layer)
    if not isinstance(weight, pf.Tensor | np.ndarray) or weight.ndim < 2:
        raise TypeError(
            "plot.filters: expected a layer with a weight of two dims or more, such as Conv2d, "
            f"got {type(layer).__name__}"
        )
    w = _array("filters", weight).astype(np.float32)
    name = type(layer).__name__ if isinstance(layer, nn.Module) else "weight"
    if getattr(layer, "transposed", False):
        w = w.swapaxes(0, 1)  # (in, out, *)
    if w.ndim == 2:
        side = math.isqrt(w.shape[1])
        w = w.reshape(len(w), 1, side, side) if side * side == w.shape[1] > 1 else w[None, None]
    elif w.ndim == 3:
        w = w[:, None]  # its channels are rows of the picture
    elif w.ndim == 5:
        w = w[:, :, w.shape[2] // 2]  # the middle slice
    n, channels = w.shape[:2]
    title = f"{name}: {n} filter{'s' if n > 1 else ''} of {list(w.shape[1:])}"
    if channels == 3:
        low, high = (f(w, axis=(1, 2, 3), keepdims=True) for f in (np.min, np.max))
        coloured = ((w - low) / np.maximum(high - low, 1e-12)).transpose(0, 2, 3, 1)
        return _grid(list(coloured[:most]), None, title=title, figure=figure)
    w = w / np.maximum(np.abs(w).max((1, 2, 3), keepdims=True), 1e-12)
    columns = None
    if channels > 1:
        columns = min(channels, 16)
        w = w[: max(most // columns, 1), :columns].reshape(-1, 1, *w.shape[2:])
        title += f"; {columns} channels in a row"
    return _grid(
        [f[0] for f in w[:most]], None, columns, title=title, figure=figure,
        each=0.6 if channels > 1 else 1.0, cmap="RdBu_r", vmin=-1, vmax=1,
    )  # fmt: skip


def feature_maps(net: Any, x: Any, layer: Any, *, most: int = 64, figure: Any = None) -> Any:
    """What `layer`, a module of `net` or its name, gives for the first sample of `x`, a batch of
    inputs: a picture a channel, each in its own range. The net is in evaluation mode meanwhile.

    Args:
        most: How many channels to show.
        figure: The figure to draw in; a new one if None.
    """
    net = net_of("plot.feature_maps", net)
    named = dict(net.named_modules())
    if isinstance(layer, str) and layer not in named:
        raise ValueError(
            f"plot.feature_maps: there is no layer {layer!r}; expected one of "
            f"{', '.join(n for n in named if n)}"
        )
    module = named[layer] if isinstance(layer, str) else layer
    name = next((n for n, m in named.items() if m is module), None)
    if name is None:
        raise ValueError("plot.feature_maps: the layer is no module of the net")
    found: list[Any] = []
    handle = module.register_forward_hook(lambda module, args, out: found.append(out))
    try:
        x = x if isinstance(x, pf.Tensor) else pf.as_tensor(x)
        Evaluation(net)(net, placed(net, x))
    finally:
        handle.remove()
    if not found:
        raise ValueError(f"plot.feature_maps: the net did not call the layer {name!r}")
    out = found[0][0] if isinstance(found[0], tuple | list) else found[0]
    maps = _array("feature_maps", out[:1])[0].astype(np.float32)
    if maps.ndim > 3:
        maps = maps.reshape(len(maps), -1, maps.shape[-1])
    if maps.ndim < 3:
        maps = np.atleast_2d(maps)[None]  # (features,), or (steps, features), as one picture
    n = len(maps)
    low, high = (f(maps, axis=(1, 2), keepdims=True) for f in (np.min, np.max))
    scaled = (maps - low) / np.maximum(high - low, 1e-12)
    of = f"{min(n, most)} of {n}" if n > most else str(n)
    title = f"{name or 'net'} ({type(module).__name__}): {of} map{'s' if n > 1 else ''} of "
    title += "×".join(map(str, maps.shape[1:]))
    titles = [str(i) for i in range(min(n, most))] if n > 1 else None
    return _grid(list(scaled[:most]), titles, title=title, figure=figure, cmap="viridis",
                 each=1.0 if n > 1 else 2.0, vmin=0, vmax=1)  # fmt: skip


# --- points


def embedding(points: Any, labels: Any = None, *, method: str = "pca", ax: Any = None) -> Any:
    """Points (N, D) in the plane, coloured by `labels` (N,): names or numbers of classes, or
    values. `method` "pca" takes the two directions of most variance, "tsne" is scikit-learn's.

    Args:
        points: The points.
        ax: The Axes to draw in; new ones if None.
    """
    x = _array("embedding", points).astype(np.float64)
    if x.ndim != 2 or len(x) < 2 or x.shape[1] < 2:
        raise ValueError(
            f"plot.embedding: expected points (N, D) for D > 1, got shape {list(x.shape)}"
        )
    names = ["first dim", "second dim"]
    if method == "tsne":
        x, names = _tsne(x), ["t-SNE, first dim", "t-SNE, second dim"]
    elif method != "pca":
        raise ValueError(f"plot.embedding: method must be 'pca' or 'tsne', got {method!r}")
    elif x.shape[1] > 2:
        x, shares = _principal(x)
        names = [f"{n} principal component ({_percent(s)} of the variance)"
                 for n, s in zip(("first", "second"), shares, strict=True)]  # fmt: skip
    ax = _axes(ax, INCHES + 1.6, INCHES)
    dot = {"s": float(np.clip(4000 / len(x), 4, 26)), "linewidths": 0, "alpha": 0.8}
    if labels is None:
        ax.scatter(*x.T, color=COLORS[0], **dot)
    else:
        _coloured(ax, x, labels, dot)
    _plain(ax)
    ax.set_xlabel(names[0], color=INK)
    ax.set_ylabel(names[1], color=INK)
    return ax.figure


def _coloured(ax: Any, x: np.ndarray, labels: Any, dot: dict[str, Any]) -> None:
    y = labels.numpy(force=True) if isinstance(labels, pf.Tensor) else np.asarray(labels)
    if y.shape != (len(x),):
        raise ValueError(
            f"plot.embedding: expected {len(x)} labels, one for each point, got shape "
            f"{list(y.shape)}"
        )
    kinds = list(dict.fromkeys(np.sort(y).tolist()))
    if y.dtype.kind == "f" and any(k != int(k) for k in kinds if math.isfinite(k)):
        shown = ax.scatter(*x.T, c=y, cmap="viridis", **dot)
        ax.figure.colorbar(shown, ax=ax).outline.set_visible(False)
        return
    # more classes than colours: the same ones again, as other shapes
    for i, k in enumerate(kinds):
        ax.scatter(
            *x[y == k].T, color=COLORS[i % len(COLORS)], label=_text(k),
            marker="o^sDvP*X"[i // len(COLORS) % 8], **dot,
        )  # fmt: skip
    legend = ax.legend(
        loc="upper left", bbox_to_anchor=(1, 1), frameon=False, fontsize=9, labelcolor=INK,
        ncols=-(-len(kinds) // 20), handletextpad=0.2,
    )  # fmt: skip
    for handle in legend.legend_handles:
        handle.set_sizes([28])
        handle.set_alpha(1)


def _principal(x: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """(N, 2) along the two directions of most variance, and their shares of it."""
    centred = pf.from_numpy(x - x.mean(0))
    u, s, vh = pf.linalg.svd(centred, full_matrices=False)
    v = vh.numpy()[:2]
    signs = np.sign(v[np.arange(len(v)), np.abs(v).argmax(1)])  # a direction has two; take one
    variances = s.numpy() ** 2
    shares = variances[:2] / max(variances.sum(), 1e-300)
    return (u.numpy()[:, :2] * s.numpy()[:2] * signs), shares


def _tsne(x: np.ndarray) -> np.ndarray:
    try:
        manifold = importlib.import_module("sklearn.manifold")
    except ImportError as error:
        raise ImportError(
            "plot.embedding: method='tsne' needs scikit-learn: pip install scikit-learn; "
            "method='pca' needs nothing"
        ) from error
    near = min(30.0, (len(x) - 1) / 3)
    found: np.ndarray = manifold.TSNE(2, perplexity=near, init="pca", random_state=0).fit_transform(
        x
    )
    return found
