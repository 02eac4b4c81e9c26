"""Entries of compiled graphs: the programs of its passes, and what AOTAutograd puts around them.

AOTAutograd has a form in which its results can be kept, for PyTorch's own cache. Entries have that
form, but lie in weft's cache, which authenticates them.
"""

from __future__ import annotations

import contextlib
import functools
import importlib.util
import pickle
import warnings
from collections.abc import Callable, Iterator
from typing import Any

import torch
from torch._functorch import config
from torch._functorch._aot_autograd.autograd_cache import BypassAOTAutogradCache
from torch._functorch.aot_autograd import SerializableAOTDispatchCompiler
from torch._inductor.output_code import OutputCode

from weft import cache
from weft.errors import CacheWarning
from weft.torch_backend.disk.programs import packed, unpacked
from weft.torch_backend.left import warn_once
from weft.torch_backend.program import GraphProgram
from weft.torch_backend.report import REPORTS, GraphReport

KIND = "graphs"
"""The folder of weft's cache."""
_ASKED = {
    "bundled_autograd_cache": True,  # results hold programs, not keys of inductor's cache
    "bypass_autograd_cache_key": True,  # weft has a key already
    "force_non_lazy_backward_lowering": True,  # the backward pass is part of the entry
}
"""Settings under which AOTAutograd makes results that can be kept."""


def is_possible() -> bool:
    """True if the user wants caches, and this PyTorch can keep results of other backends."""
    switched_off = torch.compiler.config.force_disable_caches or config.strict_autograd_cache
    return bool(_is_known() and config.enable_autograd_cache and not switched_off)


@functools.cache
def _is_known() -> bool:
    """True if AOTAutograd keeps results of any class: older releases take those of inductor."""
    home = "torch._functorch._aot_autograd.aot_autograd_result"
    known = importlib.util.find_spec(home) is not None
    result = importlib.import_module(home) if known else None
    return hasattr(result, "BundledOutputCodeLoadable") and all(hasattr(config, n) for n in _ASKED)


class CompiledPass(OutputCode):  # type: ignore[misc]
    """The program of a pass, as a result of AOTAutograd.

    run      takes the list of inputs, which it empties
    report   what became of the graph
    warning  of what PyTorch computes, which each process gives once
    """

    def __init__(
        self, run: Callable[[list[Any]], list[Any]], report: GraphReport, warning: str = ""
    ) -> None:
        super().__init__()
        self.run, self.report, self.warning = run, report, warning
        self._boxed_call = True  # of the instance: functools.wraps passes on no others

    def __call__(self, inputs: Any) -> Any:
        return self.run(inputs)

    def __copy__(self) -> CompiledPass:
        return self  # PyTorch copies a result before it asks for the next method

    def prepare_for_serialization(self) -> None:
        raise BypassAOTAutogradCache("weft keeps its graphs in its own cache")

    def post_compile(self, *given: Any) -> None:
        """Do nothing: the program was made when the entry was read."""

    def set_triton_bundle(self, triton_bundle: Any) -> None:
        """Do nothing: there are no kernels of Triton."""

    def __reduce__(self) -> tuple[Any, ...]:
        steps = packed(self.run) if isinstance(self.run, GraphProgram) else None
        if steps is None:
            raise pickle.PicklingError("a program that only this process can run")
        report = self.report
        return _restored, (report.kind, report.left, report.replaced, steps, self.warning)


def _restored(
    kind: str, left: dict[str, str], replaced: dict[str, int], steps: bytes, warning: str
) -> CompiledPass:
    program = unpacked(steps)
    return CompiledPass(program, GraphReport(kind, program.report, left, replaced), warning)


def read(key: str, places: str) -> Callable[..., Any] | None:
    """The function of a graph that was compiled before; None if there is none.

    places  a digest of the graph's layers and lines: a warning of others is not given again
    """
    data = cache.get(KIND, key)
    if data is None:
        return None
    try:
        known, entry = pickle.loads(data)
        run = _wrapped(entry)
    except Exception as error:
        # Nothing is known of what PyTorch's classes raise. The graph is compiled again instead.
        message = f"a compiled graph in {cache.directory()} cannot be used, and is made again"
        warnings.warn(CacheWarning(f"{message}: {error!r}"), stacklevel=2)
        return None
    passes = [p.result for p in (entry.compiled_fw, entry.compiled_bw) if p]
    if known != places and any(one.warning for one in passes):
        return None
    for one in passes:
        REPORTS.append(one.report)
        if one.warning:
            warn_once(one.warning)
    return run


def _wrapped(entry: Any) -> Callable[..., Any]:
    """Programs with what AOTAutograd has around them: mutations, views, gradients."""
    options = {"cudagraphs": None, "boxed_forward_device_index": None}
    run = entry.wrap_post_compile([], entry.sanitized_aot_config, options)

    def forward(*given: Any) -> Any:
        return run(list(given))

    function: Callable[..., Any] = torch._dynamo.disable(forward, reason="compiled by weft")
    return function


@contextlib.contextmanager
def results_to_keep() -> Iterator[None]:
    """Have AOTAutograd make results that `write` can keep."""
    with config.patch(_ASKED):
        yield


def serializable(compiler: Callable[..., CompiledPass]) -> Any:
    """A compiler in the form that AOTAutograd asks of one whose results can be kept."""
    return SerializableAOTDispatchCompiler(CompiledPass, compiler)


def write(key: str, places: str, made: Any) -> None:
    """Keep the function of a graph, if all its parts can be written."""
    serialize = getattr(made, "serialize", None)
    entry = serialize() if serialize is not None else None
    if entry is None or _is_guarded():
        return
    # Texts of graphs are only for logs.
    entry.aot_joint_graph_str = entry.aot_forward_graph_str = entry.aot_backward_graph_str = None
    try:
        data = pickle.dumps((places, entry), pickle.HIGHEST_PROTOCOL)
    except (pickle.PicklingError, TypeError, AttributeError):  # it has a part of this process
        return
    cache.put(KIND, key, data)


def _is_guarded() -> bool:
    """True if AOTAutograd has found conditions, which a second process would not know of."""
    context = torch._guards.TracingContext.try_get()
    return context is None or bool(context.guards_context.aotautograd_guards)
