"""Builds subjects and their trials from a solution of an Op, a launch or a callable."""

from __future__ import annotations

import functools
import inspect
import sys
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple, Protocol

import numpy as np

from weft.device import arrays as device_arrays
from weft.device.selection import Selection
from weft.errors import ArgumentError
from weft.kernels import Configured
from weft.measure import dtypes
from weft.measure import op as ops
from weft.measure.check import buffers, input_data, tracing
from weft.measure.check.buffers import Library
from weft.measure.check.harness import Harness, Reference, Subject
from weft.measure.check.judge import Draw
from weft.measure.check.runner import LocalRunner, Runner, SubjectArray
from weft.measure.dtypes import Array, DType, Filling
from weft.measure.op import ArraySpec, Case, Op

FRESH = 2
"""Trials with random inputs per case."""


class Trial(NamedTuple):
    """One trial of a check.

    draw      returns new inputs
    repeated  whether many runs in a row follow
    drawn     whether the sizes are not those of a case
    """

    harness: Harness
    draw: Draw
    label: str
    repeated: bool = False
    drawn: bool = False


Trials = Iterator[Trial]

Fillings = Mapping[str, Filling]
Ranges = Mapping[str, tuple[int, int] | None]


@dataclass(frozen=True)
class CallSpec:
    """The options of `weft.check` for a launch or a callable."""

    out: Any
    reference: Callable[..., Any] | None
    reduce: int | None
    accumulate: str | None
    result: str | None
    ranges: Ranges


# ---- a solution of an operation --------------------------------------------------------------
def solution_trials(
    op: Op,
    args: Sequence[Any],
    options: Mapping[str, Any],
    device: Selection,
    arrays: str,
    fillings: Fillings,
    rng: np.random.Generator,
) -> tuple[str, Trials]:
    if len(args) != 1 or not callable(args[0]) or options:
        arguments = [*map(repr, args), *(f"{name}=" for name in options)]
        raise ArgumentError(
            "check(op, solution) takes one callable", got=", ".join(arguments) or "nothing"
        )
    solution = args[0]
    name = f"{op.name}/{getattr(solution, '__name__', 'solution')}"
    here = _Here(op, solution, library_for(device, arrays), rng)
    return name, op_trials(op, name, here, fillings)


class Provider(Protocol):
    """Access to the user's code for one case, in this process or in a worker."""

    def data(self, spec: ArraySpec, case: Case, filling: Filling) -> Array:
        """Generate new data for an input."""

    def reference(self, case: Case) -> Reference:
        """The reference of a case."""

    def runner(
        self, case: Case, inputs: Sequence[SubjectArray], outputs: Sequence[SubjectArray]
    ) -> Runner:
        """The runner of the solution for a case."""


@dataclass(frozen=True)
class _Here:
    """Provides the user's code in this process."""

    op: Op
    solution: Callable[..., Any]
    library: Library
    rng: np.random.Generator

    def data(self, spec: ArraySpec, case: Case, filling: Filling) -> Array:
        return self.op.data(spec, case, self.rng, filling)

    def reference(self, case: Case) -> Reference:
        return answering(self.op, case)

    def runner(
        self, case: Case, inputs: Sequence[SubjectArray], outputs: Sequence[SubjectArray]
    ) -> Runner:
        call = calling(self.op, self.solution, case)
        return LocalRunner(call, inputs, outputs, self.library)


def op_trials(
    op: Op, name: str, provider: Provider, fillings: Fillings, beside: Sequence[Case] = ()
) -> Trials:
    """All trials of one solution: those of the cases, and one for each case of `beside`."""
    for number, case in enumerate((*op.cases, *beside)):
        free = [s.name for s in op.inputs if s.name not in op.fill and s.within is None]
        inputs = [SubjectArray(s.name, s.dtype, s.shape(case), s.name in free) for s in op.inputs]
        outputs = [SubjectArray(s.name, s.dtype, s.shape(case)) for s in op.outputs]
        subject = Subject(
            name, inputs, outputs, provider.reference(case),
            terms=op.terms(case),
            accumulate=dtypes.find(op.accumulate) if op.accumulate else None,
        )  # fmt: skip
        harness = Harness(subject, provider.runner(case, inputs, outputs))
        drawn = number >= len(op.cases)
        fresh = 1 if drawn else FRESH
        kinds: dict[str, Filling] = {f"random {i}": input_data.random for i in range(fresh)}
        # Special fillings test the arithmetic, not the sizes: the first case is enough.
        if number == 0:
            kinds |= dict(fillings)
        for i, (label, filling) in enumerate(kinds.items()):
            draw = functools.partial(_drawn, op, case, filling, provider)
            yield Trial(harness, draw, f"{case}, {label}", i == FRESH - 1, drawn)


def _drawn(op: Op, case: Case, filling: Filling, provider: Provider) -> dict[str, Array]:
    return {spec.name: provider.data(spec, case, filling) for spec in op.inputs}


def library_for(device: Selection, arrays: str = "") -> Library:
    """The library of the arrays: NumPy on the simulator, PyTorch or CuPy on a GPU.

    `arrays` selects one library: numpy or torch.
    """
    if not device.real or arrays == "numpy":
        return buffers.torch("cpu") if arrays == "torch" else buffers.NUMPY
    if "torch" not in sys.modules and "cupy" in sys.modules:
        return buffers.cupy()
    return buffers.torch(f"cuda:{device.number}")


def calling(op: Op, solution: Callable[..., Any], case: Case) -> Callable[[Mapping[str, Any]], Any]:
    """A solution as a function of its arrays by name."""
    order = [s.name for s in (*op.inputs, *op.outputs)] + list(case.sizes)
    return lambda arrays: ops.call(solution, {**arrays, **case.sizes}, order)


def answering(op: Op, case: Case) -> Reference:
    """An operation's reference as a function of its inputs by name."""
    order = [s.name for s in op.inputs]
    return lambda many: [
        _tuple(ops.call(op.reference, {**inputs, **case.sizes}, order)) for inputs in many
    ]


def _tuple(result: Any) -> Sequence[Any]:
    return result if isinstance(result, tuple | list) else (result,)


# ---- a launch or a callable with its arguments -----------------------------------------------
def call_trials(
    subject: Configured | Callable[..., Any],
    args: Sequence[Any],
    options: Mapping[str, Any],
    spec: CallSpec,
    fillings: Fillings,
    rng: np.random.Generator,
) -> tuple[str, Trials]:
    reference = spec.reference
    if reference is None:
        raise ArgumentError("a check needs a reference", next="reference=lambda x: ...")
    positional = _names(subject, args, options)
    arguments = {**dict(zip(positional, args, strict=True)), **options}
    names = list(arguments)
    held = {n: a for n, a in arguments.items() if device_arrays.is_array(a)}
    filled = _outputs(spec.out, held)
    launch = subject if isinstance(subject, Configured) else None
    if launch is not None and not filled:
        raise ArgumentError(
            "a kernel returns nothing: say which argument it fills",
            allowed=", ".join(held),
            next=f"out={list(held)[-1]}" if held else "give it an array to fill",
        )
    # All arrays of a call belong to one library; the first decides.
    library = buffers.library_of(next(iter(held.values()))) if held else buffers.NUMPY
    wanted = [n for n in names if n not in filled]
    started = {n: buffers.bits(a) for n, a in held.items()}
    asked = _reference_arguments(reference, names)
    # An output that the reference also reads is updated in place: it needs initial data.
    data_of = [n for n in held if n not in filled or n in asked]
    _known(spec.ranges, held)
    places = {
        n: SubjectArray(n, dtype, started[n].shape, dtype.floating or spec.ranges.get(n, 0) is None)
        for n, a in held.items()
        if (dtype := buffers.dtype_of(a))
    }

    def call(arrays: Mapping[str, Any]) -> Any:
        return subject(
            *[arrays.get(n, arguments[n]) for n in positional],
            **{n: arrays.get(n, arguments[n]) for n in options},
        )

    def right(many: Sequence[Mapping[str, Array]]) -> Sequence[Sequence[Array]]:
        return [right_for(inputs) for inputs in many]

    def right_for(inputs: Mapping[str, Array]) -> Sequence[Array]:
        values = {**arguments, **{n: _native(a, library) for n, a in inputs.items()}}
        order = [n for n in names if n in asked] or wanted
        return [_plain(r) for r in _tuple(ops.call(reference, values, order))]

    name = launch.name if launch is not None else _called(subject)
    whole = Subject(
        name,
        [places[n] for n in data_of],
        [places[n] for n in filled],
        right,
        _precision(spec.result, [places[n].dtype for n in data_of]),
        spec.reduce,
        dtypes.find(spec.accumulate) if spec.accumulate else None,
        launch.threads if launch is not None else None,
        tracing.threads(launch, positional, arguments) if launch is not None else None,
        tracing.writer(launch, positional, arguments) if launch is not None else None,
        tracing.finding(launch, positional, arguments, [n for n in filled if n not in data_of])
        if launch is not None
        else None,
    )

    def drawn(filling: Filling) -> dict[str, Array]:
        return {
            n: filling(rng, places[n].shape, places[n].dtype, spec.ranges.get(n))
            if places[n].dtype.floating or n in spec.ranges
            else started[n]
            for n in data_of
        }

    def trials() -> Trials:
        runner = LocalRunner(call, whole.inputs, whole.outputs, library)
        harness = Harness(whole, runner)
        # The caller's data comes first: a failure on it is the easiest to understand.
        yield Trial(harness, lambda: {n: started[n] for n in data_of}, "the inputs given")
        kinds = {f"random {i}": input_data.random for i in range(FRESH)} | dict(fillings)
        for i, (label, filling) in enumerate(kinds.items()):
            yield Trial(harness, functools.partial(drawn, filling), label, i == FRESH - 1)

    return name, trials()


def _known(ranges: Ranges, held: Mapping[str, Any]) -> None:
    for name in ranges:
        if name not in held:
            raise ArgumentError(
                "ranges= names no array among the arguments",
                got=repr(name),
                allowed=", ".join(held),
            )


def _precision(declared: str | None, inputs: Sequence[DType]) -> DType | None:
    """The required precision of a returned result: the declared one, else the coarsest input's."""
    if declared is not None:
        return dtypes.find(declared)
    return max((t for t in inputs if t.floating), key=lambda t: t.roundoff, default=None)


def _names(
    subject: Configured | Callable[..., Any], args: Sequence[Any], options: Mapping[str, Any]
) -> list[str]:
    """The names of the arguments: the kernel's or the function's parameters."""
    if isinstance(subject, Configured):
        return subject.names(args, options)
    try:
        bound = inspect.signature(subject).bind_partial(*args)
    except (TypeError, ValueError):
        return [f"argument {i}" for i in range(len(args))]
    names = list(bound.arguments)
    flat = [n for n in names if not isinstance(bound.arguments[n], tuple)]
    return names if len(flat) == len(args) else [f"argument {i}" for i in range(len(args))]


def _called(subject: Callable[..., Any]) -> str:
    name = getattr(subject, "__name__", type(subject).__name__)
    return "the callable" if name == "<lambda>" else name


def _outputs(out: Any, held: Mapping[str, Any]) -> list[str]:
    """The names of the output arrays."""
    items = [] if out is None else out if isinstance(out, list | tuple) else [out]
    names = []
    for item in items:
        name = item if isinstance(item, str) else next((n for n in held if held[n] is item), None)
        if name is None or name not in held:
            raise ArgumentError(
                "out= names no array among the arguments",
                got=repr(item) if isinstance(item, str) else type(item).__name__,
                allowed=", ".join(held),
            )
        names.append(name)
    return names


def _reference_arguments(reference: Callable[..., Any], names: Sequence[str]) -> list[str]:
    """The arguments that a reference names as parameters; empty if it takes them by position."""
    try:
        wanted = list(inspect.signature(reference).parameters)
    except (TypeError, ValueError):
        return []
    return [n for n in names if n in wanted] if set(wanted) <= set(names) else []


def _native(values: Array, library: Library) -> Any:
    """Convert float64 inputs to the caller's library, on the CPU."""
    if not library.name.startswith("PyTorch"):
        return values
    return sys.modules["torch"].from_numpy(np.array(values))


def _plain(result: Any) -> Array:
    """Convert a result of the reference to NumPy."""
    return np.asarray(result.detach().cpu() if hasattr(result, "detach") else result)
