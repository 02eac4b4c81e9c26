"""Choose a kernel: the candidate with the least modelled time, or a measured winner.

A family of ops returns candidates for a request. The one with the least modelled time is used,
unless `weft tune` has measured a faster one for this request on this GPU.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

from weft import cache
from weft.errors import ArgumentError
from weft.ops.core.plan import Layout, Plan
from weft.ops.core.target import Target


@dataclass(frozen=True)
class Request:
    """A call of an op: the layouts of its tensors (None for an omitted one) and its options.

    options    the arguments that are not tensors, by name
    invariant  candidates may not depend on the number of rows: see invariant.py
    """

    op: str
    inputs: tuple[Layout | None, ...]
    options: dict[str, Any]
    target: Target
    invariant: bool = False

    @property
    def first(self) -> Layout:
        """The layout of the first tensor."""
        layout = self.inputs[0]
        assert layout is not None
        return layout

    def key(self) -> str:
        """A key that is equal for requests with the same plan."""
        tensors = [
            None if t is None else [str(t.dtype), *map(list, (t.shape, t.strides)), t.aligned]
            for t in self.inputs
        ]
        return json.dumps([self.op, tensors, sorted(self.options.items())], default=str)


@dataclass(frozen=True)
class Candidate:
    """One kernel configuration for a request.

    name   identifies it among the candidates of its family, e.g. "warp per row"
    cost   modelled seconds
    why    the figures behind the cost, as text
    build  makes the plan; this compiles the kernels
    order  that of its sums: candidates with the same one give a row the same bits, whatever the
           number of rows; "": an order of its own
    """

    name: str
    cost: float
    why: str
    build: Callable[[], Plan]
    order: str = ""


@dataclass(frozen=True)
class Choice:
    """The chosen candidate and the others."""

    used: Candidate
    others: tuple[Candidate, ...]
    measured: bool


def choose(request: Request, candidates: Sequence[Candidate]) -> Choice:
    """Choose among the candidates."""
    if not candidates:
        raise ArgumentError(f"weft.ops.{request.op}: no kernel takes these tensors")
    ranked = sorted(candidates, key=lambda c: c.cost)
    best = winner(request)
    # A stored winner may be gone after an update of weft: then the model decides.
    used = next((c for c in ranked if c.name == best), ranked[0])
    return Choice(used, tuple(c for c in ranked if c is not used), used.name == best)


# ---- measured winners --------------------------------------------------------------------------
def winner(request: Request) -> str:
    """The name of the measured fastest candidate, or ""."""
    stored = cache.get("tuned", key(request))
    return stored.decode() if stored is not None else ""


def remember(key: str, name: str) -> bool:
    """Store a measured winner in the user's cache; False if the cache is unusable."""
    return cache.put("tuned", key, name.encode())


def key(request: Request) -> str:
    """The key of a request's winner: the same for all processes with the same GPU model."""
    return cache.key("tuned", request.target.name, request.key())
