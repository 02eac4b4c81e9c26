"""Make an op whose results for a row do not depend on the other rows of its call.

Its candidates are those of another op that add up a row in one order, whatever the number of rows.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from weft.errors import ArgumentError
from weft.ops.core.choose import Candidate, Request
from weft.ops.core.function import Definition

SUFFIX = "_invariant"
ROWS = 16
"""The rows that a call is taken to have where a choice would depend on them: few texts decode."""


def invariant(definition: Definition, orders: Sequence[str]) -> Definition:
    """Return the op with candidates of one order: the first of `orders` that a call has.

    The op has no gradient.
    """

    def candidates(request: Request) -> Sequence[Candidate]:
        seen = definition.candidates(replace(request, invariant=True))
        for order in orders:
            if found := [c for c in seen if c.order == order]:
                return found
        raise ArgumentError(
            f"weft.ops.{definition.name}: no kernel computes these rows in the same order in every"
            " batch",
            got=", ".join(str(list(x.shape)) for x in request.inputs if x is not None),
            next="leave batch_invariant out",
        )

    return replace(
        definition,
        name=definition.name + SUFFIX,
        candidates=candidates,
        setup=None,
        backward=None,
        redirect=None,
        vmap="loop",
        autocast=None,
        public=False,
    )
