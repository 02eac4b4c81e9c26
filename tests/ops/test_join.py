"""cat and stack against torch: any shapes, dims, dtypes and strides, with gradients."""

from __future__ import annotations

from typing import Any

import pytest

import draw

torch = pytest.importorskip("torch")

import weft  # noqa: E402
from weft.ops.core import library  # noqa: E402
from weft.ops.core.plan import Pointer  # noqa: E402
from weft.ops.core.runner import runner  # noqa: E402
from weft.ops.families.join import kernels  # noqa: E402


def drawn(*shape: int, seed: int = 1, dtype: Any = torch.float32) -> Any:
    return draw.seeded(seed).normal(shape, dtype=dtype)


def same(made: Any, wanted: Any) -> None:
    assert made.dtype is wanted.dtype and torch.equal(made, wanted)


CATS = {
    "vectors": (((3,), (8,), (1,)), 0),
    "columns of any width": (((5, 3), (5, 8), (5, 1)), 1),
    "columns of whole vectors": (((5, 8), (5, 4), (5, 12)), -1),
    "a middle dimension": (((2, 3, 4), (2, 1, 4), (2, 5, 4)), -2),
    "one tensor": (((4, 5),), 0),
    "none of some": (((0, 4), (3, 4), (0, 4)), 0),
    "none of all": (((0, 4), (0, 4)), 0),
    "a vector of nothing": (((2, 3), (0,), (4, 3)), 0),
    "more than a launch takes": (((2, 3),) * 35, 0),
}


@pytest.mark.parametrize("subject", CATS)
def test_cat(subject: str) -> None:
    shapes, dim = CATS[subject]
    parts = [drawn(*s, seed=i) for i, s in enumerate(shapes)]
    ours, theirs = ([p.clone().requires_grad_() for p in parts] for _ in range(2))
    y, wanted = weft.ops.cat(ours, dim), torch.cat(theirs, dim)
    same(y, wanted)
    dy = drawn(*y.shape, seed=9)
    y.backward(dy)
    wanted.backward(dy)
    for a, b in zip(ours, theirs, strict=True):
        assert torch.equal(b.grad if a.grad is None else a.grad, b.grad)


@pytest.mark.parametrize(
    ("shape", "dim"), [((), 0), ((), -1), ((5,), 1), ((3, 4), 0), ((3, 4), 1), ((3, 4), -1)]
)
def test_stack(shape: tuple[int, ...], dim: int) -> None:
    parts = [drawn(*shape, seed=i).requires_grad_() for i in range(3)]
    y = weft.ops.stack(parts, dim)
    same(y, torch.stack(parts, dim))
    dy = drawn(*y.shape, seed=9)
    gradients = torch.autograd.grad(y, parts, dy)
    assert all(torch.equal(g, d) for g, d in zip(gradients, dy.unbind(dim), strict=True))


def test_dtypes_are_promoted() -> None:
    x = drawn(2, 3)
    for others in ([x.long()], [x.half(), x.bfloat16()], [x.double(), x > 0]):
        same(weft.ops.cat([x, *others]), torch.cat([x, *others]))
    for dtype in (torch.bool, torch.int8, torch.int16, torch.int64, torch.float16):
        parts = [(x * 3).to(dtype), (x * 5).to(dtype)]
        same(weft.ops.stack(parts, 1), torch.stack(parts, 1))
    empty = torch.empty(0, dtype=torch.float64)
    same(weft.ops.cat([x, empty]), torch.cat([x, empty]))


def test_layouts() -> None:
    """Strided, misaligned and transposed tensors; images with channels last stay so."""
    x, y = drawn(6, 8), drawn(6, 8, seed=2)
    shifted = torch.empty(49)[1:].view(6, 8).copy_(y)
    for parts in ([x, shifted], [x[:, :4], y[:, 4:]], [x.t(), y.t()], [x, y.t()[:6, :].t()[:, :6]]):
        for dim in (0, 1):
            shapes = {p.shape[1 - dim] for p in parts}
            if len(shapes) == 1:
                same(weft.ops.cat(parts, dim), torch.cat(parts, dim))
    images = [drawn(2, c, 3, 4).contiguous(memory_format=torch.channels_last) for c in (4, 8)]
    made = weft.ops.cat(images, 1)
    same(made, torch.cat(images, 1))
    assert made.is_contiguous(memory_format=torch.channels_last)


COPIES = {
    "transposed": (lambda x, y: [x, y.t().contiguous().t()], 0),
    "transposed, interleaved": (lambda x, y: [y.t().contiguous().t(), x], 2),
    "every other": (lambda x, y: [x[:, ::2], y[:, 1::2]], 1),
    "a repeated row": (lambda x, y: [x, y[:1].expand(6, 8)], 1),
    "planes with gaps": (lambda x, y: [x.view(2, 3, 8)[:, :2, :4], y.view(2, 3, 8)[:, 1:, 4:]], 0),
}


@pytest.mark.parametrize("subject", COPIES)
def test_strided_tensors_are_read_as_they_are(subject: str) -> None:
    """Two dimensions need no copy; three do."""
    made, dim = COPIES[subject]
    parts = made(drawn(6, 8), drawn(6, 8, seed=2))
    function = library.function("cat_2")
    for c in function.definition.candidates(function.request(*parts, dim, True)):
        plan = c.build()
        assert len(plan.steps) == (3 if subject == "planes with gaps" else 1)
        same(runner(plan, 2, torch.device("cpu"))(*parts), torch.stack(parts, dim))


def test_large_transposed_tensors_are_copied_first() -> None:
    """A copy reads whole sectors; a join of many elements that are far apart would not."""
    function = library.function("cat_2")
    for n, launches in ((64, 1), (2048, 2)):
        x = torch.empty(n, n, dtype=torch.bfloat16)
        request = function.request(x, x.t(), 0, True)
        assert {len(c.build().steps) for c in function.definition.candidates(request)} == {launches}


def test_every_kernel() -> None:
    parts = [drawn(5, 8), drawn(5, 2, seed=2), drawn(5, 3, seed=3)]
    function = library.function("cat_3")
    found = function.definition.candidates(function.request(*parts, 1, False))
    assert [c.name for c in found] == ["rows", "elements"]
    for c in found:
        plan = c.build()
        same(runner(plan, 3, torch.device("cpu"))(*parts), torch.cat(parts, 1))
        # The table of tensors stays in constant memory.
        assert ".local" not in plan.steps[0].kernel.ptx


def test_widths() -> None:
    """Each tensor is copied in the widest vectors that its rows and places allow."""
    part = kernels.TensorRows(Pointer(0), 5, 12, x=(24, 1), y=(32, 1), aligned=16)
    assert kernels._width(part, 8, 4, 4) == 4
    assert kernels._width(part, 6, 4, 4) == 2
    assert kernels._width(part._replace(y=(33, 1)), 8, 4, 4) == 1
    assert kernels._width(part._replace(rows=1, y=(33, 1)), 8, 4, 4) == 4
    assert kernels._width(part._replace(aligned=8), 8, 4, 4) == 2
    assert kernels._width(part._replace(x=(1, 5)), 8, 4, 4) == 1
    rows = [drawn(6, n, seed=n, dtype=torch.float16) for n in (8, 4, 2, 6, 1, 3)]
    same(weft.ops.cat(rows, 1), torch.cat(rows, 1))


REFUSED = {
    "nothing": (lambda o: o.cat([]), "at least one tensor"),
    "a number": (lambda o: o.cat([drawn(2), torch.tensor(1.0)]), "a number"),
    "other shapes": (lambda o: o.cat([drawn(2, 3), drawn(2, 4)]), "one shape"),
    "another rank": (lambda o: o.cat([drawn(2, 3), drawn(2)]), "one shape"),
    "no such dimension": (lambda o: o.cat([drawn(2, 3)], 2), "no such dimension"),
    "a stack of nothing": (lambda o: o.stack([]), "at least one tensor"),
    "a stack of other shapes": (lambda o: o.stack([drawn(2), drawn(3)]), "one shape"),
    "a stack along no dimension": (lambda o: o.stack([drawn(2)], 2), "no such dimension"),
}


@pytest.mark.parametrize("subject", REFUSED)
def test_refused(subject: str) -> None:
    call, message = REFUSED[subject]
    with pytest.raises((RuntimeError, IndexError, ValueError)):
        call(torch)
    with pytest.raises(weft.ArgumentError, match=message):
        call(weft.ops)


def test_complex_numbers_are_refused() -> None:
    with pytest.raises(weft.ArgumentError, match="dtype"):
        weft.ops.cat([drawn(2) * 1j])


def test_vmap() -> None:
    x, y = drawn(3, 2, 4), drawn(5, 4, seed=2)
    made = torch.vmap(lambda a: weft.ops.cat([a, y], 0))(x)
    assert torch.equal(made, torch.vmap(lambda a: torch.cat([a, y], 0))(x))
    for dim in (0, -1):
        made = torch.vmap(lambda a, dim=dim: weft.ops.stack([a, y[:2]], dim))(x)
        assert torch.equal(made, torch.vmap(lambda a, dim=dim: torch.stack([a, y[:2]], dim))(x))


def test_compiled() -> None:
    y = drawn(2, 3, seed=2)

    def loss(ops: Any, x: Any) -> Any:
        return ops.stack([ops.cat([x, y], 1), ops.cat([y, x], 1)]).pow(2).sum()

    ours, theirs = (drawn(2, 3).requires_grad_() for _ in range(2))
    torch.compile(lambda x: loss(weft.ops, x), backend="aot_eager", fullgraph=True)(ours).backward()
    loss(torch, theirs).backward()
    torch.testing.assert_close(ours.grad, theirs.grad)


def test_sanitized() -> None:
    """No kernel reads what nothing wrote, or races."""
    with weft.sanitize() as session:
        weft.ops.cat([drawn(5, 8), drawn(5, 3)], 1)
    assert not session.findings
