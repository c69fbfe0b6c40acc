"""The memory of a GPU, which WebGPU does not tell: asked of Vulkan's loader through its C API."""

from __future__ import annotations

import ctypes
import sys
from ctypes import POINTER, Structure, byref, c_char_p, c_int, c_uint32, c_uint64, c_void_p
from typing import Any

DEVICE_LOCAL = 1
BUDGET = b"VK_EXT_memory_budget"


class _Application(Structure):
    _fields_ = (
        ("type", c_int), ("next", c_void_p), ("name", c_char_p), ("version", c_uint32),
        ("engine", c_char_p), ("engine_version", c_uint32), ("api", c_uint32),
    )  # fmt: skip


class _Instance(Structure):
    _fields_ = (
        ("type", c_int), ("next", c_void_p), ("flags", c_uint32),
        ("application", POINTER(_Application)), ("layers", c_uint32), ("layer_names", c_void_p),
        ("extensions", c_uint32), ("extension_names", c_void_p),
    )  # fmt: skip


class _Heap(Structure):
    _fields_ = (("size", c_uint64), ("flags", c_uint32))


class _Budget(Structure):
    _fields_ = (
        ("type", c_int), ("next", c_void_p), ("budget", c_uint64 * 16), ("usage", c_uint64 * 16),
    )  # fmt: skip


class _MemoryProperties2(Structure):
    """VkPhysicalDeviceMemoryProperties2."""

    _fields_ = (
        ("type", c_int), ("next", c_void_p), ("types", c_uint32), ("type_table", c_uint32 * 64),
        ("heaps", c_uint32), ("heap_table", _Heap * 16),
    )  # fmt: skip


def memory(ids: tuple[int, int], nth: int = 0) -> tuple[int, int | None] | None:
    """(bytes of its own, bytes of them that this process may still take) of the `nth` of the GPUs
    with these numbers of the vendor and the device; None for what can't be had."""
    name = "vulkan-1.dll" if sys.platform == "win32" else "libvulkan.so.1"
    try:
        vulkan: Any = ctypes.CDLL(name)
        vulkan.vkGetPhysicalDeviceMemoryProperties2  # noqa: B018  (Vulkan 1.0 has no such function)
    except (OSError, AttributeError):
        return None
    application = _Application(api=1 << 22 | 1 << 12)  # Vulkan 1.1
    info = _Instance(type=1, application=ctypes.pointer(application))
    instance = c_void_p()
    if vulkan.vkCreateInstance(byref(info), None, byref(instance)):
        return None
    try:
        found = [d for d in _all(vulkan.vkEnumeratePhysicalDevices, c_void_p, instance)
                 if d and _ids(vulkan, c_void_p(d)) == ids]  # fmt: skip
        return _memory(vulkan, c_void_p(found[nth])) if nth < len(found) else None
    finally:
        vulkan.vkDestroyInstance(instance, None)


def _all(enumerate_: Any, kind: Any, *of: Any) -> Any:
    """What one of Vulkan's functions lists, which is asked for the number first."""
    count = c_uint32()
    enumerate_(*of, byref(count), None)
    found = (kind * count.value)()
    enumerate_(*of, byref(count), found)
    return found


def _ids(vulkan: Any, device: c_void_p) -> tuple[int, int]:
    words = (c_uint32 * 512)()  # VkPhysicalDeviceProperties, and room for what is to come
    vulkan.vkGetPhysicalDeviceProperties(device, words)
    return words[2], words[3]


def _memory(vulkan: Any, device: c_void_p) -> tuple[int, int | None] | None:
    kind = ctypes.c_char * 260  # a name, and its version
    known = _all(vulkan.vkEnumerateDeviceExtensionProperties, kind, device, None)
    budget, out = _Budget(type=1000237000), _MemoryProperties2(type=1000059006)
    tells = any(ctypes.string_at(each) == BUDGET for each in known)
    if tells:
        out.next = ctypes.cast(byref(budget), c_void_p)
    vulkan.vkGetPhysicalDeviceMemoryProperties2(device, byref(out))
    own = [i for i in range(out.heaps) if out.heap_table[i].flags & DEVICE_LOCAL]
    if not own:
        return None
    i = max(own, key=lambda i: out.heap_table[i].size)  # others are windows into it
    left = max(0, budget.budget[i] - budget.usage[i]) if tells else None
    return out.heap_table[i].size, left
