"""The options of an op, besides its name and schema."""

from __future__ import annotations

import difflib
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, fields
from typing import Any

from weft.errors import ArgumentError


@dataclass(frozen=True)
class Options:
    """Options of `as_op`. A rule is a number, an expression such as "cdiv(x.numel(), 256)", or
    a function whose parameters name arguments of the op; a tuple of rules is a rule.

    grid            rule for the blocks; by default one thread per element of the first result
    block           rule for the threads of a block
    shared_mem      rule for the bytes of dynamic shared memory
    args            kernel parameter -> rule, for parameters that are not arguments of the op
    out             rule for a result's shape, (shape, dtype), or the name of an argument that it is
                    like; several results: a dict by name. By default like the first tensor
    clear           results that are zeroed first; "y" or ("y", "z")
    contiguous      copy tensors that are not contiguous, instead of refusing them
    backward        formula `(ctx, *grads) -> gradients`, an op of weft, or a kernel; `ctx` has the
                    arguments and results by name
    save            names of what `backward` needs; by default all arguments and results
    setup_context   torch's `(ctx, inputs, output)`; then `backward` gets torch's ctx
    differentiable  False if results have no gradient, such as those of argmax
    vmap            "leading": the batch is one more leading dimension; "loop": call by call; or
                    torch's own `(info, in_dims, *args) -> (outputs, out_dims)`
    autocast        dtype for arguments inside of `torch.autocast`
    """

    grid: Any = None
    block: Any = 256
    shared_mem: Any = 0
    args: Mapping[str, Any] = field(default_factory=dict)
    out: Any = None
    clear: str | Sequence[str] = ()
    contiguous: bool = False
    backward: Any = None
    save: str | Sequence[str] | None = None
    setup_context: Callable[..., None] | None = None
    differentiable: bool = True
    vmap: str | Callable[..., Any] | None = None
    autocast: Any = None

    @property
    def cleared(self) -> tuple[str, ...]:
        return names(self.clear)


def names(value: str | Sequence[str]) -> tuple[str, ...]:
    """`"x, y"`, `"x"` or `("x", "y")` as names."""
    return tuple(value.replace(",", " ").split()) if isinstance(value, str) else tuple(value)


def options(op: str, declared: Mapping[str, Any]) -> Options:
    """The declared options; raises ArgumentError for an unknown one."""
    allowed = [f.name for f in fields(Options)]
    for name in declared:
        if name not in allowed:
            near = difflib.get_close_matches(name, allowed, 1)
            raise ArgumentError(
                f"{op}: an op has no option '{name}'",
                allowed=", ".join(allowed),
                next=f"did you mean '{near[0]}'?" if near else "",
            )
    return Options(**declared)
