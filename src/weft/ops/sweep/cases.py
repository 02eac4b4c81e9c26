"""The cases of the sweep: `CASES` of the module `cases.py` of every family.

    def _drawn(rng: random.Random, most: int) -> Call:      # `most`: elements in a tensor
        x = draw.tensor(rng, draw.shape(rng, (2, 3), most), rng.choice(FLOATS))
        labels = draw.integers((x.shape[0],), 0, 10)        # indices; None for a missing tensor
        return Call("my_op", (x, labels), {"eps": 1e-5})

    CASE = Case("my_op", _drawn, F.my_op, depth=lambda call: call.shape()[-1])
    CASES = (CASE, CASE.with_backward(roundings=8))         # the second: "my_op backward"

The tensors of a call are the positional arguments and its options the keyword arguments of the op
and of the peer. Each result, and with backward each gradient of a floating-point tensor whose
`grad` is True, is compared with the same in float64. `weft bench ops --ops "my_op backward"` times
forward plus backward; tests/ops/test_ops_sweep.py makes the same calls at small sizes.
"""

from __future__ import annotations

from weft.ops.core import library
from weft.ops.sweep.case import Case


def families() -> dict[str, tuple[Case, ...]]:
    """The cases of each family, by its name."""
    return {family: tuple(found.CASES) for family, found in library.modules("cases").items()}


CASES = tuple(case for cases in families().values() for case in cases)
