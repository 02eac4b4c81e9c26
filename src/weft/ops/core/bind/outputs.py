"""Check the arguments of an op and allocate its results; its fake kernel does the same."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import torch

from weft.errors import ArgumentError
from weft.ops.core.bind.body import Body
from weft.ops.core.bind.options import Options
from weft.ops.core.bind.rules import Rule, rule


class Outputs:
    """The results of an op, from its arguments."""

    def __init__(self, op: str, body: Body, options: Options) -> None:
        self.op, self.body, self.schema = op, body, body.schema
        self.cleared = options.cleared
        # Then one thread per element is launched, so shapes must be equal.
        self.elementwise = options.out is None and options.grid is None
        self.dtypes = {
            n: [getattr(torch, d) for d in t.dtypes] for n, t in body.takes.items() if t.dtypes
        }
        self.rules = {
            n: self._rule(n, declared) for n, declared in self._declared(options.out).items()
        }
        for name in self.cleared:
            if name not in body.results:
                raise ArgumentError(
                    f"{op}: clear names '{name}', which is no result",
                    allowed=", ".join(body.results) or "none: it has no results",
                )

    def allocate(self, arguments: Mapping[str, Any]) -> dict[str, Any]:
        """Allocates the results on the arguments' device; raises for invalid arguments."""
        device = self._check(arguments)
        out = {}
        for name, dtype in self.body.results.items():
            shape, declared = self._shape(name, arguments)
            kind = declared or (getattr(torch, dtype) if dtype else self._first(arguments).dtype)
            make = torch.zeros if name in self.cleared else torch.empty
            out[name] = make(shape, dtype=kind, device=device)
        return out

    # ---- rules -------------------------------------------------------------------------------
    def _declared(self, out: Any) -> dict[str, Any]:
        names = list(self.body.results)
        if out is None:
            return {}
        if isinstance(out, Mapping):
            wrong = [n for n in out if n not in names]
            if wrong:
                raise ArgumentError(
                    f"{self.op}: out names '{wrong[0]}', which is no result",
                    allowed=", ".join(names),
                )
            return dict(out)
        if len(names) != 1:
            raise ArgumentError(
                f"{self.op}: out must say which result each shape is for",
                got=repr(out),
                allowed=f"a dict: out={{{', '.join(f'{n!r}: ...' for n in names)}}}",
            )
        return {names[0]: out}

    def _rule(self, name: str, declared: Any) -> Rule:
        return rule(f"{self.op}: out of '{name}'", declared, self.schema.names)

    def _shape(self, name: str, arguments: Mapping[str, Any]) -> tuple[Any, Any]:
        """The shape, and the dtype if the rule declares one."""
        if name not in self.rules:
            return tuple(self._first(arguments).shape), None
        value = self.rules[name](arguments)
        if isinstance(value, torch.Tensor):
            return tuple(value.shape), None if self.body.results[name] else value.dtype
        dtype = None
        if isinstance(value, tuple) and len(value) == 2 and isinstance(value[1], torch.dtype):
            value, dtype = value
        return tuple(value) if isinstance(value, tuple | list) else (value,), dtype

    def _first(self, arguments: Mapping[str, Any]) -> Any:
        for name in self.schema.tensors:
            return arguments[name]
        raise ArgumentError(
            f"{self.op} has no tensor among its arguments that a result could be like",
            next="say the shape: out='(rows, columns)'",
        )

    # ---- checks ------------------------------------------------------------------------------
    def _check(self, arguments: Mapping[str, Any]) -> Any:
        """The common device of all tensors; raises ArgumentError if there is none."""
        tensors = {n: arguments[n] for n in self.schema.tensors}
        for name, tensor in tensors.items():
            if name in self.dtypes and tensor.dtype not in self.dtypes[name]:
                ctype = self.body.takes[name]
                raise ArgumentError(
                    f"{self.op}: '{name}' has a dtype that the kernel does not take",
                    got=str(tensor.dtype).removeprefix("torch."),
                    allowed=f"{' or '.join(ctype.dtypes)}, for {ctype.spelling}",
                    next=f"convert it: {name}.to(torch.{ctype.dtypes[0]})",
                )
        if not tensors:
            return torch.device("cpu")
        first, model = next(iter(tensors.items()))
        for name, tensor in tensors.items():
            if tensor.device != model.device:
                raise ArgumentError(
                    f"{self.op}: '{name}' is not where '{first}' is",
                    got=f"{tensor.device} and {model.device}",
                    allowed="all tensors on one device: the CPU (simulated GPU) or a GPU",
                    next=f"move it: {name}.to({first}.device)",
                )
            if self.elementwise and tuple(tensor.shape) != tuple(model.shape):
                raise ArgumentError(
                    f"{self.op}: '{name}' has not the shape of '{first}'",
                    got=f"{list(tensor.shape)} and {list(model.shape)}",
                    allowed="equal shapes, where neither grid nor out is declared",
                    next="expand it first, or declare grid= and out= when the op is made",
                )
        return model.device
