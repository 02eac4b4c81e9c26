"""Compile a graph of Dynamo: AOTAutograd traces its passes, each of which becomes a program."""

from __future__ import annotations

import functools
from collections.abc import Callable, Sequence
from typing import Any

import torch
from torch._dynamo.backends.common import aot_autograd
from torch._functorch import config
from torch.fx import GraphModule

from weft import garbage
from weft.errors import ArgumentError
from weft.ops.core.native import build
from weft.ops.fuse.trace import decompositions
from weft.torch_backend.cuda_graphs import Capture
from weft.torch_backend.disk import entries, keys
from weft.torch_backend.left import left_to_torch, warn_once
from weft.torch_backend.partition import partition
from weft.torch_backend.report import REPORTS, GraphReport
from weft.torch_backend.rewrite import Rewritten, rewrite
from weft.torch_backend.sizes import program_of

OPTIONS = ("cuda_graph",)
GRAPHED = ("reduce-overhead", "max-autotune")
"""The modes that capture CUDA graphs."""
_AUTOCAST = "backward_pass_autocast"
"""PyTorch's setting for autocast while it traces a backward pass; older releases have none."""
MODES = ("default", *GRAPHED, "max-autotune-no-cudagraphs")


def compile_graph(
    module: GraphModule,
    inputs: Sequence[Any],
    mode: str | None = None,
    options: dict[str, Any] | None = None,
    **rest: Any,
) -> Callable[..., Any]:
    """Compile a graph of Dynamo; the backend "weft" of torch.compile."""
    _check(mode, options, rest)
    if any(isinstance(x, torch.Tensor) and x.is_cuda for x in inputs):
        build.started()  # the C++ code that runs programs, in the background
    captures = mode in GRAPHED or (options or {}).get("cuda_graph")
    with garbage.paused():  # a graph has many objects, of which few are dropped
        return _captured_graph(module, inputs) if captures else _graph(module, inputs)


def _graph(module: GraphModule, inputs: Sequence[Any]) -> Callable[..., Any]:
    """The function of a graph, from the disk if it was compiled before."""
    key = keys.key_of(module, inputs) if entries.is_possible() else ""
    places = keys.places_of(module) if key else ""
    found = entries.read(key, places) if key else None
    if found is not None:
        return found
    compiler = functools.partial(_compiled, rewrite(module))
    if not key:
        return by_passes(module, inputs, compiler)
    with entries.results_to_keep():
        made = by_passes(module, inputs, compiler, entries.serializable)
    entries.write(key, places, made)
    return made


def _captured_graph(module: GraphModule, inputs: Sequence[Any]) -> Callable[..., Any]:
    """The function of a graph whose passes become CUDA graphs."""
    return by_passes(module, inputs, functools.partial(_captured, rewrite(module), Capture()))


def by_passes(
    module: GraphModule,
    inputs: Sequence[Any],
    compiler: Callable[..., Any],
    form: Callable[[Any], Any] = lambda compiler: compiler,
) -> Callable[..., Any]:
    """Trace the passes of a graph, and give each to a compiler.

    compiler  (kind of the pass, its graph, its inputs) -> a function of the list of its inputs
    form      makes of a compiler what AOTAutograd is given
    """
    compilers = {
        f"{name}_compiler": form(functools.partial(compiler, kind))
        for name, kind in (("fw", "forward"), ("bw", "backward"), ("inference", "inference"))
    }
    # Gradients are those of a backward pass outside autocast, whose results PyTorch would convert
    # to float32 once more before it sums them.
    settings = {_AUTOCAST: "off"} if hasattr(config, _AUTOCAST) else {}
    with config.patch(settings):
        made: Callable[..., Any] = aot_autograd(
            **compilers,
            decompositions=decompositions(),
            partition_fn=partition,
            keep_inference_input_mutations=True,
        )(module, inputs)
    return made


def _check(mode: str | None, options: dict[str, Any] | None, rest: dict[str, Any]) -> None:
    unknown = [*rest, *(name for name in options or {} if name not in OPTIONS)]
    if unknown:
        raise ArgumentError(
            "torch.compile(backend='weft'): unknown options",
            got=", ".join(map(repr, unknown)),
            allowed=", ".join(map(repr, OPTIONS)),
        )
    if mode is not None and mode not in MODES:
        raise ArgumentError(
            f"torch.compile(backend='weft'): unknown mode {mode!r}",
            allowed=", ".join(map(repr, MODES)),
        )


def _compiled(
    rewritten: Rewritten, kind: str, module: GraphModule, inputs: Sequence[Any]
) -> entries.CompiledPass:
    """The program of one pass: it takes a list of inputs and returns a list of results."""
    report, warning = _reported(rewritten, kind, module)
    return entries.CompiledPass(program_of(module, report), report, warning)


def _captured(
    rewritten: Rewritten, capture: Capture, kind: str, module: GraphModule, inputs: Sequence[Any]
) -> Any:
    """The function of one pass that becomes a CUDA graph."""
    report, _ = _reported(rewritten, kind, module)
    run = capture.wrap(kind, module, inputs, functools.partial(program_of, module, report))
    run._boxed_call = True  # type: ignore[attr-defined]
    return run


def _reported(rewritten: Rewritten, kind: str, module: GraphModule) -> tuple[GraphReport, str]:
    """The report of a pass, and the warning that was given of it, or ""."""
    report = GraphReport(kind, left=rewritten.left, replaced=dict(rewritten.replaced))
    REPORTS.append(report)
    if kind == "backward":  # whose operations are those of the same layers
        return report, ""
    warning = left_to_torch(module.graph, rewritten.left, rewritten.places)
    if warning:
        warn_once(warning)
    return report, warning
