"""Values that say what became of a compiled graph: its kernels, and what PyTorch computes."""

from __future__ import annotations

from collections import deque
from dataclasses import dataclass, field

KEPT = 256
"""The most reports that are kept."""


@dataclass(frozen=True)
class StepReport:
    """One step of a compiled graph.

    kind   "fused" (a kernel that weft has written), "op" (an op of weft) or "torch"
    name   the op, or the operations of the kernel
    bytes  of the tensors that the step reads and makes
    why    the reason why PyTorch computes it; "" for others
    """

    kind: str
    name: str
    bytes: int
    why: str = ""


@dataclass
class GraphReport:
    """A compiled graph.

    kind       "forward", "backward" or "inference"
    steps      in the order in which they run; views, which move no data, are left out
    left       calls of torch functions that were left to PyTorch, with the reason
    replaced   how many calls of each torch function became an op of weft
    """

    kind: str
    steps: list[StepReport] = field(default_factory=list)
    left: dict[str, str] = field(default_factory=dict)
    replaced: dict[str, int] = field(default_factory=dict)

    def __str__(self) -> str:
        lines = [f"{self.kind}: {len(self.steps)} steps"]
        for step in self.steps:
            why = f" ({step.why})" if step.why else ""
            lines.append(f"  {step.kind:5}  {step.bytes:>14,} bytes  {step.name}{why}")
        lines += [f"  left to PyTorch: {name}: {why}" for name, why in self.left.items()]
        return "\n".join(lines)


REPORTS: deque[GraphReport] = deque(maxlen=KEPT)
"""The reports of this process, the oldest first."""
