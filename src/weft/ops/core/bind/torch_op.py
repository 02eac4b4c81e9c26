"""Register ops with torch, for autograd, torch.compile, vmap and autocast."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from dataclasses import replace
from typing import TYPE_CHECKING, Any

import torch

from weft.errors import ArgumentError, expect
from weft.kernels import Kernel
from weft.ops.core.bind import batching, gradient, signature, transforms
from weft.ops.core.bind import options as bind_options
from weft.ops.core.bind.body import Body, body
from weft.ops.core.bind.custom_op import custom_op
from weft.ops.core.bind.options import Options
from weft.ops.core.bind.outputs import Outputs

if TYPE_CHECKING:
    from weft.ops.core.bind.verify import Verified

_NAME = re.compile(r"[A-Za-z_]\w*::[A-Za-z_]\w*$")
_RESERVED = ("aten", "prim", "prims", "torch")
_MADE: dict[str, TorchOp] = {}
"""Ops by name. An op that is made again stays the same object: references to it see the new
definition, and a notebook's cell can be run twice."""


class TorchOp:
    """A PyTorch op: CPU tensors run on the simulated GPU, CUDA tensors on their GPU."""

    def __init__(self, name: str) -> None:
        self.name = name
        self.body: Body
        self.overload: Any
        self.definition: Any
        self.transformed: Callable[..., Any] | None

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        if self.transformed is not None and transforms.are_active():
            return self.transformed(*self.body.schema.bind(args, kwargs).values())
        return self.overload(*args, **kwargs)

    def __repr__(self) -> str:
        return f"<weft.TorchOp {self.name}{self.body.schema.text}>"

    def __reduce__(self) -> Any:
        """Copies share the op; unpickling finds it by name."""
        return find, (self.name,)

    def verify(self, *args: Any, **options: Any) -> Verified:
        """Run torch's `opcheck` and `gradcheck` on this op: `weft.ops.verify`."""
        from weft.ops.core.bind.verify import verify

        return verify(self, *args, **options)


def find(name: str) -> TorchOp:
    """The op with this name in this process."""
    if name not in _MADE:
        raise ArgumentError(
            f"{name} is not made in this process",
            allowed=", ".join(sorted(_MADE)) or "none is made yet",
            next=f'make it before: kernel.as_op("{name}", ...), or weft.ops.NAME for a ladder',
        )
    return _MADE[name]


def make(kernel: Any, name: str, schema: str, declared: Mapping[str, Any]) -> TorchOp:
    """Make and register an op; replace an earlier one of the same name."""
    _free(name)
    options = bind_options.options(name, declared)
    sized = signature.read(name, schema)
    if sized is not None:
        schema, options = sized.schema, signature.applied(sized, kernel, options)
    computes = body(name, kernel, schema, options)
    return register(name, computes, options)


def register(name: str, computes: Body, options: Options) -> TorchOp:
    """Register an op with this body."""
    outputs = Outputs(name, computes, options)
    formula, options = _formula(name, computes, options)
    derivative = gradient.derivative(name, computes, options, formula)
    op = _MADE.get(name) or TorchOp(name)
    rule = batching.rule(name, op, options.vmap) if options.vmap is not None else None
    definition = custom_op(
        name,
        _implementation(computes, outputs, options),
        mutates_args=computes.schema.mutated,
        schema=computes.schema.text,
    )
    # The overload is called directly, without resolving it in every call.
    op.body, op.definition, op.overload = computes, definition, definition._opoverload
    op.transformed = None
    if derivative is not None:
        op.transformed = transforms.transformed(
            name, op.overload, derivative[1], derivative[0], rule
        )
    _MADE[name] = op
    definition.register_fake(_fake(computes, outputs))
    if derivative is not None:
        definition.register_autograd(derivative[0], setup_context=derivative[1])
    if rule is not None:
        definition.register_vmap(rule)
    if options.autocast is not None:
        for device in ("cpu", "cuda"):
            definition.register_autocast(device, options.autocast)
    return op


def _implementation(computes: Body, outputs: Outputs, options: Options) -> Any:
    copied = [n for n in computes.schema.tensors if n not in computes.schema.mutated]

    def run(*args: Any, **kwargs: Any) -> Any:
        arguments = computes.schema.bind(args, kwargs)
        if options.contiguous:
            arguments |= {n: arguments[n].contiguous() for n in copied}
        results = outputs.allocate(arguments)
        computes.run({**arguments, **results})
        return _returned(results)

    return run


def _fake(computes: Body, outputs: Outputs) -> Any:
    def run(*args: Any, **kwargs: Any) -> Any:
        return _returned(outputs.allocate(computes.schema.bind(args, kwargs)))

    return run


def _returned(results: Mapping[str, Any]) -> Any:
    values = tuple(results.values())
    return values if len(values) > 1 else values[0] if values else None


def _formula(
    name: str, computes: Body, options: Options
) -> tuple[gradient.Formula | None, Options]:
    """The declared derivative as a formula, and the options with the values to save."""
    backward = options.backward
    if isinstance(backward, Kernel):
        backward = make(backward, f"{name}_backward", "", {"contiguous": True})
    if isinstance(backward, TorchOp):
        kept = options.save if options.save is not None else gradient.saved(computes, backward)
        return gradient.op_formula(name, computes, backward), replace(options, save=kept)
    if backward is None or callable(backward):
        return backward, options
    raise ArgumentError(
        f"{name}: backward is neither a formula nor an op nor a kernel",
        got=type(backward).__name__,
        allowed="lambda ctx, grad: ..., kernel.as_op(...), or a kernel",
    )


def _free(name: str) -> None:
    """Raise ArgumentError for an invalid or taken name."""
    expect("an op's name", name, str, allowed='a string: "mine::square"')
    space = name.partition("::")[0]
    if not _NAME.match(name) or space in _RESERVED:
        raise ArgumentError(
            "an op's name is a namespace of your own and a name",
            got=repr(name),
            allowed='"mine::square"; ' + ", ".join(_RESERVED) + " belong to torch",
        )
    if name not in _MADE and hasattr(getattr(torch.ops, space), name.partition("::")[2]):
        raise ArgumentError(
            f"{name} is taken: another library has registered an op of this name",
            got=str(getattr(getattr(torch.ops, space), name.partition("::")[2])),
            next="choose another namespace",
        )
