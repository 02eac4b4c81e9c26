"""Sorts, selections and searches of the library against torch: every kernel, dtypes, strides."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import pytest

import draw
import weft

torch = pytest.importorskip("torch")

from candidates import by  # noqa: E402
from weft.ops.core import library  # noqa: E402
from weft.ops.families.sort import rows, select  # noqa: E402
from weft.ops.families.sort.rows import Tile  # noqa: E402
from weft.ops.sweep import run  # noqa: E402

SEED = 29
SMALL = Tile(8, 2)
"""The smallest tile: rows of a few thousand elements have several, and it compiles quickly."""


@pytest.fixture(autouse=True)
def _small_tiles(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    monkeypatch.setattr(rows, "PASSES", (SMALL,))
    monkeypatch.setattr(rows, "BLOCKS", (SMALL,))
    monkeypatch.setattr(select, "TILE", SMALL)
    yield
    for name in ("sort", "argsort", "topk", "kthvalue", "unique_groups"):
        library.function(name).forget()  # plans of small tiles


def tensor(*shape: int, dtype: Any = torch.float32) -> Any:
    """Elements with many ties; of floating-point numbers also NaN, infinities and both zeros."""
    generator = draw.seeded(sum(shape) + len(shape))
    if dtype == torch.bool:
        return generator.integers(0, 2, shape).bool()
    if not dtype.is_floating_point:
        limits = torch.iinfo(dtype)
        x = generator.integers(-90 if limits.min else 0, 90, shape).to(dtype)
        return x.masked_fill(x == 7, limits.max).masked_fill(x == 8, limits.min)
    x = generator.normal(*shape)
    inf, nan = float("inf"), float("nan")
    for low, value in ((-0.1, 0.0), (0.0, -0.0), (1.0, nan), (1.1, inf), (1.2, -inf), (1.3, -nan)):
        x[(x > low) & (x < low + 0.05)] = value
    return x.to(dtype)


def equal(got: Any, want: Any) -> None:
    """Hold a result against another: bits of numbers, NaN as such, shape and strides."""
    assert got.dtype == want.dtype and got.shape == want.shape and got.stride() == want.stride()
    if want.is_floating_point():
        assert torch.equal(got.isnan(), want.isnan())
        got, want = got.nan_to_num(7, 8, 9), want.nan_to_num(7, 8, 9)
        assert torch.equal(got.signbit(), want.signbit())
    assert torch.equal(got, want)


def part(x: Any, dim: int, descending: bool, first: int = 0, count: int | None = None) -> Any:
    """Some elements of each row that torch has sorted, and their indices."""
    found = torch.sort(x, dim=dim, descending=descending, stable=True)
    if count is None:
        return tuple(found)
    return tuple(t.narrow(dim, first, count).contiguous() for t in found)


# Kernel, shape, dtype, dim, descending.
SORTS = [
    ("1 lanes per row, 8", (9, 5), torch.float32, 1, False),
    ("2 lanes per row, 8", (3, 13, 5), torch.float16, 1, True),
    ("1 lanes per row, 4", (3, 4), torch.float64, 0, True),
    ("block per row", (3, 300), torch.float32, 1, True),
    ("2 radix passes", (2, 1500), torch.bfloat16, 1, False),
    ("1 radix passes", (700, 2), torch.uint8, 0, True),
]
MORE = [
    ("32 lanes per row, 16", (3, 300), torch.float32, 1, False),
    ("2 lanes per row, 8", (20, 9), torch.int8, 1, False),
    ("block per row", (300, 3), torch.int64, 0, False),
    ("block per row", (2, 512), torch.bool, 1, True),
    ("4 radix passes", (2, 3000), torch.float32, 1, True),
    ("8 radix passes", (1100,), torch.int64, 0, False),
    ("8 radix passes", (2, 600), torch.float64, 1, True),
]


def cases(kept: Any, more: Any) -> Any:
    every = [*kept, *(pytest.param(row, marks=pytest.mark.slow) for row in more)]
    return pytest.mark.parametrize("row", every, ids=lambda row: f"{row[0]} {row[2]}")


@cases(SORTS, MORE)
def test_kernels(row: Any) -> None:
    name, shape, dtype, dim, descending = row
    x = tensor(*shape, dtype=dtype)
    for got, want in zip(
        by(name, "sort", x, dim, descending), part(x, dim, descending), strict=True
    ):
        equal(got, want)


@pytest.mark.slow
@pytest.mark.parametrize("row", [*SORTS, *MORE], ids=lambda row: f"{row[0]} {row[2]}")
def test_sanitized(row: Any) -> None:
    name, shape, dtype, dim, descending = row
    x = tensor(*shape, dtype=dtype)
    with weft.sanitize():
        got = by(name, "sort", x, dim, descending)
    equal(got[1], part(x, dim, descending)[1])


def test_passes_that_move_nothing_are_left_out() -> None:
    """All digits but two are equal in a row of small integers; in another row others are."""
    x = torch.stack([tensor(1100, dtype=torch.int32) % 300 + 1000, tensor(1100, dtype=torch.int32)])
    x[0] = x[0].abs()
    got = by("4 radix passes", "sort", x)
    equal(got[0], part(x, 1, False)[0])
    equal(got[1], part(x, 1, False)[1])


@pytest.mark.slow
def test_counts_of_long_rows(monkeypatch: pytest.MonkeyPatch) -> None:
    """Rows of 2**30 elements and more publish 64-bit words."""
    monkeypatch.setattr(rows, "SHORT_STATUS", 0)
    x = tensor(1600, dtype=torch.float16)
    equal(by("2 radix passes", "sort", x)[1], part(x, 0, False)[1])


# Kernel, shape, dtype, dim, k, largest.
TOPS = [
    ("lanes per row", (5, 13), torch.float32, 1, 3, True),
    ("1 rounds of selection", (2, 1300), torch.float32, 1, 7, True),
    ("2 rounds of selection", (5000,), torch.float16, 0, 60, False),
]


@cases(TOPS, [("block per row", (300, 2), torch.int64, 0, 9, False),
              ("radix passes", (2, 1300), torch.uint8, 1, 1000, True),
              ("1 rounds of selection", (1200, 3), torch.int32, 0, 100, False)])  # fmt: skip
def test_topk(row: Any) -> None:
    name, shape, dtype, dim, k, largest = row
    x = tensor(*shape, dtype=dtype)
    with weft.sanitize():
        got = by(name, "topk", x, k, dim, largest)
    for mine, want in zip(got, part(x, dim, largest, 0, k), strict=True):
        equal(mine, want)
    again = weft.ops.kthvalue(x, k, dim)
    for mine, want in zip(again, part(x, dim, False, k - 1, 1), strict=True):
        equal(mine, want.squeeze(dim))


@pytest.mark.parametrize("right", [False, True])
def test_searchsorted(right: bool) -> None:
    sequence = tensor(1500).nan_to_num(0, 2, -2).sort()[0]
    values = torch.cat([tensor(40), sequence[::50]]).reshape(2, 35)
    for kernel in ("samples", "binary"):
        got = by(kernel, "searchsorted", sequence, values, right=right)
        equal(got, torch.searchsorted(sequence, values, right=right))
    few = sequence[::100].contiguous()
    got = by("samples", "searchsorted", few, values, right=right, out_int32=True)
    equal(got, torch.searchsorted(few, values, right=right, out_int32=True))


def test_searchsorted_in_batches() -> None:
    sequences, order = tensor(3, 9, dtype=torch.int32).sort(1)
    values = tensor(3, 4, dtype=torch.int32)
    want = torch.searchsorted(sequences, values, side="right")
    equal(weft.ops.searchsorted(sequences, values, side="right"), want)
    mixed = torch.empty_like(sequences).scatter_(1, order, sequences)
    equal(weft.ops.searchsorted(mixed, values, side="right", sorter=order), want)
    equal(
        weft.ops.searchsorted(sequences.mT.contiguous().mT, values[:, ::2]),
        torch.searchsorted(sequences, values[:, ::2].contiguous()),
    )
    assert weft.ops.searchsorted(sequences[0], 5).tolist() == int(
        torch.searchsorted(sequences[0], 5)
    )
    assert weft.ops.searchsorted(sequences[:, :0], values).tolist() == [[0] * 4] * 3


@pytest.mark.parametrize("dtype", [torch.int32, torch.float16])
def test_unique(dtype: Any) -> None:
    x = tensor(5, 1000, dtype=dtype)[:, ::2]
    want = torch.unique(x, return_inverse=True, return_counts=True)
    got = weft.ops.unique(x, return_inverse=True, return_counts=True)
    equal(got[0].abs(), want[0].abs())  # 0.0 or -0.0
    equal(got[2], want[2])
    numbers = ~x.isnan()  # which NaN is which is open
    assert torch.equal(got[1][numbers], want[1][numbers])
    with weft.sanitize():
        again = by("radix", "unique_groups", x.reshape(-1), False, True)
    equal(again[0][: int(again[3])].abs(), want[0].abs())
    equal(again[2][: int(again[3])], want[2])


@pytest.mark.parametrize("dtype", [torch.float16, torch.bfloat16, torch.int16, torch.uint8])
def test_unique_by_a_bit_for_each_value(dtype: Any) -> None:
    x = tensor(3000, dtype=dtype)[::2]
    with weft.sanitize():
        values, _, _, total = by("presence", "unique_groups", x, False, False)
        again, _, counts, count = by("tally", "unique_groups", x, False, True)
    want = torch.unique(x, return_counts=True)
    equal(values[: int(total)].abs(), want[0].abs())  # 0.0 or -0.0
    equal(again[: int(count)].abs(), want[0].abs())
    equal(counts[: int(count)], want[1])


@pytest.mark.parametrize("lengths", [[2047, 1, 2048, 1, 33, 2840, 5], [6000], [2040, 9, 4000]])
def test_counts_of_long_groups(lengths: list[int]) -> None:
    """A tile finds the end of its last group in the next one, or in one far behind."""
    values = torch.arange(-3, len(lengths) - 3, dtype=torch.int32)
    x = values.repeat_interleave(torch.tensor(lengths))
    x = x[draw.seeded(5).permutation(len(x))]
    with weft.sanitize():
        got, inverse, counts, total = by("radix", "unique_groups", x, True, True)
    assert int(total) == len(lengths)
    assert torch.equal(got[: int(total)], values)
    assert counts[: int(total)].tolist() == lengths
    assert torch.equal(got[inverse], x)


def test_unique_clears_at_most_one_buffer() -> None:
    """Each buffer of zeros would be one more launch."""
    function = library.function("unique_groups")
    for x in (tensor(5000), tensor(5000, dtype=torch.float16), tensor(400)):
        for inverse, counts in ((False, False), (False, True), (True, True)):
            choice = function.choice(function.request(x, inverse, counts))
            for candidate in (choice.used, *choice.others):
                plan = candidate.build()
                cleared = [b for b in (*plan.outputs, *plan.scratch) if b.zeroed]
                assert len(cleared) <= 1, candidate.name


@pytest.mark.parametrize(("count", "name"), [(300, "lanes"), (512, "block"), (3000, "radix")])
def test_unique_of_one_tile(count: int, name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(rows, "BLOCKS", (SMALL, Tile(8, 16)))
    x = tensor(2 * count)[::2]
    with weft.sanitize():
        same_groups(x, *by(name, "unique_groups", x, True, True))


@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16, torch.int64, torch.int8])
@pytest.mark.parametrize("count", [1, 33, 256])
def test_unique_by_pairs(dtype: Any, count: int) -> None:
    x = tensor(2 * count, dtype=dtype)[::2]
    with weft.sanitize():
        same_groups(x, *by("pairs", "unique_groups", x, True, True))


def same_groups(x: Any, values: Any, inverse: Any, counts: Any, total: Any) -> None:
    """Compare the groups of all elements with those of PyTorch."""
    want = torch.unique(x, return_inverse=True, return_counts=True)
    equal(values[: int(total)].abs(), want[0].abs())  # 0.0 or -0.0
    equal(counts[: int(total)], want[2])
    numbers = ~x.isnan()  # which NaN is which is open
    assert torch.equal(inverse[numbers], want[1][numbers])
    assert sorted(inverse.unique().tolist()) == list(range(int(total)))


def test_unique_of_little() -> None:
    for x in (torch.zeros(0), torch.tensor(3), torch.zeros(2, 0), torch.ones(4, dtype=torch.bool)):
        want = torch.unique(x, return_inverse=True, return_counts=True)
        got = weft.ops.unique(x, True, True, True)
        for mine, other in zip(got, want, strict=True):
            equal(mine, other)
    assert weft.ops.unique(torch.tensor([2, 1, 2]), dim=0).tolist() == [1, 2]


def test_strides() -> None:
    """Transposed tensors keep their memory order; others are read with gaps, or copied."""
    wide, cube = tensor(40, 7), tensor(3, 4, 5)
    views = ((wide.t(), 0), (wide[:, ::2], 1), (wide[::3, 1:].t(), 0), (cube.permute(2, 0, 1), 1),
             (cube[:, ::2, ::2].permute(2, 1, 0), 2), (wide[:1].expand(3, 7), 0))  # fmt: skip
    for x, dim in views:
        got, want = weft.ops.sort(x, dim), part(x, dim, False)
        assert torch.equal(got[1], want[1])
        assert got[0].nan_to_num(7).equal(want[0].nan_to_num(7))
    assert weft.ops.sort(wide.t(), 0)[0].stride() == wide.t().stride()
    got, want = (
        weft.ops.topk(cube.permute(2, 0, 1), 2, 0),
        part(cube.permute(2, 0, 1), 0, True, 0, 2),
    )
    equal(got[0], want[0])


def test_no_elements_and_one() -> None:
    for shape, dim in (((0,), 0), ((3, 0), 1), ((0, 4), 1), ((), 0), ((), -1), ((1,), 0)):
        x = torch.ones(shape)
        for got, want in zip(weft.ops.sort(x, dim), torch.sort(x, dim=dim), strict=True):
            assert torch.equal(got, want) and got.shape == want.shape
    assert [tuple(t.shape) for t in weft.ops.topk(torch.ones(3, 4), 0)] == [(3, 0), (3, 0)]
    assert weft.ops.kthvalue(torch.tensor(2.5), 1)[0].tolist() == 2.5
    assert weft.ops.kthvalue(torch.ones(2, 3), 2, 0, True)[0].shape == (1, 3)


def test_extremes_of_integers() -> None:
    limits = torch.iinfo(torch.int64)
    x = torch.tensor([limits.max, 0, -1, limits.min, limits.max])
    assert weft.ops.argsort(x).tolist() == [3, 2, 1, 0, 4]
    assert weft.ops.argsort(x, descending=True).tolist() == [0, 4, 1, 2, 3]


def test_gradients() -> None:
    x = draw.seeded(1).permutation(12).double().reshape(3, 4).requires_grad_()
    assert torch.autograd.gradcheck(lambda t: weft.ops.sort(t, 0)[0], x)
    assert torch.autograd.gradcheck(lambda t: weft.ops.topk(t, 2)[0], x)
    assert torch.autograd.gradcheck(lambda t: weft.ops.kthvalue(t, 2)[0], x)
    number = torch.tensor(2.0, requires_grad=True)
    assert torch.autograd.grad(weft.ops.sort(number)[0], number)[0].tolist() == 1


@pytest.mark.parametrize(
    ("op", "rest"),
    [
        ("sort", (0,)),
        pytest.param("argsort", (), marks=pytest.mark.slow),
        pytest.param("topk", (2,), marks=pytest.mark.slow),
        pytest.param("kthvalue", (2,), marks=pytest.mark.slow),
    ],
)
def test_verify(op: str, rest: Any) -> None:
    x = draw.seeded(1).permutation(15).float().reshape(3, 5)
    assert getattr(weft.ops, op).verify(x.requires_grad_(op != "argsort"), *rest).passed


@pytest.mark.slow
def test_verify_searchsorted() -> None:
    assert weft.ops.searchsorted.verify(torch.arange(9.0), tensor(4)).passed


def test_batches() -> None:
    x = tensor(3, 4, 5)
    for dim in (0, -1):
        got = torch.vmap(lambda row, d=dim: weft.ops.sort(row, d), 1)(x)
        assert torch.equal(got[1], part(x.movedim(1, 0), dim % 2 + 1, False)[1])
    numbers = draw.seeded(2).normal(4, 5)
    first, second = (
        torch.vmap(torch.func.grad(lambda row, o=ops: o.topk(row, 2)[0].square().sum()))(numbers)
        for ops in (weft.ops, torch)
    )
    assert torch.equal(first, second)
    assert torch.vmap(lambda one: weft.ops.topk(one, 1, 0))(x[0, 0])[1].tolist() == [0] * 5


@pytest.mark.slow
def test_compiled() -> None:
    def both(x: Any) -> Any:
        values, inverse = weft.ops.unique(x, return_inverse=True)
        return weft.ops.topk(values, 2)[0], inverse, weft.ops.sort(x)[1]

    x = tensor(40, dtype=torch.int32)
    for got, want in zip(torch.compile(both, backend="eager")(x), both(x), strict=True):
        assert torch.equal(got, want)


@pytest.mark.parametrize(
    ("call", "words"),
    [
        (lambda: weft.ops.sort(tensor(3), 1), "weft.ops.sort: there is no such dimension"),
        (lambda: weft.ops.argsort(tensor(3).to(torch.complex64)), "got: torch.complex64"),
        (lambda: weft.ops.topk(tensor(3), 4), "got: k=4\n"),
        (lambda: weft.ops.kthvalue(tensor(3), 0), "allowed: 1 to 3"),
        (lambda: weft.ops.unique(tensor(3, 3), dim=1), "got: dim=1 of 2 dimensions"),
        (lambda: weft.ops.unique(tensor(3).to(torch.complex64)), "got: torch.complex64"),
        (lambda: weft.ops.searchsorted(tensor(3), tensor(2).double()), "torch.float64"),
        (lambda: weft.ops.searchsorted(tensor(3, 4), tensor(2, 2)), "got: sorted_sequence [3, 4]"),
        (lambda: weft.ops.searchsorted(tensor(3), tensor(2), side="up"), "got: side='up'"),
        (lambda: weft.ops.searchsorted(tensor(3), tensor(2), sorter=tensor(3)), "got: sorter [3]"),
    ],
)
def test_messages(call: Callable[[], Any], words: str) -> None:
    with pytest.raises(weft.ArgumentError) as caught:
        call()
    assert words in str(caught.value)


@pytest.mark.slow
@pytest.mark.parametrize("op", ["sort", "argsort", "topk", "kthvalue", "searchsorted", "unique"])
def test_sweep(op: str) -> None:
    """Calls that a seed draws, as the sweep on a GPU does, at small sizes."""
    print(f"seed {SEED}")
    (case,) = run.cases([op])
    for call in run.calls(case, SEED, 8, 2000):
        result, _ = run.check(case, call, "cpu", SEED)
        assert result.right, result
