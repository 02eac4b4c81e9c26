"""Implement `explain`: list the candidates for a call and the chosen one."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any

from weft.errors import ArgumentError
from weft.ops.core.choose import Choice, Request
from weft.ops.core.function import Function
from weft.ops.core.target import named


@dataclass(frozen=True)
class Explanation:
    """The candidates for a call; printed as a table."""

    request: Request
    choice: Choice

    def __str__(self) -> str:
        used, gpu = self.choice.used, self.request.target
        reason = "measured by `weft tune`" if self.choice.measured else "least modelled time"
        where = gpu.name if gpu.real else f"{gpu.name}, simulated"
        lines = [f"{self.request.op} on {where}: {used.name} ({reason})"]
        for candidate in (used, *self.choice.others):
            mark = "->" if candidate is used else "  "
            time = f"{1e6 * candidate.cost:10.1f} µs modelled"
            lines.append(f"{mark} {candidate.name:28} {time}  {candidate.why}")
        return "\n".join(lines)

    def to_dict(self) -> dict[str, Any]:
        """JSON-compatible values."""
        listed = (self.choice.used, *self.choice.others)
        return {
            "op": self.request.op,
            "gpu": self.request.target.name,
            "used": self.choice.used.name,
            "measured": self.choice.measured,
            "candidates": [{"name": c.name, "seconds": c.cost, "why": c.why} for c in listed],
        }


def explain(op: Any, *args: Any, device: str | None = None, **options: Any) -> Explanation:
    """List the candidates for a call with these arguments; see `weft.ops.explain`."""
    function = getattr(op, "op", None)
    if not isinstance(function, Function):
        raise ArgumentError(
            "explain takes an op of the library",
            got=repr(op),
            allowed="weft.ops.softmax, weft.ops.matmul, …",
        )
    request = function.request(*function.bound(args, options))
    if device is not None:
        request = replace(request, target=named(device))
    return Explanation(request, function.choice(request))
