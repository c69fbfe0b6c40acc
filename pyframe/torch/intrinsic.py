"""torch.nn.intrinsic: layers that belong together, as Sequentials of theirs."""

from __future__ import annotations

from typing import Any

from pyframe import nn


class _FusedModule(nn.Sequential):
    """Layers of given kinds, one after another."""

    kinds: tuple[type, ...] = ()

    def __init__(self, *layers: nn.Module) -> None:
        if tuple(map(type, layers)) != self.kinds:
            raise AssertionError(
                f"{type(self).__name__}: expected {', '.join(k.__name__ for k in self.kinds)}, got "
                f"{', '.join(type(m).__name__ for m in layers)}"
            )
        super().__init__(*layers)


def _fused(name: str, *kinds: str) -> Any:
    made = tuple(getattr(nn, kind) for kind in kinds)
    about = f"{', '.join(kinds[:-1])} and {kinds[-1]}."
    return type(name, (_FusedModule,), {"kinds": made, "__doc__": about, "__module__": __name__})


for _n in (1, 2, 3):
    _conv, _norm = f"Conv{_n}d", f"BatchNorm{_n}d"
    globals()[f"ConvBn{_n}d"] = _fused(f"ConvBn{_n}d", _conv, _norm)
    globals()[f"ConvReLU{_n}d"] = _fused(f"ConvReLU{_n}d", _conv, "ReLU")
    globals()[f"ConvBnReLU{_n}d"] = _fused(f"ConvBnReLU{_n}d", _conv, _norm, "ReLU")
    if _n > 1:
        globals()[f"BNReLU{_n}d"] = _fused(f"BNReLU{_n}d", _norm, "ReLU")
LinearReLU = _fused("LinearReLU", "Linear", "ReLU")
LinearBn1d = _fused("LinearBn1d", "Linear", "BatchNorm1d")
