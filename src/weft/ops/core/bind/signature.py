"""Translates weft signatures, `a:f32[n] b:f32[n] -> c:f32[n]`, to torch schemas and options.

A signature also declares named sizes, which arguments must agree on, and the shapes of results.
Kernel parameters with the names of sizes need no declaration.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

from weft.errors import ArgumentError
from weft.kernels import Kernel
from weft.measure.expressions import evaluate
from weft.measure.op import ArraySpec, array_specs
from weft.ops.core.bind.options import Options
from weft.ops.core.bind.rules import rule


@dataclass(frozen=True)
class Signature:
    """The arrays of an op.

    flat  True if tensors may have any shape: leading dimensions are merged
    """

    op: str
    inputs: tuple[ArraySpec, ...]
    outputs: tuple[ArraySpec, ...]
    flat: bool = False

    @property
    def schema(self) -> str:
        """The schema in torch's notation."""
        takes = ", ".join(f"Tensor {spec.name}" for spec in self.inputs)
        gives = ", ".join(f"Tensor {spec.name}" for spec in self.outputs)
        return f"({takes}) -> {gives if len(self.outputs) == 1 else f'({gives})'}"

    @property
    def named(self) -> tuple[str, ...]:
        """The sizes that follow from arguments."""
        names = (text for spec in self.inputs for text in spec.sizes if text.isidentifier())
        return tuple(dict.fromkeys(names))

    def sizes(self, arguments: Mapping[str, Any]) -> dict[str, Any]:
        """The sizes by name; raises ArgumentError if arguments disagree."""
        by_name: dict[str, Any] = {}
        shapes = [(spec, self._shape(spec, arguments)) for spec in self.inputs]
        for spec, shape in shapes:
            for text, n in zip(spec.sizes, shape, strict=True):
                if text.isidentifier():
                    by_name.setdefault(text, n)
        for spec, shape in shapes:
            for text, n in zip(spec.sizes, shape, strict=True):
                want = by_name[text] if text in by_name else evaluate(text, by_name)
                if want != n:
                    raise self._misfit(spec, arguments, f"{text} = {want}")
        return by_name

    def shape(self, result: ArraySpec) -> Callable[..., tuple[Any, ...]]:
        """The rule for a result's shape: that of an argument with equal sizes, or computed."""
        like = [spec.name for spec in self.inputs if spec.sizes == result.sizes]

        def computed(**arguments: Any) -> tuple[Any, ...]:
            sizes = self.sizes(arguments)
            if like:
                return tuple(arguments[like[0]].shape)
            return tuple(evaluate(text, sizes) for text in result.sizes)

        return computed

    def _shape(self, spec: ArraySpec, arguments: Mapping[str, Any]) -> tuple[Any, ...]:
        shape = tuple(arguments[spec.name].shape)
        folded = _folded(shape, len(spec.sizes)) if self.flat else shape
        if len(folded) != len(spec.sizes):
            raise self._misfit(spec, arguments, f"{len(spec.sizes)} dimensions")
        return folded

    def _misfit(self, spec: ArraySpec, arguments: Mapping[str, Any], want: str) -> ArgumentError:
        shown = ", ".join(f"{s.name} {list(arguments[s.name].shape)}" for s in self.inputs)
        return ArgumentError(
            f"{self.op}: '{spec.name}' has a shape that does not fit",
            got=shown,
            allowed=f"{spec.name}[{', '.join(spec.sizes)}] with {want}",
        )


def read(op: str, text: str) -> Signature | None:
    """Parse a signature; None for torch's notation, which has no colons."""
    if ":" not in text:
        return None
    takes, _, gives = text.partition("->")
    return Signature(op, array_specs(takes, text), array_specs(gives, text))


def applied(signature: Signature, kernel: Any, options: Options) -> Options:
    """Add the shapes of results and the values of sizes to the options."""
    parameters: Sequence[str] = kernel.packer.names if isinstance(kernel, Kernel) else ()
    if isinstance(kernel, Kernel):
        _agree(signature, kernel)
    args = {n: _size(signature, n) for n in parameters if n in signature.named}
    changed = {
        n: _sized(signature, n, getattr(options, n)) for n in ("grid", "block", "shared_mem")
    }
    shapes = {spec.name: signature.shape(spec) for spec in signature.outputs}
    declared = {
        n: _sized(signature, f"args['{n}']", size_rule) for n, size_rule in options.args.items()
    }
    out = options.out if options.out is not None else shapes
    return replace(options, args={**args, **declared}, out=out, **changed)


def _size(signature: Signature, name: str) -> Callable[..., Any]:
    return lambda **arguments: signature.sizes(arguments)[name]


def _sized(signature: Signature, what: str, declared: Any) -> Any:
    """A rule that can also use the sizes."""
    if not isinstance(declared, str | tuple | list) and not callable(declared):
        return declared
    arrays = [spec.name for spec in (*signature.inputs, *signature.outputs)]
    ready = rule(f"{signature.op}: {what}", declared, [*arrays, *signature.named])
    return lambda **arguments: ready({**arguments, **signature.sizes(arguments)})


def _agree(signature: Signature, kernel: Kernel) -> None:
    types = dict(zip(kernel.packer.names, kernel.packer.types, strict=True))
    for spec in (*signature.inputs, *signature.outputs):
        ctype = types.get(spec.name)
        if ctype is not None and ctype.dtypes and spec.dtype.torch not in ctype.dtypes:
            raise ArgumentError(
                f"{signature.op}: '{spec.name}' is {spec.dtype.name} in the signature,"
                f" {ctype.spelling} in the kernel",
                allowed=kernel.packer.signature(),
            )


def _folded(shape: tuple[Any, ...], rank: int) -> tuple[Any, ...]:
    """Merge leading dimensions to reach a rank; a number becomes an array of one."""
    if len(shape) < rank:
        return (1,) * (rank - len(shape)) + shape
    front = len(shape) - rank + 1
    return (math.prod(shape[:front]), *shape[front:])
