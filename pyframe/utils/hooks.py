"""What takes hooks off again, as torch.utils.hooks."""

from __future__ import annotations

import itertools
import weakref
from collections import OrderedDict
from typing import Any

__all__ = ["RemovableHandle"]


class RemovableHandle:
    """What registering a hook returns: `remove()` takes it off again.

    The hook lies in `hooks_dict` under the handle's `id`, what is known of it in the dict or dicts
    `extra_dict`, of which none is kept alive. A copy of both belongs to the copied dicts.
    """

    _ids = itertools.count()

    def __init__(self, hooks_dict: OrderedDict[int, Any], *, extra_dict: Any = None) -> None:
        self.id = next(RemovableHandle._ids)
        extra = [extra_dict] if isinstance(extra_dict, dict) else extra_dict or ()
        self.hooks_dict_ref = weakref.ref(hooks_dict)
        self.extra_dict_ref = tuple(map(weakref.ref, extra))

    def remove(self) -> None:
        """Take the hook off; a second call does nothing."""
        for ref in (self.hooks_dict_ref, *self.extra_dict_ref):
            hooks = ref()
            if hooks is not None:
                hooks.pop(self.id, None)

    def __enter__(self) -> RemovableHandle:
        return self

    def __exit__(self, *exc: object) -> None:
        self.remove()

    def __getstate__(self) -> Any:
        return self.id, [ref() for ref in (self.hooks_dict_ref, *self.extra_dict_ref)]

    def __setstate__(self, state: Any) -> None:
        self.id, dicts = state
        self.hooks_dict_ref, *extra = [
            weakref.ref(OrderedDict() if d is None else d) for d in dicts
        ]
        self.extra_dict_ref = tuple(extra)
        later = next(RemovableHandle._ids)
        RemovableHandle._ids = itertools.count(max(later, self.id + 1))
