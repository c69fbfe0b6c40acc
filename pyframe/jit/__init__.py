"""torch.jit: functions and modules as graphs, which are saved, loaded and run without their source.

`trace` records one run, `script` translates a subset of Python; both give graphs of calls of the
public API (graph.py), which `save` writes as JSON with safetensors.
"""

from __future__ import annotations

from pyframe.jit.modules import (
    RecursiveScriptModule as RecursiveScriptModule,
    ScriptFunction as ScriptFunction,
    ScriptModule as ScriptModule,
    TopLevelTracedModule as TopLevelTracedModule,
    TracedModule as TracedModule,
    TracingCheckError as TracingCheckError,
    freeze as freeze,
    is_tracing as is_tracing,
    load as load,
    optimize_for_inference as optimize_for_inference,
    save as save,
    trace as trace,
    trace_module as trace_module,
)
from pyframe.jit.record import TracerWarning as TracerWarning
from pyframe.jit.script import (
    Future as Future,
    NotSupportedError as NotSupportedError,
    annotate as annotate,
    export as export,
    fork as fork,
    ignore as ignore,
    is_scripting as is_scripting,
    script as script,
    script_if_tracing as script_if_tracing,
    unused as unused,
    wait as wait,
)
from pyframe.ops.api.layouts import texts as _texts

if _texts:
    _texts.complete_docstrings(globals())
