"""The judge: what it must refuse, each beside an honest twin that must pass."""

from __future__ import annotations

import ctypes
import json
import threading
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from typer.testing import CliRunner, Result

import weft
from weft.cli import app
from weft.measure.check import input_data, tolerance
from weft.measure.dtypes import find

Array = np.ndarray[Any, Any]
Solution = Callable[..., Any]

SCALE = weft.Op(
    "scale",
    "x:f32[n] -> y:f32[n]",
    reference=lambda x: 3 * x,
    cases=[weft.Case(n=1024), weft.Case(n=1000, why="ragged"), weft.Case(n=1), weft.Case(n=0)],
)
ROWSUM = weft.Op(
    "rowsum",
    "x:f32[m,k] -> y:f32[m]",
    reference=lambda x: x.sum(axis=1),
    cases=[weft.Case(m=8, k=4096), weft.Case(m=3, k=1000, why="ragged")],
)
MATMUL = weft.Op(
    "matmul",
    "A:f32[M,K] B:f32[K,N] -> C:f32[M,N]",
    reference=lambda A, B: A @ B,
    cases=[weft.Case(M=32, N=32, K=64), weft.Case(M=33, N=17, K=65, why="ragged")],
)
HALF_SUM = weft.Op(
    "halfsum",
    "x:f16[m,k] -> y:f16[m]",
    reference=lambda x: x.sum(axis=1),
    cases=[weft.Case(m=64, k=2048)],
)
SOFTMAX = weft.Op(
    "softmax", "x:f32[m,n] -> y:f32[m,n]",
    reference=lambda x: np.exp(x - x.max(1, keepdims=True))
    / np.exp(x - x.max(1, keepdims=True)).sum(1, keepdims=True),
    cases=[weft.Case(m=4, n=300)],
)  # fmt: skip

GATHER = weft.Op(
    "gather",
    "x:f32[k] at:i32[n] in 0..k-1 -> y:f32[n]",
    reference=lambda x, at: x[at],
    cases=[weft.Case(k=50, n=300), weft.Case(k=1, n=9)],
)
LAYERNORM = weft.Op(
    "layernorm",
    "x:f32[m,n] -> y:f32[m,n]",
    reference=lambda x: (x - x.mean(1, keepdims=True)) / np.sqrt(x.var(1, keepdims=True) + 1e-5),
    cases=[weft.Case(m=8, n=1024)],
)


def integers(name: str, signature: str, reference: Callable[..., Any]) -> weft.Op:
    return weft.Op(name, signature, reference, [weft.Case(n=500), weft.Case(n=3)])


COPY64 = integers("copy", "x:i64[n] -> y:i64[n]", lambda x: x)
BYTES = integers("bytes", "x:u8[n] -> y:i32[n]", lambda x: x.astype(np.int64))
TOTAL = integers("total", "x:u32[n] -> y:u64[1]", lambda x: x.sum(keepdims=True))
NEXT = integers("next", "x:i32[n] -> y:i32[n]", lambda x: x + 1)
HALVED = integers("halved", "x:u32[n] -> y:u32[n]", lambda x: x >> 1)
LARGER = integers("larger", "x:u32[n] z:u32[n] -> y:bool[n]", lambda x, z: x > z)
MEAN = integers("mean", "x:i32[n] -> y:f32[1]", lambda x: x.mean(keepdims=True))

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
    gate = threading.Event()

    def work() -> None:
        gate.wait()
        y[...] = 3 * x

    thread = threading.Thread(target=work)
    thread.start()
    _calls.setdefault("running", []).append((gate, thread))


def late_but_joined(x: Array, y: Array) -> None:
    late(x, y)
    finish(*_calls["running"].pop())


def finish(gate: threading.Event, thread: threading.Thread) -> None:
    gate.set()
    thread.join()


def gives_up_after_some_calls(x: Array, y: Array) -> None:
    _calls["count"] = _calls.get("count", 0) + 1
    y[...] = 3 * x if _calls["count"] < 6 else 0


def past_the_end(x: Array, y: Array) -> None:
    y[...] = 3 * x
    ctypes.memset(y.ctypes.data + y.nbytes, 0, 4)


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
    e = np.exp(x - x.max(1, keepdims=True))
    y[...] = e / e.sum(1, keepdims=True)


def overflowing_softmax(x: Array, y: Array) -> None:
    y[...] = np.exp(x) / np.exp(x).sum(1, keepdims=True)


def only_where_poisoned(x: Array, y: Array) -> None:
    if np.isnan(y).all():
        y[...] = 3 * x


def lazy_in_between(x: Array, y: Array) -> None:
    """Works in the runs that are compared twice, and not in those of a timing."""
    _calls["count"] = _calls.get("count", 0) + 1
    y[...] = 0 if 5 <= _calls["count"] <= 14 else 3 * x


def altered_later(x: Array, y: Array) -> None:
    y[...] = 3 * x
    _calls["alter"] = lambda: y.fill(0)


def exits(x: Array, y: Array) -> None:
    raise SystemExit(0)


def copies(x: Array, y: Array) -> None:
    y[...] = x


def copies_bytes(x: Array, y: Array) -> None:
    y[...] = x.astype(np.int8)


def copies_doubles(x: Array, y: Array) -> None:
    y[...] = np.minimum(x.astype(np.float64), 2.0**62).astype(np.int64)


def signed_bytes(x: Array, y: Array) -> None:
    y[...] = x.view(np.int8)


def honest_total(x: Array, y: Array) -> None:
    y[0] = x.sum()


def total_in_32_bits(x: Array, y: Array) -> None:
    y[0] = x.sum(dtype=np.uint32)


def honest_next(x: Array, y: Array) -> None:
    y[...] = x + np.int32(1)


def next_saturated(x: Array, y: Array) -> None:
    y[...] = np.minimum(x.astype(np.int64) + 1, 2**31 - 1)


def next_in_float(x: Array, y: Array) -> None:
    y[...] = (x.astype(np.float32) + 1).astype(np.int64).astype(np.int32)


def honest_halved(x: Array, y: Array) -> None:
    y[...] = x >> np.uint32(1)


def halved_with_sign(x: Array, y: Array) -> None:
    y[...] = (x.view(np.int32) >> 1).view(np.uint32)


def honest_larger(x: Array, z: Array, y: Array) -> None:
    y[...] = x > z


def larger_by_difference(x: Array, z: Array, y: Array) -> None:
    y[...] = (x - z).view(np.int32) > 0


def honest_mean(x: Array, y: Array) -> None:
    y[0] = x.astype(np.float32).sum() / np.float32(x.size)


def mean_in_32_bits(x: Array, y: Array) -> None:
    y[0] = x.sum(dtype=np.int32) / np.float32(x.size)


def honest_gather(x: Array, at: Array, y: Array) -> None:
    y[...] = x[at]


def gather_off_by_one(x: Array, at: Array, y: Array) -> None:
    y[...] = x[at - 1]


def layernorm(x: Array, y: Array, eps: float = 1e-5) -> None:
    y[...] = (x - x.mean(1, keepdims=True)) / np.sqrt(x.var(1, keepdims=True) + np.float32(eps))


def layernorm_rounded(x: Array, y: Array) -> None:
    layernorm(x, y)
    y[...] = find("bf16").decode(find("bf16").encode(y))


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
    Cheat(SCALE, gives_up_after_some_calls, honest_scale, "more runs: "),
    Cheat(SCALE, past_the_end, honest_scale, "y[1024] of 1024 float32 was overwritten"),
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
    Cheat(SCALE, only_where_poisoned, honest_scale, "in the second of two runs"),
    Cheat(SCALE, lazy_in_between, honest_scale, "more runs: "),
    Cheat(SCALE, exits, honest_scale, "ends the program"),
    Cheat(COPY64, copies_bytes, copies, "are wrong"),
    Cheat(COPY64, copies_doubles, copies, "are wrong"),
    Cheat(BYTES, signed_bytes, copies, "are wrong"),
    Cheat(TOTAL, total_in_32_bits, honest_total, "are wrong"),
    Cheat(NEXT, next_saturated, honest_next, "are wrong"),
    Cheat(NEXT, next_in_float, honest_next, "are wrong"),
    Cheat(HALVED, halved_with_sign, honest_halved, "are wrong"),
    Cheat(LARGER, larger_by_difference, honest_larger, "are wrong"),
    Cheat(MEAN, mean_in_32_bits, honest_mean, "are wrong"),
    Cheat(GATHER, gather_off_by_one, honest_gather, "are wrong"),
    Cheat(LAYERNORM, layernorm_rounded, layernorm, "every result is a number of bfloat16"),
]
_ids = [c.wrong.__name__ for c in CHEATS]


@pytest.mark.parametrize("cheat", CHEATS, ids=_ids)
def test_cheats_are_refused(cheat: Cheat) -> None:
    _calls.clear()
    with pytest.raises(weft.CheckFailed) as raised:
        weft.check(cheat.op, cheat.wrong)
    for running in _calls.get("running", []):
        finish(*running)
    assert cheat.says in str(raised.value)
    assert raised.value.seed


@pytest.mark.parametrize("cheat", CHEATS, ids=_ids)
def test_honest_twins_pass(cheat: Cheat) -> None:
    report = weft.check(cheat.op, cheat.right)
    room = 1.0 if cheat.op is HALF_SUM else 0.6  # half an ulp of rounding is all that half has
    assert report.worst < room, "noise should stay well inside of what is allowed"
    assert report.deterministic


def test_an_output_that_is_altered_later_is_refused() -> None:
    """The reference is called between the runs: there it is altered, whatever the machine does."""

    def reference(x: Array) -> Array:
        _calls.pop("alter", lambda: None)()
        return 3 * x

    op = weft.Op("scale", "x:f32[n] -> y:f32[n]", reference, [weft.Case(n=64)])
    with pytest.raises(weft.CheckFailed, match="was changed after the call had ended"):
        weft.check(op, altered_later)
    _calls.clear()
    weft.check(op, honest_scale)


def test_small_errors_alone_are_not_called_low_precision() -> None:
    with pytest.raises(weft.CheckFailed) as raised:
        weft.check(LAYERNORM, lambda x, y: layernorm(x, y, eps=1.0))
    assert raised.value.cause == ""


@pytest.mark.parametrize(
    ("reference", "says"),
    [
        (lambda x: 1 / 0, "raises an error.*ZeroDivisionError"),
        (lambda x: exit(0), "raises an error.*SystemExit"),
        (lambda x: x[:3], r"shape \(3,\)"),
        (lambda x: (x, x), "gives 2 results"),
        (lambda x: x * 1j, "dtype complex128"),
        (lambda x: "text", "dtype <U4"),
    ],
)
def test_a_reference_of_no_use_is_named(reference: Solution, says: str) -> None:
    op = weft.Op("any", "x:f32[n] -> y:f32[n]", reference, [weft.Case(n=64)])
    with pytest.raises(weft.ArgumentError, match=f"(?s)the reference of any/honest_scale.*{says}"):
        weft.check(op, honest_scale)


def test_a_float_reference_of_integers_must_give_integers() -> None:
    op = integers("half", "x:i32[n] -> y:i32[n]", lambda x: x / 2)
    with pytest.raises(weft.ArgumentError, match="dtype float64 with values that i32 does not"):
        weft.check(op, copies)


def test_the_coarsest_input_decides_how_precise_a_result_is() -> None:
    x = np.linspace(1, 2, 100, dtype=np.float32)
    with pytest.raises(weft.CheckFailed, match="every result is a number of half"):
        weft.check(lambda x: (x / 3).astype(np.float16), x, reference=lambda x: x / 3)
    weft.check(lambda x: (x / 3).astype(np.float16), x, reference=lambda x: x / 3, result="f16")
    weft.check(lambda x: x / np.float32(3), x, reference=lambda x: x / 3)


def test_uint16_is_an_integer() -> None:
    x = np.arange(100, dtype=np.uint16)
    weft.check(lambda x: x + np.uint16(1), x, reference=lambda x: x + 1)
    with pytest.raises(weft.CheckFailed, match="1 of 100"):
        weft.check(lambda x: np.where(x == 50, x, x + np.uint16(1)), x, reference=lambda x: x + 1)


def test_integers_of_a_callable_are_drawn_where_that_is_said() -> None:
    def clipped(x: Array) -> Array:
        return np.minimum(x, 1000)

    x = np.arange(100, dtype=np.int32)
    weft.check(clipped, x, reference=lambda x: x)
    weft.check(clipped, x, reference=lambda x: x, ranges={"x": (0, 1000)})
    with pytest.raises(weft.CheckFailed, match="are wrong"):
        weft.check(clipped, x, reference=lambda x: x, ranges={"x": None})
    with pytest.raises(weft.ArgumentError, match="names no array"):
        weft.check(clipped, x, reference=lambda x: x, ranges={"z": None})


def test_integer_data_reaches_the_ends_of_every_type() -> None:
    rng = np.random.default_rng(5)
    for dtype in (find(f"{kind}{bits}") for kind in "iu" for bits in (8, 16, 32, 64)):
        values = input_data.random(rng, (4000,), dtype)
        low, high = dtype.range
        assert {low, high, 0, 1, 127} <= set(values.tolist())
        assert len(set(values.tolist())) > (200 if dtype.numpy.itemsize == 1 else 1500)
        inside = input_data.random(rng, (4000,), dtype, (3, 9))
        assert set(inside.tolist()) == set(range(3, 10))


def test_a_fill_that_does_not_fit_is_named() -> None:
    op = weft.Op(
        "any", "x:i32[n] -> y:i32[n]", lambda x: x, [weft.Case(n=64)],
        fill={"x": lambda rng, shape: rng.integers(0, 9, shape)},
    )  # fmt: skip
    with pytest.raises(weft.ArgumentError, match="fill of 'x' of any does not fit"):
        weft.check(op, copies)


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


def test_solutions_get_different_data_of_one_seed() -> None:
    first: dict[str, bytes] = {}

    def one(x: Array, y: Array) -> None:
        first.setdefault("one", x.tobytes())
        y[...] = 3 * x

    def other(x: Array, y: Array) -> None:
        first.setdefault("other", x.tobytes())
        y[...] = 3 * x

    for solution in (one, other):
        weft.check(SCALE, solution, seed=7)
    assert first["one"] != first["other"]


def test_not_deterministic_is_said() -> None:
    def jitter(x: Array, y: Array) -> None:
        y[...] = 3 * x * np.float32(1 + np.random.default_rng().integers(0, 2) * 2.0**-23)

    assert not weft.check(SCALE, jitter).deterministic
    assert "NOT deterministic" in str(weft.check(SCALE, jitter))


@pytest.mark.parametrize(
    ("op", "terms"), [(SCALE, 1), (ROWSUM, 4096), (MATMUL, 128), (SOFTMAX, 300)]
)
def test_terms_are_found_by_changing_inputs(op: weft.Op, terms: int) -> None:
    rng, case = np.random.default_rng(3), op.cases[0]
    inputs = {s.name: rng.standard_normal(s.shape(case)) for s in op.inputs}

    def reference(many: Sequence[Mapping[str, Array]]) -> list[list[Array]]:
        return [[op.reference(*given.values())] for given in many]

    expected = reference([inputs])[0]
    assert tolerance.terms(reference, inputs, expected, rng, list(inputs)) == terms


def test_tolerance_of_denormals_is_their_spacing() -> None:
    """A denormal of float16 is rounded to a multiple of 2**-24, however small it is."""
    f16, f32 = find("f16"), find("f32")
    exact = np.array([1.1e-5, 3e-8, 0.0])
    wrong = np.abs(exact - exact.astype(np.float16))
    assert (wrong <= tolerance.allowed(exact, np.zeros(3), f16, f32, 1)).all()
    assert (tolerance.allowed(exact, np.zeros(3), f16, f32, 1) < 2.0**-24).all()


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
        ("x:i32[n] in 5 -> y:i32[n]", "signature cannot be read"),
        ("x:i32[n] in 5..3 -> y:i32[n]", "invalid range"),
        ("x:u8[n] in 0..n*100 -> y:i32[n]", "invalid range"),
    ],
)
def test_bad_signatures(signature: str, says: str) -> None:
    with pytest.raises(weft.ArgumentError, match=says):
        weft.Op("bad", signature, lambda x: x, [weft.Case(n=4)])


def test_an_op_without_cases_is_refused() -> None:
    with pytest.raises(weft.ArgumentError, match="no case to be judged on"):
        weft.Op("bad", "x:f32[n] -> y:f32[n]", lambda x: x, cases=[])


FILE = """
import numpy as np, weft

op = weft.Op("square", "x:f32[n] -> y:f32[n]", lambda x: x * x, [weft.Case(n=100)])

@op.solution
def right(x, y, n):
    y[...] = x * x

@op.solution
def half(x, y, n):
    y[: n // 2] = x[: n // 2] ** 2
"""


def _run(*arguments: str) -> Result:
    return CliRunner().invoke(app, ["check", *arguments])


@pytest.fixture
def file(tmp_path: Path) -> str:
    path = tmp_path / "square.py"
    path.write_text(FILE)
    return str(path)


def test_a_file_is_checked(file: str) -> None:
    result = _run(file)
    assert result.exit_code == 1
    assert "✓ square/right: right on 10 trials" in result.stdout
    assert "unwritten elements: 50 of 100 elements" in result.stdout
    assert "repeat it with seed=" in result.stdout
    assert _run(file, "--only", "right").exit_code == 0


def test_a_file_is_checked_for_machines(file: str) -> None:
    right, half = json.loads(_run(file, "--json", "--seed", "5").stdout)
    assert right["ok"] and right["seed"] == 5
    assert not half["ok"] and half["cause"] == "unwritten elements" and half["seed"] == 5


def test_nothing_to_check(file: str, tmp_path: Path) -> None:
    assert "did you mean 'half'?" in _run(file, "--only", "halv").output
    empty = tmp_path / "empty.py"
    empty.write_text("x = 1\n")
    assert "no weft.Op with a solution" in _run(str(empty)).output
    assert "no such file" in _run(str(tmp_path / "none.py")).output
    assert "this is a folder" in _run(str(tmp_path)).output


@pytest.mark.parametrize(
    ("text", "said"),
    [("import weft\n\n1 / 0\n", ":3"), ("x = 1\nif True\n", ":2"), ("import none_such\n", ":1")],
    ids=["raises", "syntax", "missing module"],
)
def test_a_file_that_raises_is_named_with_its_line(text: str, said: str, tmp_path: Path) -> None:
    path = tmp_path / "broken.py"
    path.write_text(text)
    result = _run(str(path))
    assert result.exit_code == 2
    assert f"broken.py{said}: the file raises an error" in result.output.replace("\n", "")


@pytest.mark.parametrize("name, bits", [("f16", 0x7C01), ("bf16", 0x7F81), ("f32", 0x7F800001)])
def test_a_signalling_nan_is_a_nan(name: str, bits: int) -> None:
    """An output that is not written may hold one; warnings are errors here."""
    dtype = find(name)
    stored = np.array([bits], f"u{dtype.numpy.itemsize}").view(dtype.numpy)
    assert np.isnan(dtype.decode(stored)).all()
