"""`pyframe info`: versions, devices, their limits, and what to do where no GPU is found."""

from __future__ import annotations

import argparse
import importlib.metadata
import json
import os
import platform
import textwrap
from typing import Any

from pyframe.cli import drivers
from pyframe.cli.command import WIDTH, add_command, size_text, switch
from pyframe.core.words import plural

# What some functions need.
EXTRAS = ("llvmlite", "matplotlib", "pandas", "pillow", "scipy", "tensorboardX")
VARIABLES = (
    "PYFRAME_DEVICE", "PYFRAME_ADAPTER", "PYFRAME_CPU", "PYFRAME_THREADS", "PYFRAME_CACHE",
    "PYFRAME_DEBUG",
)  # fmt: skip


def add(commands: Any) -> None:
    """Declare the command."""
    add_command(
        commands, "info", run,
        help="what this computer computes on: versions, devices, limits",
        description="Show the versions, the CPU, each GPU with its limits, and which device 'auto' "
        "takes. Where there is no GPU it says what to do on this system.",
        examples={
            "pyframe info": "for people",
            "pyframe info --all": "with every feature that a GPU has",
            "pyframe info --json": "for programs, and for reports of bugs",
        },
        arguments={
            "--all": switch("name every feature (default: those that pyframe uses)"),
            "--json": switch("as JSON (default: for people)"),
        },
    )  # fmt: skip


def run(args: argparse.Namespace) -> int:
    """Print it."""
    found = facts()
    print(json.dumps(found, indent=2) if args.json else "\n".join(lines(found, args.all)))
    return 0


def facts() -> dict[str, Any]:
    """All that is told, as JSON has it."""
    import numpy as np

    import pyframe as pf
    from pyframe.codegen.numpy.threads import default_threads
    from pyframe.tools.bench.measure import blas, cpu_model

    gpus, problem = adapters()
    auto = pf.device("auto").type
    software = [gpu["name"] for gpu in gpus if gpu["type"] == "software"]
    if auto == "cpu" and software:
        why = f"{software[0]} is a software adapter, and the CPU is faster"
    elif auto == "cpu":
        why = f"no GPU was found{f' ({problem})' if problem else ''}"
    elif software:  # PYFRAME_ADAPTER asks for it
        why = f"there is a real GPU, and PYFRAME_ADAPTER puts {software[0]} in its place"
    else:
        why = f"{gpus[0]['name']} is the first real GPU"
    return {
        "pyframe": pf.__version__,
        "python": f"{platform.python_version()} ({platform.python_implementation()})",
        "system": f"{platform.system()} {platform.release()} {platform.machine()}",
        "numpy": np.__version__,
        "blas": blas(),
        "wgpu": version("wgpu"),
        "extras": {name: version(name) for name in EXTRAS},
        "cpu": {
            "name": cpu_model(),
            "threads": default_threads(),
            "computes": pf.device_name("cpu"),
        },
        "gpus": gpus,
        "default": str(pf.get_default_device()),
        "auto": auto,
        "why": why,
        "environment": {name: os.environ[name] for name in VARIABLES if name in os.environ},
        "advice": drivers.advice(drivers.look()) if auto == "cpu" else [],
    }


def version(package: str) -> str | None:
    """Of an installed package."""
    try:
        return importlib.metadata.version(package)
    except importlib.metadata.PackageNotFoundError:
        return None


def adapters() -> tuple[list[dict[str, Any]], str]:
    """The GPUs as 'gpu:0', 'gpu:1', …, or why they can't be had."""
    from pyframe import gpu
    from pyframe.core.devices import software_wanted
    from pyframe.runtime.opening import gpu_backend

    try:
        count = len(gpu_backend().adapters(software_wanted()))
        found = [gpu.get_device_properties(i) for i in range(count)]
    except (ImportError, RuntimeError) as error:
        return [], str(error)
    return [
        {
            "device": f"gpu:{i}", "name": p.name, "vendor": p.vendor, "type": p.type, "api": p.api,
            "driver": p.driver, "memory": p.total_memory, "float16": p.float16,
            "subgroups": p.subgroups, "timestamps": p.timestamps,
            "limits": {
                "buffer_bytes": p.limits.buffer_bytes, "binding_bytes": p.limits.binding_bytes,
                "storage_buffers": p.limits.storage_buffers,
                "workgroup_size": p.limits.workgroup_size,
                "workgroup_bytes": p.limits.workgroup_bytes,
            },
            "features": list(p.features),
        }
        for i, p in enumerate(found)
    ], ""  # fmt: skip


def lines(found: dict[str, Any], every: bool) -> list[str]:
    """The facts for people."""
    extras = [f"{name} {v or '(not installed)'}" for name, v in found["extras"].items()]
    out = [
        f"pyframe  {found['pyframe']}",
        f"Python   {found['python']} on {found['system']}",
        f"NumPy    {found['numpy']} with {found['blas']}",
        f"wgpu     {found['wgpu'] or '(not installed)'}",
        f"extras   {', '.join(extras)}",
    ]
    if found["environment"]:
        out.append(f"set      {', '.join(f'{k}={v}' for k, v in found['environment'].items())}")
    cpu = found["cpu"]
    out += ["", f"cpu      {cpu['name']}, {cpu['threads']} {plural(cpu['threads'], 'thread')}"]
    out.append(f"         {cpu['computes']}")
    for gpu in found["gpus"]:
        out += ["", *told(gpu, every)]
    out += [
        "",
        f"'auto', which Model.fit takes, is {found['auto']}: {found['why']}.",
        f"New tensors are made on {found['default']}; PYFRAME_DEVICE=auto changes it.",
    ]
    if found["advice"]:
        out += ["", "To compute on a GPU:"]
        for item in found["advice"]:
            out.append(textwrap.fill(item, WIDTH, initial_indent="  - ", subsequent_indent="    ",
                                     break_on_hyphens=False, break_long_words=False))  # fmt: skip
        out.append("Until then pyframe computes on the CPU, and in a browser on its WebGPU:")
        out.append("pyframe serve.")
    return out


def told(gpu: dict[str, Any], every: bool) -> list[str]:
    """The lines of a GPU."""
    has = gpu["limits"]
    kind = f"{gpu['type']}, {gpu['api']}, driver {gpu['driver'] or 'unknown'}"
    memory = f", {size_text(gpu['memory'])}" if gpu["memory"] else ""
    yes = {name: "yes" if gpu[name] else "no" for name in ("float16", "subgroups", "timestamps")}
    buffers = f"{size_text(has['binding_bytes'])} of one at a time, {has['storage_buffers']}"
    groups = f"{has['workgroup_size']} threads and {size_text(has['workgroup_bytes'])}"
    out = [
        f"{gpu['device']:<8} {gpu['name']} ({gpu['vendor']}{memory})",
        f"         {kind}",
        f"         {', '.join(f'{name}: {answer}' for name, answer in yes.items())}",
        f"         buffers of {size_text(has['buffer_bytes'])}, {buffers} in a kernel",
        f"         workgroups of {groups}",
    ]
    if every:
        out += textwrap.wrap(
            f"features: {', '.join(gpu['features'])}", WIDTH, initial_indent=" " * 9,
            subsequent_indent=" " * 11, break_on_hyphens=False,
        )  # fmt: skip
    return out
