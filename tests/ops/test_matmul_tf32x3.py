"""Products of float32 by three products of tf32, on Hopper's tensor cores."""

from __future__ import annotations

from typing import Any

import pytest

import draw
import weft
from candidates import by

torch = pytest.importorskip("torch")

from weft.ops.families.matmul import tf32x3  # noqa: E402

PLAIN = "3xtf32, 64 x 32, pipelined"


def matrix(rows: int, columns: int, seed: int, by_columns: bool = False) -> Any:
    made = draw.seeded(seed).normal((columns, rows) if by_columns else (rows, columns))
    return made.T if by_columns else made


def error(got: Any, want: Any) -> float:
    return float((got.double() - want).norm() / want.norm())


@pytest.mark.parametrize(
    ("name", "size", "orders"),
    [
        (PLAIN, (70, 40, 136), (False, True)),
        (PLAIN, (70, 37, 135), (True, False)),
        ("3xtf32, 64 x 32, turned, pipelined", (70, 37, 100), (False, False)),
        ("3xtf32, 64 x 32, K in 2, pipelined", (33, 72, 200), (True, True)),
        ("3xtf32, 128 x 48, pipelined", (130, 40, 3), (False, True)),
    ],
)
def test_tiles(name: str, size: tuple[int, int, int], orders: tuple[bool, bool]) -> None:
    """Ragged tiles, and a K of no whole vectors, with the accuracy of single precision."""
    m, n, k = size
    a, b = matrix(m, k, 1, orders[0]), matrix(k, n, 2, orders[1])
    assert error(by(name, "matmul", a, b), a.double() @ b.double()) < 2e-7


def test_the_error_of_long_sums_is_that_of_short_ones() -> None:
    """Tensor cores cut sums off, all in one direction; those that they add up are short."""
    a, b = matrix(64, 4000, 1).abs(), matrix(4000, 32, 2, True).abs()
    long = error(by(PLAIN, "matmul", a, b), a.double() @ b.double())
    assert long < 4e-7


def test_batches_that_share_an_operand() -> None:
    a, b = draw.seeded(1).normal((3, 40, 68)), matrix(68, 48, 2)
    many = draw.seeded(3).normal((3, 68, 48))
    for right in (b[None].expand(3, 68, 48), many):
        left = a.transpose(1, 2).contiguous().transpose(1, 2)  # its rows are not merged
        got = by("3xtf32, 64 x 48, pipelined", "matmul", left, right)
        assert error(got, left.double() @ right.double()) < 2e-7


@pytest.mark.parametrize("turned", ["", "turned, "])
def test_bias_and_activation(turned: str) -> None:
    a, b = matrix(40, 64, 3), matrix(64, 40, 4, True)
    name = f"3xtf32, 64 x 32, {turned}pipelined"
    for shape in ((40,), (40, 40), (40, 1)):
        bias = draw.seeded(5).normal(shape)
        got = by(name, "addmm", bias, a, b, activation="silu")
        want = torch.nn.functional.silu(a.double() @ b.double() + bias.double())
        assert error(got, want) < 3e-7


def test_special_values() -> None:
    """Infinity, the largest numbers, NaN of few bits and numbers without a small part."""
    a, b = matrix(40, 64, 1), matrix(64, 32, 2, True)
    largest = torch.finfo(torch.float32).max
    a[0, 3], a[1, 5], a[2], a[3, 4] = torch.inf, -torch.inf, 0, largest
    a[2, 0], b[:, 7] = largest, 2.0 ** -torch.arange(64)
    a[4, 9] = torch.tensor(0x7F800001, dtype=torch.int32).view(torch.float32)
    b[3, 1], b[4] = 0, 1e-6
    got, want = by(PLAIN, "matmul", a, b), (a.double() @ b.double()).float()
    assert torch.equal(got.isnan(), want.isnan())
    assert got[0, 1].isnan() and got[4].isnan().all() and got[0].isinf().sum() == 31
    numbers = want.isfinite()
    torch.testing.assert_close(got[numbers], want[numbers], rtol=1e-5, atol=1e-5)
    assert torch.equal(got[want.isinf()], want[want.isinf()])


def test_the_sanitizer_finds_nothing() -> None:
    a, b = matrix(70, 133, 1, True), matrix(133, 37, 2)
    with weft.sanitize() as session:
        by(PLAIN, "matmul", a, b)
    assert not session.findings


@pytest.mark.parametrize("schedule", ["last", "random:3"])
def test_every_schedule_gives_the_same(schedule: str) -> None:
    a, b = matrix(70, 200, 1), matrix(200, 40, 2)
    name = "3xtf32, 64 x 32, K in 2, pipelined"
    plain = by(name, "matmul", a, b)
    with weft.schedule(schedule):
        assert torch.equal(by(name, "matmul", a, b), plain)


@pytest.mark.parametrize(
    ("size", "orders", "most", "turned"),
    [
        ((520, 40, 40), (False, True), 256 * 40 + 40 * 40, ""),
        ((40, 530, 40), (True, False), 256 * 40 + 40 * 40, "turned, "),
        ((40, 48, 700), (True, False), 256 * 88, ""),
        ((40, 48, 513), (False, True), 256 * 88, "turned, "),
    ],
    ids=["rows", "columns", "terms", "terms of odd rows"],
)
def test_large_operands_are_split_in_parts(
    size: tuple[int, int, int], orders: Any, most: int, turned: str, monkeypatch: Any
) -> None:
    """Parts of the products share the memory of the parts of their operands."""
    monkeypatch.setattr(tf32x3, "MOST_SCRATCH", 8 * most)
    m, n, k = size
    a, b = matrix(m, k, 1, orders[0]), matrix(k, n, 2, orders[1])
    name = f"3xtf32, 64 x 16, {turned}3 parts"
    assert error(by(name, "matmul", a, b), a.double() @ b.double()) < 2e-7


@pytest.mark.parametrize(
    ("size", "used"),
    [((2048, 2048, 2048), "3xtf32"), ((64, 64, 64), ""), ((8192, 768, 50257), "7 parts")],
)
def test_large_products_use_it(size: tuple[int, int, int], used: str) -> None:
    m, n, k = size
    a, b = torch.empty(m, k), torch.empty(k, n)
    chosen = weft.ops.explain(weft.ops.matmul, a, b).choice.used.name
    assert used in chosen if used else "3xtf32" not in chosen
    found = weft.ops.explain(weft.ops.matmul, a, b, precision="ieee").choice
    assert not any("3xtf32" in c.name for c in (found.used, *found.others))
