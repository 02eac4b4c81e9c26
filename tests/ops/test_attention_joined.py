"""The gradients of attention side by side in one tensor, held against those in three."""

from __future__ import annotations

from contextlib import nullcontext
from typing import Any, NamedTuple

import pytest

import draw

torch = pytest.importorskip("torch")

import weft  # noqa: E402
from weft.ops.core import library  # noqa: E402
from weft.ops.core.runner import runner  # noqa: E402

F32, F16, BF16 = torch.float32, torch.float16, torch.bfloat16
WORDS = 0, 0
"""A seed and an offset, of which no plan depends."""


class Sizes(NamedTuple):
    """Heads of queries and of keys, their number, elements of a head."""

    heads: int
    shared: int
    rows: int
    each: int
    dtype: Any
    causal: bool = True


CASES = {
    "floats": Sizes(2, 2, 20, 16, F32),
    "shared heads": Sizes(4, 2, 70, 64, BF16),
    "all keys, narrow heads": Sizes(3, 3, 33, 40, F16, causal=False),
}


def _drawn(heads: int, case: Sizes, seed: int) -> Any:
    shape = (2, case.rows, heads, case.each)
    return draw.seeded(seed).normal(shape).to(case.dtype).transpose(1, 2)


@pytest.mark.parametrize("subject", CASES)
def test_gradients_side_by_side(subject: str) -> None:
    """By every kernel, the bits are the same."""
    case = CASES[subject]
    q = _drawn(case.heads, case, 1)
    k, v = (_drawn(case.shared, case, seed) for seed in (2, 3))
    dout = _drawn(case.heads, case, 4)
    out, lse = library.call("attention_lse")(
        q, k, v, None, 0.0, case.causal, None, case.heads > case.shared
    )
    tensors = (dout, None, q, k, v, out, lse, None, None, None, None)
    options = (0, 0, case.causal, None, case.heads > case.shared, 0.0, *WORDS, None)
    ops = [library.function(f"attention_backward{end}") for end in ("", "_joined")]
    choices = [op.choice(op.request(*tensors, *options)) for op in ops]
    pairs = zip(*((c.used, *c.others) for c in choices), strict=True)
    for number, (apart, joined) in enumerate(pairs):
        assert apart.name == joined.name
        want = runner(apart.build(), len(tensors), q.device, len(WORDS))(*tensors, *WORDS)
        run = runner(joined.build(), len(tensors), q.device, len(WORDS))
        with nullcontext() if number else weft.sanitize() as session:
            got = run(*tensors, *WORDS)
        assert session is None or not session.findings
        with weft.schedule("random:4") if not number else nullcontext():
            assert torch.equal(run(*tensors, *WORDS), got)
        flat = [w.transpose(1, 2).reshape(2, case.rows, -1) for w in want]
        assert torch.equal(got, torch.cat(flat, -1)), joined.name
