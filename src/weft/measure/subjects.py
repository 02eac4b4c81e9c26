"""What a check is asked to judge, as subjects with their trials: a solution of an operation, or a
launch or a callable with its arguments."""

from __future__ import annotations

import inspect
import sys
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from weft.device import arrays as device_arrays
from weft.errors import ArgumentError
from weft.kernels import Configured
from weft.measure import buffers, data, dtypes, tracing
from weft.measure import op as ops
from weft.measure.buffers import Library
from weft.measure.dtypes import Array, DType
from weft.measure.op import Case, Op
from weft.measure.stand import Place, Stand, Subject

FRESH = 2
"""Trials with new random numbers for each case."""

Trials = Iterator[tuple[Stand, Mapping[str, Array], str, bool]]
"""Where, with which inputs, what it is called, and whether to repeat it as a timing would."""


@dataclass(frozen=True)
class How:
    """What a caller says about a launch or a callable; see `weft.check`."""

    out: Any
    reference: Callable[..., Any] | None
    reduce: int | None
    accumulate: str | None


# ---- a solution of an operation --------------------------------------------------------------
def of_op(
    op: Op,
    args: Sequence[Any],
    options: Mapping[str, Any],
    device: str,
    arrays: str,
    fillings: Mapping[str, data.Filling],
    rng: np.random.Generator,
) -> tuple[str, Trials]:
    if len(args) != 1 or not callable(args[0]) or options:
        given = [*map(repr, args), *(f"{name}=" for name in options)]
        raise ArgumentError(
            "check(op, solution) takes one callable", got=", ".join(given) or "nothing"
        )
    solution = args[0]
    name = f"{op.name}/{getattr(solution, '__name__', 'solution')}"

    def trials() -> Trials:
        for number, case in enumerate(op.cases):
            stand = Stand(_op_subject(op, solution, case, name), library_for(device, arrays))
            kinds = {f"random {i}": data.random for i in range(FRESH)}
            if number == 0:
                kinds |= fillings
            for i, (label, filling) in enumerate(kinds.items()):
                inputs = {slot.name: op.data(slot, case, rng, filling) for slot in op.inputs}
                yield stand, inputs, f"{case}, {label}", i == FRESH - 1

    return name, trials()


def library_for(device: str, arrays: str = "") -> Library:
    """The arrays that solutions get: NumPy on the simulator, PyTorch's or CuPy's on a GPU.

    `arrays` asks for those of one library: numpy or torch.
    """
    if device.startswith("sim") or arrays == "numpy":
        return buffers.torch("cpu") if arrays == "torch" else buffers.NUMPY
    if "torch" not in sys.modules and "cupy" in sys.modules:
        return buffers.cupy()
    return buffers.torch(device.replace("gpu", "cuda"))


def _op_subject(op: Op, solution: Callable[..., Any], case: Case, name: str) -> Subject:
    order = [s.name for s in (*op.inputs, *op.outputs)] + list(case.sizes)
    places = [Place(s.name, s.dtype, s.shape(case)) for s in op.inputs]
    results = [Place(s.name, s.dtype, s.shape(case)) for s in op.outputs]

    def call(given: Mapping[str, Any]) -> Any:
        return ops.call(solution, {**given, **case.sizes}, order)

    def reference(inputs: Mapping[str, Array]) -> Sequence[Array]:
        known = {**inputs, **case.sizes}
        return _tuple(ops.call(op.reference, known, [s.name for s in op.inputs]))

    accumulate = dtypes.find(op.accumulate) if op.accumulate else None
    return Subject(name, places, results, call, reference, op.terms(case), accumulate)


def _tuple(result: Any) -> Sequence[Array]:
    return result if isinstance(result, tuple | list) else (result,)


# ---- a launch or a callable with its arguments -----------------------------------------------
def of_call(
    subject: Configured | Callable[..., Any],
    args: Sequence[Any],
    options: Mapping[str, Any],
    how: How,
    fillings: Mapping[str, data.Filling],
    rng: np.random.Generator,
) -> tuple[str, Trials]:
    reference = how.reference
    if reference is None:
        raise ArgumentError("a check needs a reference", next="reference=lambda x: ...")
    positional = _names(subject, args, options)
    given = {**dict(zip(positional, args, strict=True)), **options}
    names = list(given)
    held = {n: a for n, a in given.items() if device_arrays.is_array(a)}
    filled = _outputs(how.out, held)
    launch = subject if isinstance(subject, Configured) else None
    if launch is not None and not filled:
        raise ArgumentError(
            "a kernel returns nothing: say which argument it fills",
            allowed=", ".join(held),
            next="out=y",
        )
    library = buffers.library_of(next(iter(held.values()))) if held else buffers.NUMPY
    wanted = [n for n in names if n not in filled]
    started = {n: buffers.bits(a) for n, a in held.items()}
    asked = _asked(reference, names)
    data_of = [n for n in held if n not in filled or n in asked]
    places = {n: Place(n, _dtype(a), started[n].shape) for n, a in held.items()}

    def call(arrays: Mapping[str, Any]) -> Any:
        return subject(
            *[arrays.get(n, given[n]) for n in positional],
            **{n: arrays.get(n, given[n]) for n in options},
        )

    def right(inputs: Mapping[str, Array]) -> Sequence[Array]:
        known = {**given, **{n: _native(a, library) for n, a in inputs.items()}}
        order = [n for n in names if n in asked] or wanted
        return [_plain(r) for r in _tuple(ops.call(reference, known, order))]

    name = launch.name if launch is not None else _called(subject)
    whole = Subject(
        name,
        [places[n] for n in data_of],
        [places[n] for n in filled],
        call,
        right,
        how.reduce,
        dtypes.find(how.accumulate) if how.accumulate else None,
        launch.threads if launch is not None else None,
        tracing.writer(launch, positional, given) if launch is not None else None,
        tracing.races(launch, positional, given, [n for n in filled if n not in data_of])
        if launch is not None
        else None,
    )

    def trials() -> Trials:
        stand = Stand(whole, library)
        yield stand, {n: started[n] for n in data_of}, "the inputs given", False
        kinds = {f"random {i}": data.random for i in range(FRESH)} | dict(fillings)
        for i, (label, filling) in enumerate(kinds.items()):
            inputs = {
                n: filling(rng, places[n].shape, places[n].dtype)
                if places[n].dtype.floating
                else started[n]
                for n in data_of
            }
            yield stand, inputs, label, i == FRESH - 1

    return name, trials()


def _names(
    subject: Configured | Callable[..., Any], args: Sequence[Any], options: Mapping[str, Any]
) -> list[str]:
    """What the arguments are called: as the kernel's or the function's parameters are."""
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
    """The names of the arrays that are filled."""
    items = [] if out is None else out if isinstance(out, list | tuple) else [out]
    found = []
    for item in items:
        name = item if isinstance(item, str) else next((n for n in held if held[n] is item), None)
        if name is None or name not in held:
            raise ArgumentError(
                "out= names no array among the arguments",
                got=repr(item) if isinstance(item, str) else type(item).__name__,
                allowed=", ".join(held),
            )
        found.append(name)
    return found


def _asked(reference: Callable[..., Any], names: Sequence[str]) -> list[str]:
    """The arguments that a reference asks for by name; none where it takes them in order."""
    try:
        wanted = list(inspect.signature(reference).parameters)
    except (TypeError, ValueError):
        return []
    return [n for n in names if n in wanted] if set(wanted) <= set(names) else []


def _dtype(array: Any) -> DType:
    known = getattr(array, "dtype", None)
    return dtypes.find(str(np.asarray(array).dtype if known is None else known))


def _native(values: Array, library: Library) -> Any:
    """float64 inputs as the caller's library has them, on the CPU."""
    if not library.name.startswith("PyTorch"):
        return values
    return sys.modules["torch"].from_numpy(np.array(values))


def _plain(result: Any) -> Array:
    """A reference's answer in NumPy."""
    return np.asarray(result.detach().cpu() if hasattr(result, "detach") else result)
