"""gather, index_select and scatter_add against torch, and gradients against float64."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

import draw

torch = pytest.importorskip("torch")

import weft  # noqa: E402
from weft.ops.core import library, source  # noqa: E402
from weft.ops.core.runner import runner  # noqa: E402
from weft.ops.families.index import model, sums  # noqa: E402

LIMITS = {torch.float32: 1e-6, torch.bfloat16: 1e-2, torch.float16: 1e-3, torch.float64: 1e-12}


def drawn(*shape: int, seed: int = 1, dtype: Any = torch.float32) -> Any:
    return draw.seeded(seed).normal(shape, dtype=dtype)


def places(*shape: int, rows: int) -> Any:
    return draw.seeded(2).integers(0, rows, shape)


def close(made: Any, true: Any) -> None:
    limit = LIMITS[made.dtype]
    size = true.abs().max().item() if true.numel() else 0
    assert made.shape == true.shape
    torch.testing.assert_close(made.double(), true, rtol=limit, atol=limit * size)


def compare(ours: Callable[..., Any], theirs: Callable[..., Any], *tensors: Any) -> None:
    """Results and gradients against those of torch in float64."""
    mine = [t.detach().clone().requires_grad_() for t in tensors]
    true = [t.detach().double().requires_grad_() for t in tensors]
    y, wanted = ours(*mine), theirs(*true)
    close(y.detach(), wanted.detach())
    dy = drawn(*y.shape, seed=3, dtype=y.dtype)
    y.backward(dy)
    wanted.backward(dy.double())
    for a, b in zip(mine, true, strict=True):
        close(a.grad, b.grad)


GATHERED = {
    "along the rows": ((3, 5, 8), (2, 5, 8), 0, torch.float32),
    "along the last dimension, less of the others": ((3, 5, 8), (2, 4, 12), -1, torch.bfloat16),
    "one of each row": ((40, 9), (40, 1), 1, torch.float32),
    "a vector": ((7,), (9,), 0, torch.float16),
    "a number": ((), (), 0, torch.float32),
    "several of a number": ((), (3,), -1, torch.float32),
    "a number of a vector": ((4,), (), 0, torch.float64),
    "no indices": ((3, 4), (0, 4), 0, torch.float32),
    "no indices, of another rank": ((3, 4), (0,), 0, torch.float32),
}


@pytest.mark.parametrize("subject", GATHERED)
def test_gather(subject: str) -> None:
    shape, wanted, dim, dtype = GATHERED[subject]
    index = places(*wanted, rows=shape[dim] if shape else 1)
    compare(
        lambda x: weft.ops.gather(x, dim, index),
        lambda x: torch.gather(x, dim, index),
        drawn(*shape, dtype=dtype),
    )


SELECTED = {
    "rows": ((6, 8), 4, 0, torch.float32),
    "columns": ((6, 5), 7, 1, torch.bfloat16),
    "a middle dimension": ((2, 5, 8), 3, -2, torch.float16),
    "of no columns": ((4, 0), 3, 0, torch.float32),
    "none": ((4, 3), 0, 0, torch.float32),
}


@pytest.mark.parametrize("subject", SELECTED)
def test_index_select(subject: str) -> None:
    shape, count, dim, dtype = SELECTED[subject]
    index = places(count, rows=shape[dim])
    compare(
        lambda x: weft.ops.index_select(x, dim, index),
        lambda x: torch.index_select(x, dim, index),
        drawn(*shape, dtype=dtype),
    )


def test_index_select_of_numbers() -> None:
    x, one = torch.tensor(3.0), torch.tensor(0)
    for index in (one, one.reshape(1)):
        assert torch.equal(weft.ops.index_select(x, 0, index), x)
        assert torch.equal(weft.ops.index_select(x.reshape(1), 0, index), x.reshape(1))


SCATTERED = {
    "rows": ((5, 8), (6, 8), (6, 8), 0, torch.float32),
    "less than src and input": ((4, 5, 8), (3, 6, 7), (3, 6, 7), 1, torch.bfloat16),
    "the last dimension": ((4, 9), (4, 30), (4, 30), -1, torch.float16),
    "doubles": ((4, 9), (3, 5), (3, 5), 0, torch.float64),
    "several to a number": ((), (3,), (3,), 0, torch.float32),
    "numbers": ((), (), (), 0, torch.float32),
    "no indices": ((3, 4), (0, 4), (0, 4), 0, torch.float32),
    "no input": ((0, 4), (0, 4), (0, 4), 0, torch.float32),
}


@pytest.fixture
def deterministic() -> Any:
    torch.use_deterministic_algorithms(True)
    yield
    torch.use_deterministic_algorithms(False)


@pytest.mark.parametrize("subject", SCATTERED)
def test_scatter_add(subject: str) -> None:
    shape, wanted, given, dim, dtype = SCATTERED[subject]
    index = places(*wanted, rows=max(shape[dim] if shape else 1, 1))
    compare(
        lambda x, src: weft.ops.scatter_add(x, dim, index, src),
        lambda x, src: torch.scatter_add(x, dim, index, src),
        drawn(*shape, dtype=dtype),
        drawn(*given, seed=4, dtype=dtype),
    )


def test_src_that_is_larger_than_index_has_a_gradient_of_its_shape() -> None:
    index, src = places(2, 3, rows=4), drawn(5, 3).requires_grad_()
    weft.ops.scatter_add(drawn(4, 3), 0, index, src).sum().backward()
    assert torch.equal(src.grad[:2], torch.ones(2, 3)) and not src.grad[2:].any()


@pytest.mark.parametrize("repeated", [True, False])
def test_sums_of_sorted_positions(repeated: bool, deterministic: None) -> None:
    """Many positions in few lines: an index of whole rows, and one of each element."""
    index = places(5000, 1, rows=30).expand(-1, 3) if repeated else places(2100, 3, rows=30)
    assert sums.is_sorted(index, (30, 3), 0)
    src = drawn(*index.shape, seed=4)
    compare(
        lambda x, s: weft.ops.scatter_add(x, 0, index, s),
        lambda x, s: torch.scatter_add(x, 0, index, s),
        drawn(30, 3),
        src,
    )
    compare(
        lambda x: weft.ops.gather(x, 0, index), lambda x: torch.gather(x, 0, index), drawn(30, 3)
    )


def test_a_sort_pays_for_many_positions_in_few_lines() -> None:
    assert model.is_faster_sorted(64, 100_000, 10_000)
    assert not model.is_faster_sorted(4096, 1, 50_000)  # one of each row
    assert not model.is_faster_sorted(100_000, 64, 8)


@pytest.mark.parametrize("dtype", [d for d in source.CTYPES if not d.is_floating_point])
def test_integers(dtype: Any) -> None:
    """Sums of integers wrap around, and those of booleans are true where one is."""
    generator = draw.seeded(5)
    x, src = (generator.integers(0, 200, (4, 6)).to(dtype) for _ in range(2))
    index = places(4, 6, rows=4)
    assert torch.equal(weft.ops.gather(x, 0, index), torch.gather(x, 0, index))
    wanted = torch.scatter_add(x, 0, index, src)
    assert torch.equal(weft.ops.scatter_add(x, 0, index, src), wanted)
    ops = [library.call(n) for n in ("scatter_keys", "scatter_by_keys")]
    assert torch.equal(sums.by_sort(*ops, x, 0, index, src, x.shape), wanted)


@pytest.mark.parametrize("dtype", list(source.CTYPES))
def test_atomic_sums(dtype: Any) -> None:
    """Positions that meet in a few places; integers and booleans as above."""
    generator = draw.seeded(6)
    x, src = (generator.integers(0, 5, s).to(dtype) for s in ((3, 7), (40, 7)))
    index = places(40, 7, rows=3)
    made = candidates("scatter_onto", x, 0, index, src, False)["atomic"]
    assert torch.equal(made, torch.scatter_add(x, 0, index, src))
    zeros = candidates("scatter_sum", index, src, [3, 7], 0, False)["atomic"]
    assert torch.equal(zeros, torch.scatter_add(torch.zeros_like(x), 0, index, src))


def test_the_order_of_sums_follows_torch() -> None:
    """The setting of torch chooses the kernel of every call and of every gradient."""
    index = places(9, 4, rows=5)
    op, sums_op = library.function("scatter_onto"), library.function("scatter_sum")
    for fixed in (False, True, False):
        torch.use_deterministic_algorithms(fixed)
        try:
            op.forget()
            sums_op.forget()
            x = drawn(5, 4).requires_grad_()
            y = weft.ops.scatter_add(x, 0, index, weft.ops.gather(x, 0, index))
            y.sum().backward()
        finally:
            torch.use_deterministic_algorithms(False)
        for each in (op, sums_op):
            assert [e.options[-1] for e in each.plans.values()] == [fixed]


def candidates(name: str, *args: Any) -> dict[str, Any]:
    """The result of every candidate of a call, by its name."""
    function = library.function(name)
    tensors = [a for a in args if isinstance(a, torch.Tensor)]
    found = function.definition.candidates(function.request(*args))
    return {c.name: runner(c.build(), len(tensors), torch.device("cpu"))(*tensors) for c in found}


def test_every_kernel() -> None:
    x, line = drawn(6, 8), places(5, rows=6)
    made = candidates("select_from", x, 0, line, False)
    assert {"rows by 4", "rows by 1", "elements by 4", "elements by 1"} <= set(made)
    assert all(torch.equal(y, x[line]) for y in made.values())
    index, src = places(4, 8, rows=6), drawn(4, 8, seed=4)
    for dtype in (torch.float32, torch.float16):
        wanted = torch.scatter_add(x.to(dtype).double(), 0, index, src.to(dtype).double())
        for fixed, names in ((True, {"lines", "search"}), (False, {"atomic", "search"})):
            made = candidates("scatter_onto", x.to(dtype), 0, index, src.to(dtype), fixed)
            assert set(made) == names
            for y in made.values():
                close(y, wanted)


def test_layouts() -> None:
    """Strided and misaligned tensors, and 32-bit indices."""
    x, index, src = drawn(4, 6, 8), places(4, 6, 8, rows=6), drawn(4, 6, 8, seed=4)
    y, z = torch.gather(x, 1, index), torch.scatter_add(x, 1, index, src)
    turned = [t.permute(2, 0, 1).contiguous().permute(1, 2, 0) for t in (x, index, src)]
    assert torch.equal(weft.ops.gather(turned[0], 1, turned[1]), y)
    assert torch.equal(weft.ops.gather(x, 1, index.int()), y)
    torch.testing.assert_close(weft.ops.scatter_add(turned[0], 1, *turned[1:]), z)
    shifted = torch.empty(193)[1:].view(4, 6, 8).copy_(x)
    line = index[0, :, 0]
    assert torch.equal(weft.ops.index_select(shifted, 1, line), x[:, line])


def test_second_derivative() -> None:
    index = places(5, 4, rows=6)
    results = []
    for function in (weft.ops.gather, torch.gather):
        x = drawn(6, 4).requires_grad_()
        (dx,) = torch.autograd.grad(function(x, 0, index).pow(3).sum(), x, create_graph=True)
        results.append(torch.autograd.grad(dx.pow(2).sum(), x)[0])
    torch.testing.assert_close(*results)


@pytest.mark.parametrize("place", [-1, 4])
def test_index_out_of_range(place: int) -> None:
    x, index = drawn(4, 3), torch.tensor([[0, place, 1]])
    keys = library.call("scatter_keys")
    for call in (
        lambda: weft.ops.gather(x, 0, index),
        lambda: weft.ops.index_select(x, 0, index[0]),
        lambda: weft.ops.scatter_add(x, 0, index, index.float()),
        lambda: weft.ops.scatter_add(x, 0, index[:, :2], index.float()),
        lambda: keys(index, [4, 3], 0),
        lambda: candidates("scatter_onto", x, 0, index, index.float(), False),
        lambda: candidates("scatter_onto", x, 0, index, index.float(), True),
    ):
        with pytest.raises(weft.AssertFailed, match="an index must be"):
            call()


REFUSED = {
    "floats": (lambda o: o.gather(drawn(3), 0, drawn(3)), "dtype"),
    "complex numbers": (lambda o: o.gather(drawn(3) * 1j, 0, places(3, rows=3)), "dtype"),
    "no such dimension": (lambda o: o.gather(drawn(3), 1, places(3, rows=3)), "no such dim"),
    "another rank": (lambda o: o.gather(drawn(3), 0, places(3, 1, rows=3)), "as many dimensions"),
    "too many lines": (lambda o: o.gather(drawn(3, 2), 0, places(3, 3, rows=3)), "larger"),
    "of nothing": (lambda o: o.gather(drawn(0), 0, places(3, rows=1)), "no elements"),
    "a matrix": (lambda o: o.index_select(drawn(3), 0, places(3, 1, rows=3)), "a vector"),
    "two of a number": (
        lambda o: o.index_select(torch.tensor(1.0), 0, places(2, rows=1)),
        "a vector",
    ),
    "another dtype": (
        lambda o: o.scatter_add(drawn(3), 0, places(3, rows=3), drawn(3).double()),
        "the dtype of input",
    ),
    "too small a src": (
        lambda o: o.scatter_add(drawn(3), 0, places(3, rows=3), drawn(2)),
        "larger than src",
    ),
}


@pytest.mark.parametrize("subject", REFUSED)
def test_refused(subject: str) -> None:
    call, message = REFUSED[subject]
    with pytest.raises((RuntimeError, IndexError, TypeError)):
        call(torch) if subject != "complex numbers" else torch.arange(3j)
    with pytest.raises(weft.ArgumentError, match=message):
        call(weft.ops)


def test_vmap() -> None:
    x, index, src = drawn(3, 4, 5), places(3, 2, 5, rows=4), drawn(3, 2, 5, seed=4)
    gathered = torch.vmap(lambda a, i: weft.ops.gather(a, 0, i))(x, index)
    assert torch.equal(gathered, torch.gather(x, 1, index))
    added = torch.vmap(lambda a, i, s: weft.ops.scatter_add(a, 0, i, s), in_dims=(0, None, 0))
    wanted = torch.scatter_add(x, 1, index[:1].expand(3, 2, 5), src)
    torch.testing.assert_close(added(x, index[0], src), wanted)
    numbers = torch.vmap(lambda a, i: weft.ops.gather(a, 0, i))(x[:, 0], index[:, 0, 0])
    assert torch.equal(numbers, torch.gather(x[:, 0], 1, index[:, 0, :1])[:, 0])


def test_compiled() -> None:
    index, src = places(3, 4, rows=6), drawn(3, 4, seed=4)

    def loss(ops: Any, x: Any) -> Any:
        return ops.scatter_add(ops.gather(x, 0, index), 0, index % 3, src).pow(2).sum()

    ours, theirs = (drawn(6, 4).requires_grad_() for _ in range(2))
    torch.compile(lambda x: loss(weft.ops, x), backend="aot_eager", fullgraph=True)(ours).backward()
    loss(torch, theirs).backward()
    torch.testing.assert_close(ours.grad, theirs.grad)


def test_verified() -> None:
    x, index = drawn(5, 4).requires_grad_(), places(3, 4, rows=5)
    assert weft.ops.gather.verify(x, 0, index).passed
    assert weft.ops.index_select.verify(x, 1, index[0] % 4).passed
    src = drawn(3, 4).requires_grad_()
    assert weft.ops.scatter_add.verify(x, 0, index, src).passed
    found = weft.ops.explain(weft.ops.scatter_add, x, 0, index, src)
    assert found.request.options == {"dim": 0, "deterministic": False}


def test_sanitized() -> None:
    """No kernel reads what nothing wrote, or races."""
    with weft.sanitize() as session:
        x, index = drawn(5, 4).requires_grad_(), places(7, 4, rows=5)
        weft.ops.scatter_add(x, 0, index, weft.ops.gather(x, 0, index)).sum().backward()
        weft.ops.index_select(x, 1, index[:, 0] % 4).sum().backward()
        candidates("scatter_onto", x.detach(), 0, index, drawn(7, 4), False)
    assert not session.findings
