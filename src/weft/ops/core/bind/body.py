"""The computation of an op: a kernel with its launch, or a function that launches kernels."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any

from weft.device.ctypes_table import CType
from weft.errors import ArgumentError
from weft.kernels import Kernel, cdiv
from weft.ops.core.bind import schema as schemas
from weft.ops.core.bind.options import Options
from weft.ops.core.bind.rules import Rule, rule
from weft.ops.core.bind.schema import Schema

COUNTS = ("n", "N", "size", "numel", "count", "length")
"""Parameter names that mean the number of elements, if no other parameter is undeclared."""


@dataclass(frozen=True)
class Body:
    """The computation of an op.

    results  names of the results -> dtype, "" for the dtype of the first tensor
    takes    names of arguments -> C++ type of the kernel parameter, if known
    run      takes arguments and results by name, and fills the results
    """

    schema: Schema
    results: Mapping[str, str]
    run: Callable[[Mapping[str, Any]], None]
    takes: Mapping[str, CType] = field(default_factory=dict)


def body(op: str, kernel: Any, text: str, options: Options) -> Body:
    """The body of an op made from a kernel or a function."""
    if isinstance(kernel, Kernel):
        return _of_kernel(op, kernel, text, options)
    if inspect.isfunction(kernel) or inspect.ismethod(kernel):
        return _of_function(op, kernel, text)
    raise ArgumentError(
        f"{op}: an op is made of a kernel or of a function",
        got=type(kernel).__name__,
        allowed="weft.cuda(source).NAME, or a function that launches",
        next="kernels of Triton and Numba are launched by a function: @weft.as_op(name, schema)",
    )


# ---- functions -------------------------------------------------------------------------------
def _of_function(op: str, function: Callable[..., Any], text: str) -> Body:
    if not text:
        raise ArgumentError(
            f"{op}: a function needs a schema",
            next='write it, e.g. @weft.as_op("mine::f", "(Tensor x) -> Tensor y")',
        )
    schema = schemas.parse(op, text)
    parameters = list(inspect.signature(function).parameters)
    free = [p for p in parameters if p not in schema.names]
    missing = [n for n in schema.names if n not in parameters]
    if missing or len(free) != len(schema.returns):
        raise ArgumentError(
            f"{op}: the function's parameters are not the schema's arguments and results",
            got=f"({', '.join(parameters)}) for {text}",
            allowed="a parameter for each argument, and one for each result, to be filled",
        )
    return Body(
        schema, dict.fromkeys(_ordered(schema, free), ""), lambda arguments: function(**arguments)
    )


def _ordered(schema: Schema, free: list[str]) -> list[str]:
    """Results by their names in the schema if it has them, else in order."""
    return list(schema.returns) if set(schema.returns) == set(free) else free


# ---- kernels ---------------------------------------------------------------------------------
def _of_kernel(op: str, kernel: Kernel, text: str, options: Options) -> Body:
    types = dict(zip(kernel.packer.names, kernel.packer.types, strict=True))
    for name in options.args:
        if name not in types:
            raise ArgumentError(
                f"{op}: args: the kernel has no parameter '{name}'",
                allowed=kernel.packer.signature(),
            )
    if text:
        schema = schemas.parse(op, text)
        declared = set(options.args) | set(schema.names)
    else:
        declared = set(options.args)
    count = _count(types, declared)
    derived = [*options.args, *([count] if count else [])]
    if not text:
        schema = schemas.derive(op, types, derived)
    free = [n for n in types if n not in schema.names and n not in derived]
    results = _results(op, kernel, schema, types, free)
    _fits(op, schema, types)
    # torch would remove such an op as dead code.
    if not results and not schema.mutated:
        raise ArgumentError(
            f"{op}: the kernel writes nothing",
            got=kernel.packer.signature(),
            allowed="results are pointers that are not const",
        )
    takes = {n: t for n, t in types.items() if t and n in schema.names}
    run = _launcher(op, kernel, schema, options, results, count)
    return Body(schema, results, run, takes)


def _count(types: Mapping[str, CType | None], declared: set[str]) -> str:
    """The undeclared parameter that is the number of elements, or ""."""
    left = [n for n, t in types.items() if n not in declared and t and not t.pointer
            and t.format and t.format in "iIqQ"]  # fmt: skip
    counts = [n for n in left if n in COUNTS]
    return counts[0] if len(counts) == 1 else ""


def _results(
    op: str, kernel: Kernel, schema: Schema, types: Mapping[str, CType | None], free: list[str]
) -> dict[str, str]:
    """Parameters that are results -> dtype; raises for other undeclared parameters."""
    written = {n: t for n in free if (t := types[n]) is None or (t.pointer and not t.const)}
    for name in free:
        if name not in written:
            like = next(iter(schema.tensors), "x")
            example = like if (t := types[name]) and t.pointer else f"{like}.shape[0]"
            raise ArgumentError(
                f"{op}: nothing says what the kernel's '{name}' is",
                got=f"{kernel.packer.signature()} for {schema.text}",
                next=f"name it in the schema, or say it: args={{'{name}': '{example}'}}",
            )
    if len(written) != len(schema.returns):
        raise ArgumentError(
            f"{op}: the schema's results are not those that the kernel writes",
            got=f"{len(schema.returns)} in {schema.text}",
            allowed=f"{len(written)} ({', '.join(written)}) for {kernel.packer.signature()}",
            next="const pointers are arguments; one that is written in place is `Tensor(a!) y`",
        )
    return {
        n: t.dtypes[0] if (t := written[n]) and t.dtypes else ""
        for n in _ordered(schema, list(written))
    }


def _fits(op: str, schema: Schema, types: Mapping[str, CType | None]) -> None:
    for argument in schema.arguments:
        ctype = types.get(argument.name)
        if ctype is None:
            continue
        wanted = schemas.scalar(op, argument.name, ctype)
        if argument.type != wanted and (argument.type, wanted) != ("int", "float"):
            raise ArgumentError(
                f"{op}: '{argument.name}' is {argument.type} in the schema,"
                f" {ctype.spelling} in the kernel",
                got=schema.text,
                allowed=f"{wanted} {argument.name}",
            )
        if argument.is_tensor and not ctype.const and not argument.mutated:
            raise ArgumentError(
                f"{op}: the kernel may write to '{argument.name}', an argument of the schema",
                got=f"{ctype.spelling} {argument.name} for {schema.text}",
                allowed=f"Tensor(a!) {argument.name} where it is changed in place",
                next="declare the parameter const if the kernel only reads it",
            )


def _launcher(
    op: str,
    kernel: Kernel,
    schema: Schema,
    options: Options,
    results: Mapping[str, str],
    count: str,
) -> Callable[[Mapping[str, Any]], None]:
    names = [*schema.names, *results]
    grid = rule(f"{op}: grid", options.grid, names) if options.grid is not None else None
    block = rule(f"{op}: block", options.block, names)
    shared = rule(f"{op}: shared_mem", options.shared_mem, names)
    declared = {**options.args, **({count: f"{names[_first(schema)]}.numel()"} if count else {})}
    values: list[Rule] = [
        rule(f"{op}: args['{name}']", declared.get(name, name), names)
        for name in kernel.packer.names
    ]

    def run(arguments: Mapping[str, Any]) -> None:
        threads = block(arguments)
        blocks = (
            grid(arguments)
            if grid
            else cdiv(_elements(arguments, schema, results), _product(threads))
        )
        launch = kernel[blocks, threads, shared(arguments)]
        if 0 not in launch.config.grid:  # of empty tensors
            launch(*(value(arguments) for value in values))

    return run


def _first(schema: Schema) -> int:
    """The index of the first tensor; the first result if no argument is a tensor."""
    return next((i for i, a in enumerate(schema.arguments) if a.is_tensor), len(schema.arguments))


def _elements(arguments: Mapping[str, Any], schema: Schema, results: Mapping[str, str]) -> int:
    return int(arguments[next(iter((*results, *schema.mutated)))].numel())


def _product(threads: Any) -> int:
    out = 1
    for n in threads if isinstance(threads, tuple | list) else (threads,):
        out *= n
    return out
