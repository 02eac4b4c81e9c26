"""CUDA graphs: records the operations of a capture and repeats them.

Each operation runs during the capture, because the following ones need its result. On a GPU a
capture runs nothing, so memory that existed before gets its contents back when the capture ends.
A replay runs the operations again, in order, on the same tensors.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

import torch
from torch.utils import _pytree
from torch.utils._python_dispatch import TorchDispatchMode, _disable_current_modes

from weft.frontends import launches

_READS = ("_local_scalar_dense", "is_pinned", "equal")
"""Operations whose result the host needs at once; a capture rejects them."""

_capturing: list[Capture] = []


def capture() -> Capture | None:
    """The capture in progress."""
    return _capturing[-1] if _capturing else None


class Capture(TorchDispatchMode):  # type: ignore[misc]
    """Records the operations inside of its context."""

    def __init__(self) -> None:
        super().__init__()
        self.steps: list[Callable[[], Any]] = []
        self._running = False
        self._own: dict[int, torch.UntypedStorage] = {}
        self._saved: dict[int, tuple[torch.UntypedStorage, torch.UntypedStorage]] = {}

    def __enter__(self) -> Capture:
        _capturing.append(self)
        launches.recorders.append(self.launched)
        super().__enter__()
        return self

    def __exit__(self, *error: Any) -> None:
        super().__exit__(*error)
        _capturing.remove(self)
        launches.recorders.remove(self.launched)
        for storage, contents in self._saved.values():
            storage.copy_(contents)

    def __torch_dispatch__(
        self,
        func: Any,
        types: Sequence[type],
        args: Sequence[Any] = (),
        kwargs: Mapping[str, Any] | None = None,
    ) -> Any:
        kwargs = kwargs or {}
        if func._opname in _READS:
            raise RuntimeError(
                f"CUDA error: operation not permitted when stream is capturing ({func}). "
                "The host reads a value that the graph computes only when it is replayed."
            )
        if func._schema.is_mutable:
            self.save(_tensors((args, kwargs)))
        self._running = True
        try:
            out = func(*args, **kwargs)
        finally:
            self._running = False
        fresh = _fresh(func, out)
        for tensor in fresh:
            storage = tensor.untyped_storage()
            self._own[storage.data_ptr()] = storage
        self.steps.append(lambda: _again(func, args, kwargs, fresh))
        return out

    def launched(self, name: str, launch: Callable[[], Any], arguments: Any) -> None:
        """Record a kernel, which may write each of its tensors."""
        if self._running:
            return  # the kernel belongs to an operation, which a replay runs again
        self.save(_tensors(arguments))
        self.steps.append(launch)

    def save(self, tensors: Sequence[torch.Tensor]) -> None:
        """Keep the contents of memory that existed before the capture."""
        for tensor in tensors:
            storage = tensor.untyped_storage()
            at = storage.data_ptr()
            if at not in self._own and at not in self._saved:
                with _disable_current_modes():  # the copy is no operation of the graph
                    self._saved[at] = (storage, storage.clone())


class CUDAGraph:
    """`torch.cuda.CUDAGraph`."""

    def __init__(self, keep_graph: bool = False) -> None:
        self._capture: Capture | None = None

    def capture_begin(self, *_: object, **__: object) -> None:
        self._capture = Capture()
        self._capture.__enter__()

    def capture_end(self, *error: Any) -> None:
        if self._capture is None:
            raise RuntimeError("capture_end() is called before capture_begin()")
        self._capture.__exit__(*(error or (None, None, None)))

    def instantiate(self) -> None:
        """Do nothing: the recorded steps are ready."""

    def replay(self) -> None:
        if self._capture is None:
            raise RuntimeError("Called CUDAGraph::replay without a preceding successful capture.")
        with torch.no_grad():
            for step in self._capture.steps:
                step()

    def reset(self) -> None:
        self._capture = None

    def pool(self) -> tuple[int, int]:
        return (0, 1)

    def enable_debug_mode(self) -> None:
        """Do nothing: `debug_dump` works without."""

    def debug_dump(self, debug_path: str) -> None:
        """Write the number of recorded operations."""
        steps = len(self._capture.steps) if self._capture else 0
        with open(debug_path, "w", encoding="utf-8") as file:
            file.write(f'digraph weft {{ label = "{steps} operations" }}\n')


class graph:
    """`with torch.cuda.graph(g):` captures what is inside."""

    def __init__(self, cuda_graph: CUDAGraph, *_: object, **__: object) -> None:
        self._graph = cuda_graph

    def __enter__(self) -> None:
        self._graph.capture_begin()

    def __exit__(self, *error: Any) -> None:
        self._graph.capture_end(*error)


def make_graphed_callables(callables: Any, *_: object, **__: object) -> Any:
    """The callables themselves: a graph saves the time of launches only."""
    return callables


def _tensors(values: Any) -> list[torch.Tensor]:
    return [v for v in _pytree.tree_leaves(values) if isinstance(v, torch.Tensor)]


def _fresh(func: Any, out: Any) -> list[torch.Tensor]:
    """The results that are not views of arguments or arguments themselves."""
    returns = func._schema.returns
    values = out if isinstance(out, (tuple, list)) and len(returns) > 1 else (out,)
    pairs = zip(returns, values, strict=False)
    return [t for kind, value in pairs if kind.alias_info is None for t in _tensors(value)]


def _again(func: Any, args: Any, kwargs: Any, results: Sequence[torch.Tensor]) -> None:
    """Run an operation and write its results where the captured ones are."""
    again = _fresh(func, func(*args, **kwargs))
    for old, new in zip(results, again, strict=True):
        old.copy_(new)
