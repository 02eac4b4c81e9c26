"""`weft.fuse`: what the user holds."""

from __future__ import annotations

import functools
from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

import torch

from weft.device.gpu.guard import Guard, guard, never
from weft.errors import ArgumentError, Error
from weft.ops.core.eager import PLAIN, differentiable, plain
from weft.ops.core.runner import Run
from weft.ops.fuse.arguments import Arguments, arguments_of
from weft.ops.fuse.compiled import in_graph, registered
from weft.ops.fuse.masks import Starts, drawn
from weft.ops.fuse.program import FusedProgram
from weft.ops.fuse.trace import gradient_of, graph_of

REMEMBERED = 1024
"""Programs that a function keeps; when exceeded, all are dropped."""


class _Quick(NamedTuple):
    """The last call on a GPU, which the next one repeats if its tensors pass the guard."""

    guard: Guard
    run: Run = never
    program: FusedProgram | None = None
    alive: Sequence[object] = ()


class _QuickGradient(NamedTuple):
    """The last backward pass on a GPU; `needs`: the inputs whose gradients it computed."""

    needs: tuple[bool, ...] = ()
    quick: _Quick = _Quick(never)


class Fused:
    """A function of tensors that runs as few kernels. Made by `weft.fuse`.

    A call traces the function for new shapes, strides, dtypes and other arguments, and writes one
    kernel for each part that can be one. Later calls with equal ones only launch.
    """

    def __init__(self, function: Callable[..., Any]) -> None:
        functools.update_wrapper(self, function)
        self.name = getattr(function, "__name__", type(function).__name__)
        self.function = function
        self._number = registered(self)
        self._programs: dict[Any, FusedProgram] = {}
        self._last: FusedProgram | None = None
        self._quick = _Quick(never)
        self._quicks: dict[FusedProgram, _Quick] = {}
        self.gradient = _QuickGradient()

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        if torch.compiler.is_compiling():
            return in_graph(self._number, args, kwargs)
        quick = self._quick
        if not kwargs and quick.guard(*args) and plain() and not _negated(args):
            self._last = quick.program
            return _RECORDED(self, quick, *args) if _wanted(args) else quick.run(*args)
        rest, tensors = arguments_of(self.name, args, kwargs)
        if _observed(tensors):
            return self.function(*args, **kwargs)
        if _wanted(tensors):
            results = _Differentiable.apply(self, rest, *tensors)
        else:
            results = self.forward(rest, [t.resolve_neg() for t in tensors])[0]
        alone = rest.shape is None and len(tensors) == len(args)
        if _on_gpu(tensors) and alone and not _negated(tensors):
            self._quick = self.repeated(self.program(rest, tensors), args)
        return results

    @property
    def source(self) -> str:
        """The CUDA C++ of the kernels of the last call."""
        return "\n".join(self._used("source").sources)

    def explain(self) -> str:
        """The last call: one line for each kernel and for each operation apart."""
        return "\n".join(self._used("explain()").explain())

    def _used(self, what: str) -> FusedProgram:
        if self._last is None:
            raise Error(
                f"weft.fuse: '{self.name}.{what}' needs a call first",
                next="call the function once: its kernels depend on dtypes and shapes",
            )
        return self._last

    # ---- programs ------------------------------------------------------------------------------
    def forward(self, rest: Arguments, tensors: Sequence[torch.Tensor]) -> tuple[Any, Starts]:
        """The results, and where the random numbers of the call began."""
        program = self.program(rest, tensors)
        starts = drawn(program.masks) if program.masks else {}
        return program(tensors, starts), starts

    def program(self, rest: Arguments, tensors: Sequence[torch.Tensor]) -> FusedProgram:
        """The program of the forward pass for these tensors."""
        return self._program((_key(tensors), rest), lambda: self._of_tensors(rest), tensors)

    def backward(
        self, rest: Arguments, tensors: Sequence[torch.Tensor], wanted: tuple[int, ...],
        gradients: Sequence[torch.Tensor], starts: Starts,
    ) -> Any:  # fmt: skip
        """The gradients of the wanted tensors, by those of the results."""
        return self.gradients(rest, tensors, wanted, gradients, starts)[0]

    def gradients(
        self, rest: Arguments, tensors: Sequence[torch.Tensor], wanted: tuple[int, ...],
        gradients: Sequence[torch.Tensor], starts: Starts,
    ) -> tuple[Any, FusedProgram]:  # fmt: skip
        """The gradients as `backward` returns them, and the program that computed them."""

        def make() -> Callable[..., Any]:
            return gradient_of(self._of_tensors(rest), len(tensors), wanted)

        values = [*tensors, *gradients]
        program = self._program((_key(values), rest, wanted), make, values)
        if program.drawing:
            raise ArgumentError(
                f"weft.fuse: the gradient of '{self.name}' needs the same random numbers again",
                got=f"{program.drawing[0].target} in the function",
                allowed="torch.nn.functional.dropout, whose numbers can be computed again",
                next="draw the numbers before the call and pass them as an argument",
            )
        return program(values, starts), program

    def _program(
        self, key: Any, make: Callable[[], Callable[..., Any]], tensors: Sequence[torch.Tensor]
    ) -> FusedProgram:
        program = self._programs.get(key)
        if program is None:
            program = FusedProgram(graph_of(make(), tensors))
            if len(self._programs) >= REMEMBERED:
                self._programs.clear()
                self._quicks.clear()
            self._programs[key] = program
        self._last = program
        return program

    def repeated(self, program: FusedProgram, tensors: Sequence[torch.Tensor]) -> _Quick:
        """Let later calls with tensors like these repeat a program."""
        if program not in self._quicks:
            run, alive = program.direct(), list[object]()
            made = None if run is None else guard(tensors, PLAIN, alive)
            self._quicks[program] = _Quick(made or never, run or never, program, alive)
        return self._quicks[program]

    def _of_tensors(self, rest: Arguments) -> Callable[..., Any]:
        """The function of the tensors alone, with the other arguments fixed."""
        return lambda *tensors: rest.call(self.function, tensors)


class _Differentiable(torch.autograd.Function):  # type: ignore[misc]
    """A call whose gradient is a second fused function, which computes the first one again."""

    @staticmethod
    def forward(ctx: Any, fused: Fused, rest: Arguments, *tensors: torch.Tensor) -> Any:
        tensors = tuple(t.resolve_neg() for t in tensors)
        ctx.fused, ctx.rest = fused, rest
        ctx.save_for_backward(*tensors)
        results, ctx.starts = fused.forward(rest, tensors)
        return results

    @staticmethod
    @torch.autograd.function.once_differentiable  # type: ignore[untyped-decorator]
    def backward(ctx: Any, *gradients: torch.Tensor) -> Any:
        tensors = ctx.saved_tensors
        wanted = tuple(i for i in range(len(tensors)) if ctx.needs_input_grad[2 + i])
        results: list[Any] = [None] * (2 + len(tensors))
        found = ctx.fused.backward(ctx.rest, tensors, wanted, gradients, ctx.starts)
        for i, gradient in zip(wanted, found, strict=True):
            results[2 + i] = gradient
        return tuple(results)


def _repeat(fused: Fused, quick: _Quick, *tensors: torch.Tensor) -> Any:
    return quick.run(*tensors)


def _setup(ctx: Any, args: tuple[Any, ...], results: Any) -> None:
    ctx.fused, _, *tensors = args
    ctx.save_for_backward(*tensors)


@torch.autograd.function.once_differentiable  # type: ignore[untyped-decorator]
def _repeat_backward(ctx: Any, *gradients: torch.Tensor) -> Any:
    fused, tensors, needs = ctx.fused, ctx.saved_tensors, tuple(ctx.needs_input_grad[2:])
    values, last = (*tensors, *gradients), fused.gradient
    if last.needs == needs and last.quick.guard(*values) and not _negated(gradients):
        found = last.quick.run(*values)
    else:
        wanted = tuple(i for i, need in enumerate(needs) if need)
        found, program = fused.gradients(_alone(len(tensors)), tensors, wanted, gradients, {})
        if _on_gpu(tensors) and not _negated(gradients):
            fused.gradient = _QuickGradient(needs, fused.repeated(program, values))
    left = iter(found)
    return None, None, *(next(left) if need else None for need in needs)


_RECORDED = differentiable("fused", _repeat, _setup, _repeat_backward)
"""Repeats the last call of a fused function, and records its gradient."""


def _alone(count: int) -> Arguments:
    """The arguments of a call with so many tensors, and nothing else."""
    return Arguments((None,) * count, tuple(range(count)), None)


def _on_gpu(tensors: Sequence[torch.Tensor]) -> bool:
    return bool(tensors[0].is_cuda)


def _wanted(tensors: Sequence[torch.Tensor]) -> bool:
    """True if a call must record its gradient."""
    return torch.is_grad_enabled() and any(t.requires_grad for t in tensors)


def _negated(tensors: Sequence[torch.Tensor]) -> bool:
    """True if a tensor's numbers have other signs than those in memory, which no guard sees."""
    return any(t.is_neg() for t in tensors)


def _observed(tensors: Sequence[torch.Tensor]) -> bool:
    """True if torch must see every operation: in modes and transforms, for subclasses."""
    return bool(
        any(type(t) not in PLAIN for t in tensors)
        or torch._C._functorch.peek_interpreter_stack() is not None
        or torch._C._len_torch_dispatch_stack()
        or torch._C._len_torch_function_stack()
    )


def _key(tensors: Sequence[torch.Tensor]) -> Any:
    """The key of a program: the tensors' layouts, and the types that autocast chooses."""
    kind = tensors[0].device.type
    cast = torch.get_autocast_dtype(kind) if torch.is_autocast_enabled(kind) else None
    return cast, *((t.dtype, t.device, t.shape, t.stride(), t.data_ptr() & 15) for t in tensors)
