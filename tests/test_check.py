"""The judge: what it must refuse, each beside an honest twin that must pass."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np
import pytest

import weft
from weft.measure import tolerance
from weft.measure.dtypes import find

Array = np.ndarray[Any, Any]
Solution = Callable[..., Any]

SCALE = weft.Op(
    "scale", "x:f32[n] -> y:f32[n]",
    reference=lambda x: 3 * x,
    cases=[weft.Case(n=1024), weft.Case(n=1000, why="ragged"), weft.Case(n=1), weft.Case(n=0)],
)  # fmt: skip
ROWSUM = weft.Op(
    "rowsum", "x:f32[m,k] -> y:f32[m]",
    reference=lambda x: x.sum(axis=1),
    cases=[weft.Case(m=8, k=4096), weft.Case(m=3, k=1000, why="ragged")],
)  # fmt: skip
MATMUL = weft.Op(
    "matmul", "A:f32[M,K] B:f32[K,N] -> C:f32[M,N]",
    reference=lambda A, B: A @ B,
    cases=[weft.Case(M=32, N=32, K=64), weft.Case(M=33, N=17, K=65, why="ragged")],
)  # fmt: skip
HALF_SUM = weft.Op(
    "halfsum", "x:f16[m,k] -> y:f16[m]",
    reference=lambda x: x.sum(axis=1),
    cases=[weft.Case(m=64, k=2048)],
)  # fmt: skip
SOFTMAX = weft.Op(
    "softmax", "x:f32[m,n] -> y:f32[m,n]",
    reference=lambda x: np.exp(x - x.max(1, keepdims=True))
    / np.exp(x - x.max(1, keepdims=True)).sum(1, keepdims=True),
    cases=[weft.Case(m=4, n=300)],
    reduce="n",
)  # fmt: skip

_calls: dict[str, Any] = {}


def honest_scale(x: Array, y: Array) -> None:
    y[...] = 3 * x


def zeros(x: Array, y: Array) -> None:
    y[...] = 0


def constants(x: Array, y: Array) -> None:
    y[...] = np.float32(3)


def stale(x: Array, y: Array) -> None:
    """Writes nothing."""


def partly_written(x: Array, y: Array) -> None:
    y[: len(x) // 2] = 3 * x[: len(x) // 2]


def cached_by_pointer(x: Array, y: Array) -> None:
    key = ("cached", x.ctypes.data, x.shape)
    if key not in _calls:
        _calls[key] = 3 * x
    y[...] = _calls[key]


def changes_its_input(x: Array, y: Array) -> None:
    y[...] = 3 * x
    x[:1] = 0


def wrong_at_ragged_sizes(x: Array, y: Array) -> None:
    whole = len(x) // 128 * 128
    y[:whole] = 3 * x[:whole]
    y[whole:] = 0


def wrong_in_one_block(x: Array, y: Array) -> None:
    y[...] = 3 * x
    y[256:384] += np.float32(1e-3)


def late(x: Array, y: Array) -> None:
    def work() -> None:
        time.sleep(0.02)
        y[...] = 3 * x

    thread = threading.Thread(target=work)
    thread.start()
    _calls.setdefault("threads", []).append(thread)


def late_but_joined(x: Array, y: Array) -> None:
    late(x, y)
    _calls["threads"].pop().join()


def gives_up_after_some_calls(x: Array, y: Array) -> None:
    _calls["count"] = _calls.get("count", 0) + 1
    y[...] = 3 * x if _calls["count"] < 6 else 0


def past_the_end(x: Array, y: Array) -> None:
    y[...] = 3 * x
    whole = y.base if y.base is not None else y
    while whole.base is not None:
        whole = whole.base
    start = y.ctypes.data - whole.ctypes.data + y.nbytes
    whole[start : start + 4] = 0


def depends_on_what_was_there(x: Array, y: Array) -> None:
    y += 3 * x


def random_noise(x: Array, y: Array) -> None:
    y[...] = 3 * x * (1 + np.random.default_rng().normal(size=x.shape) * 1e-4)


def nans(x: Array, y: Array) -> None:
    y[...] = np.nan


def only_positive(x: Array, y: Array) -> None:
    y[...] = np.abs(3 * x)


def small_numbers_only(x: Array, y: Array) -> None:
    y[...] = np.clip(3 * x, -30, 30)


def shifted(x: Array, y: Array) -> None:
    y[...] = np.roll(3 * x, 1)


def loses_nan(x: Array, y: Array) -> None:
    y[...] = np.nan_to_num(3 * x, nan=0, posinf=np.inf, neginf=-np.inf)


def honest_rowsum(x: Array, y: Array) -> None:
    y[...] = np.add.accumulate(x, axis=1)[:, -1]  # one by one, in float32


def rowsum_in_half(x: Array, y: Array) -> None:
    y[...] = x.astype(np.float16).astype(np.float32).sum(axis=1)


def honest_matmul(A: Array, B: Array, C: Array) -> None:
    C[...] = A @ B


def transposed(A: Array, B: Array, C: Array) -> None:
    C[...] = (A @ B).T.reshape(C.shape)


def tf32(A: Array, B: Array, C: Array) -> None:
    kept = np.uint32(0xFFFFE000)
    a, b = ((v.view(np.uint32) & kept).view(np.float32) for v in (A, B))
    C[...] = a @ b


def honest_halfsum(x: Array, y: Array) -> None:
    y[...] = x.astype(np.float32).sum(axis=1).astype(np.float16)


def halfsum_in_half(x: Array, y: Array) -> None:
    y[...] = np.add.accumulate(x, axis=1)[:, -1]


def honest_softmax(x: Array, y: Array) -> None:
    with np.errstate(all="ignore"):
        e = np.exp(x - x.max(1, keepdims=True))
        y[...] = e / e.sum(1, keepdims=True)


def overflowing_softmax(x: Array, y: Array) -> None:
    with np.errstate(all="ignore"):
        y[...] = np.exp(x) / np.exp(x).sum(1, keepdims=True)


@dataclass(frozen=True)
class Cheat:
    """A wrong solution, its honest twin, and a word of what must be said."""

    op: weft.Op
    wrong: Solution
    right: Solution
    says: str


CHEATS = [
    Cheat(SCALE, zeros, honest_scale, "constant output"),
    Cheat(SCALE, constants, honest_scale, "constant output"),
    Cheat(SCALE, stale, honest_scale, "unwritten elements"),
    Cheat(SCALE, partly_written, honest_scale, "unwritten elements"),
    Cheat(SCALE, cached_by_pointer, honest_scale, "are wrong"),
    Cheat(SCALE, changes_its_input, honest_scale, "changes its input 'x'"),
    Cheat(SCALE, wrong_at_ragged_sizes, honest_scale, "n=1000 (ragged)"),
    Cheat(SCALE, wrong_in_one_block, honest_scale, "128 of 1024 elements"),
    Cheat(SCALE, late, late_but_joined, "unwritten elements"),
    Cheat(SCALE, gives_up_after_some_calls, honest_scale, "after 10 more runs"),
    Cheat(SCALE, past_the_end, honest_scale, "0 past the end of its 4096 bytes"),
    Cheat(SCALE, depends_on_what_was_there, honest_scale, "1024 of 1024"),
    Cheat(SCALE, random_noise, honest_scale, "missing synchronisation"),
    Cheat(SCALE, nans, honest_scale, "inf or nan where the reference is finite"),
    Cheat(SCALE, only_positive, honest_scale, "are wrong"),
    Cheat(SCALE, small_numbers_only, honest_scale, "huge"),
    Cheat(SCALE, shifted, honest_scale, "index off by one"),
    Cheat(SCALE, loses_nan, honest_scale, "one nan"),
    Cheat(ROWSUM, rowsum_in_half, honest_rowsum, "accumulation in low precision"),
    Cheat(MATMUL, transposed, honest_matmul, "transposed index"),
    Cheat(MATMUL, tf32, honest_matmul, "rounded to TF32"),
    Cheat(HALF_SUM, halfsum_in_half, honest_halfsum, "accumulation in low precision"),
    Cheat(SOFTMAX, overflowing_softmax, honest_softmax, "overflow on the way"),
]
_ids = [c.wrong.__name__ for c in CHEATS]


@pytest.mark.parametrize("cheat", CHEATS, ids=_ids)
def test_cheats_are_refused(cheat: Cheat) -> None:
    _calls.clear()
    with pytest.raises(weft.CheckFailed) as raised:
        weft.check(cheat.op, cheat.wrong)
    for thread in _calls.get("threads", []):
        thread.join()
    assert cheat.says in str(raised.value)
    assert raised.value.seed


@pytest.mark.parametrize("cheat", CHEATS, ids=_ids)
def test_honest_twins_pass(cheat: Cheat) -> None:
    report = weft.check(cheat.op, cheat.right)
    room = 1.0 if cheat.op is HALF_SUM else 0.6  # half an ulp of rounding is all that half has
    assert report.worst < room, "noise should stay well inside of what is allowed"
    assert report.deterministic


def test_zeros_that_cannot_be_told_from_the_answer_are_no_pass() -> None:
    op = weft.Op("nothing", "x:f32[n] -> y:f32[n]", lambda x: 0 * x, [weft.Case(n=64)])
    with pytest.raises(weft.CheckFailed, match="zeros would pass"):
        weft.check(op, lambda x, y: np.copyto(y, 0 * x), specials=())


def test_a_seed_repeats_a_failure() -> None:
    texts = set()
    for _ in range(2):
        with pytest.raises(weft.CheckFailed) as raised:
            weft.check(SCALE, wrong_in_one_block, seed=7)
        texts.add(str(raised.value))
    assert len(texts) == 1


def test_not_deterministic_is_said() -> None:
    def jitter(x: Array, y: Array) -> None:
        y[...] = 3 * x * np.float32(1 + np.random.default_rng().integers(0, 2) * 2.0**-23)

    assert not weft.check(SCALE, jitter).deterministic
    assert "NOT deterministic" in str(weft.check(SCALE, jitter))


def test_tolerance_grows_with_the_root_of_the_terms() -> None:
    one, f32 = np.ones(1), find("f32")
    narrow = tolerance.allowed(one, one, f32, f32, 1)
    assert tolerance.allowed(one, one, f32, f32, 10_000) == pytest.approx(narrow * 100, rel=0.2)


@pytest.mark.parametrize(
    ("signature", "says"),
    [
        ("x:f32[n]", "signature cannot be read"),
        ("x:f32[n] -> y:f33[n]", "no element type 'f33'"),
        ("x:f32[n] -> y:f32[m]", "cannot be computed from the sizes"),
        ("x:f32[n] > y", "signature cannot be read"),
    ],
)
def test_bad_signatures(signature: str, says: str) -> None:
    with pytest.raises(weft.ArgumentError, match=says):
        weft.Op("bad", signature, lambda x: x, [weft.Case(n=4)])
