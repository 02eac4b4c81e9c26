"""Calls that are recorded in C++: torch sees them as it sees those recorded in Python."""

from __future__ import annotations

import contextlib
import ctypes
import gc
import struct
import threading
import weakref
from collections.abc import Iterator
from typing import Any

import pytest

import draw
import native_ops
import weft

torch = pytest.importorskip("torch")

from torch.nn import functional  # noqa: E402

from weft.device import driver  # noqa: E402
from weft.device.gpu import machine, native_launch  # noqa: E402
from weft.ops.core import library  # noqa: E402
from weft.ops.core.native import build, launches, record, trace  # noqa: E402
from weft.ops.sweep import host  # noqa: E402

pytestmark = native_ops.MARKS
where = native_ops.where


def leaf(*shape: int) -> Any:
    generator = draw.seeded(sum(shape))
    return generator.normal(*shape).to(where()).requires_grad_()


def is_native(tensor: Any) -> bool:
    return str(tensor.grad_fn.name()).startswith("weft_") and not hasattr(
        tensor.grad_fn, "saved_tensors"
    )


def silu_slope(x: Any, gradient: Any = 1.0) -> Any:
    x = x.detach().requires_grad_()
    return torch.autograd.grad(functional.silu(x), x, torch.ones_like(x) * gradient)[0]


# ---- every kind of op --------------------------------------------------------------------------
QUICK = ("mul", "exp", "silu", "sum", "softmax", "mse_loss", "cross_entropy", "layer_norm",
         "max_pool2d", "embedding")  # fmt: skip
"""The rows of the default set: every kind of step, of saved tensors and of redirected calls."""


@pytest.mark.parametrize(
    "name", [n if n in QUICK else pytest.param(n, marks=pytest.mark.slow) for n in host.GRADIENTS]
)
def test_an_op_and_its_gradients(name: str) -> None:
    """Two calls, and gradients of three layouts: by the formula, then by its program."""
    adapter, by_torch = host.GRADIENTS[name]
    given, call = host._Inputs(leaf(16, 64)), library.call(name)
    expected = by_torch(given)
    leaves = [t for t in vars(given).values() if t.requires_grad]
    flipped = draw.seeded(1).normal(tuple(expected.shape)[::-1]).to(where())
    one = torch.ones((), device=where())
    gradients = [
        draw.seeded(2).normal(expected.shape).to(where()),
        one.expand(expected.shape),
        flipped.permute(list(range(expected.dim() - 1, -1, -1))),
    ]
    for gradient in (*gradients, *gradients):
        result = adapter(call, given)
        assert is_native(result), result.grad_fn
        got = torch.autograd.grad(result, leaves, gradient, allow_unused=True)
        want = torch.autograd.grad(by_torch(given), leaves, gradient, allow_unused=True)
        for a, b in zip(got, want, strict=True):
            assert (a is None) == (b is None)
            torch.testing.assert_close(a, b, rtol=1e-4, atol=1e-4)


def test_a_program_calls_no_python(monkeypatch: pytest.MonkeyPatch) -> None:
    x, one = leaf(4, 8), torch.ones(4, 8, device=where())
    for _ in range(2):
        torch.autograd.grad(weft.ops.silu(x), x, one)

    def formula(*args: Any) -> Any:
        raise AssertionError("the formula was called")

    op = weft.ops.silu.op
    monkeypatch.setattr(op, "definition", _replaced(op.definition, backward=formula))
    (got,) = torch.autograd.grad(weft.ops.silu(x), x, one)
    torch.testing.assert_close(got, silu_slope(x))
    with pytest.raises(AssertionError, match="formula"):  # another layout has no program
        torch.autograd.grad(weft.ops.silu(x), x, one.t().contiguous().t())


@pytest.mark.parametrize("name", ["gather", "index_select"])
def test_a_gradient_by_index_calls_no_python(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """Also where torch wants deterministic sums, which have a program of their own."""
    x, calls = leaf(6, 4), []
    index = torch.tensor([5, 0, 5], device=where())
    if name == "gather":
        index = index[:, None].expand(3, 4).contiguous()
    call = record._Formula.__call__
    monkeypatch.setattr(record._Formula, "__call__", lambda *a: calls.append(a) or call(*a))
    one = torch.ones(3, 4, device=where())
    want = torch.tensor([1.0, 0.0, 0.0, 0.0, 0.0, 2.0], device=where())[:, None].expand(6, 4)
    before = torch.are_deterministic_algorithms_enabled()
    try:
        for fixed in (False, True, False, True):
            torch.use_deterministic_algorithms(fixed)
            (got,) = torch.autograd.grad(getattr(weft.ops, name)(x, 0, index), x, one)
            assert torch.equal(got, want)
    finally:
        torch.use_deterministic_algorithms(before)
    assert len(calls) == 2


def test_a_program_runs_where_torch_excludes_further_keys(monkeypatch: pytest.MonkeyPatch) -> None:
    """Nodes of torch 2.11 exclude the key of named tensors, which torch 2.13 does not have."""
    x, one = leaf(4, 8), torch.ones(4, 8, device=where())
    calls = []
    call = record._Formula.__call__
    monkeypatch.setattr(record._Formula, "__call__", lambda *a: calls.append(a) or call(*a))
    with torch._C._ExcludeDispatchKeyGuard(torch._C.DispatchKeySet(torch._C.DispatchKey.Negative)):
        for _ in range(4):
            torch.autograd.grad(weft.ops.silu(x), x, one)
    torch.autograd.grad(weft.ops.silu(x), x, one)
    assert len(calls) == 1


def _replaced(definition: Any, **changes: Any) -> Any:
    import dataclasses

    return dataclasses.replace(definition, **changes)


def test_one_tensor_as_two_arguments_then_two_tensors() -> None:
    x, y, one = leaf(3, 8), leaf(8, 3).detach().t().contiguous(), torch.ones(3, 8, device=where())
    y.requires_grad_()
    (got,) = torch.autograd.grad(weft.ops.mul(x, x), x, one)
    torch.testing.assert_close(got, 2 * x)
    for _ in range(2):
        got = torch.autograd.grad(weft.ops.mul(x, y), (x, y), one)
        torch.testing.assert_close(got, (y, x))


def test_only_wanted_gradients_are_computed() -> None:
    x, fixed = leaf(3, 8), leaf(3, 8).detach()
    one = torch.ones(3, 8, device=where())
    for _ in range(2):
        torch.testing.assert_close(torch.autograd.grad(weft.ops.mul(x, fixed), x, one)[0], fixed)
        torch.testing.assert_close(torch.autograd.grad(weft.ops.mul(fixed, x), x, one)[0], fixed)


# ---- autograd ----------------------------------------------------------------------------------
@pytest.mark.parametrize(
    ("ours", "by_torch"),
    [(weft.ops.silu, functional.silu), (weft.ops.norm, torch.linalg.vector_norm)],
    ids=["silu", "norm"],
)
def test_second_derivatives(ours: Any, by_torch: Any) -> None:
    x = leaf(2, 8)
    for _ in range(2):
        (first,) = torch.autograd.grad(ours(x).sum(), x, create_graph=True)
        (second,) = torch.autograd.grad(first.pow(3).sum(), x)
    (first,) = torch.autograd.grad(by_torch(x).sum(), x, create_graph=True)
    torch.testing.assert_close(second, torch.autograd.grad(first.pow(3).sum(), x)[0])


def test_a_graph_is_used_twice_only_if_it_is_retained() -> None:
    x = leaf(2, 8)
    result = weft.ops.silu(x).sum()
    first = torch.autograd.grad(result, x, retain_graph=True)
    torch.testing.assert_close(torch.autograd.grad(result, x), first)
    with pytest.raises(RuntimeError, match="second time"):
        torch.autograd.grad(result, x)


@pytest.mark.parametrize("which", ["input", "output"])
def test_a_saved_tensor_that_was_modified(which: str) -> None:
    x = leaf(2, 8)
    inner = x * 1
    result = weft.ops.silu(inner) if which == "input" else weft.ops.softmax(inner)
    with torch.no_grad():
        (inner if which == "input" else result).add_(1)
    with pytest.raises(RuntimeError, match="modified by an inplace operation"):
        result.sum().backward()


def test_hooks() -> None:
    x, seen = leaf(2, 8), []
    result = weft.ops.silu(x)
    result.register_hook(lambda g: seen.append("result") or 2 * g)
    x.register_hook(lambda g: seen.append("x"))
    result.grad_fn.register_hook(lambda inputs, outputs: seen.append("node"))
    result.sum().backward()
    assert seen == ["result", "x", "node"] or seen == ["result", "node", "x"]
    torch.testing.assert_close(x.grad, silu_slope(x, 2.0))


def test_hooks_of_saved_tensors() -> None:
    x, packed = leaf(2, 8), []

    def pack(t: Any) -> Any:
        packed.append(t.shape)
        return t.double()  # another dtype: the layout is checked after it is unpacked

    with torch.autograd.graph.saved_tensors_hooks(pack, lambda t: t.float()):
        result = weft.ops.silu(x)
    result.sum().backward()
    assert packed == [x.shape]
    torch.testing.assert_close(x.grad, silu_slope(x))


def test_checkpointed() -> None:
    from torch.utils.checkpoint import checkpoint

    x = leaf(2, 8)
    checkpoint(weft.ops.silu, x, use_reentrant=False).sum().backward()
    torch.testing.assert_close(x.grad, silu_slope(x))


def test_a_result_without_a_gradient() -> None:
    """Results that are not used have undefined gradients; those of integers have none."""
    x = leaf(1, 1, 4, 4)
    values, places = weft.ops.max_pool2d(x, 2, return_indices=True)
    assert values.requires_grad and not places.requires_grad
    values.sum().backward()
    want = torch.zeros_like(x).flatten().index_fill(0, places.flatten(), 1).view_as(x)
    torch.testing.assert_close(x.grad, want)


def test_an_undefined_gradient() -> None:
    class Nothing(torch.autograd.Function):  # type: ignore[misc]
        @staticmethod
        def forward(ctx: Any, x: Any) -> Any:
            return x.clone()

        @staticmethod
        def backward(ctx: Any, gradient: Any) -> Any:
            return None

    x = leaf(2, 8)
    for _ in range(2):
        Nothing.apply(weft.ops.silu(x)).sum().backward()
    assert x.grad is None or not x.grad.any()


def test_anomaly_mode_names_the_op() -> None:
    x = leaf(2, 8)
    with pytest.warns(UserWarning, match="Anomaly Detection"), torch.autograd.detect_anomaly():
        result = weft.ops.silu(x)
        result.register_hook(lambda g: g * float("nan"))
        with (
            pytest.warns(UserWarning, match="Error detected in weft_silu"),
            pytest.raises(RuntimeError, match=r"weft_silu.*nan"),
        ):
            result.sum().backward()


def test_threads_share_a_plan() -> None:
    wrong: list[float] = []

    def work(seed: int) -> None:
        generator = draw.seeded(seed)
        x = generator.normal(2, 8).to(where()).requires_grad_()
        for _ in range(5):
            (got,) = torch.autograd.grad(weft.ops.silu(x).sum(), x)
            wrong.append(float((got - silu_slope(x)).abs().max()))

    threads = [threading.Thread(target=work, args=(i,)) for i in range(3)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert len(wrong) == 15 and max(wrong) < 1e-5


def test_a_dropped_graph_frees_its_tensors() -> None:
    x = leaf(2, 8)
    weft.ops.silu(x)
    inner = x * 1
    result = weft.ops.silu(inner)
    gone = weakref.ref(inner)
    del inner, result
    gc.collect()
    assert gone() is None


def test_recipes_are_freed_with_their_plans() -> None:
    def formulas() -> int:
        gc.collect()
        return sum(type(each) is record._Formula for each in gc.get_objects())

    before, x = formulas(), leaf(2, 8)
    for _ in range(2):
        weft.ops.silu(x).sum().backward()
    assert formulas() == before + 1
    weft.ops.silu.op.forget()
    assert formulas() == before


def test_an_error_of_a_formula() -> None:
    x, labels = leaf(2, 8), torch.zeros(2, dtype=torch.long, device=where())
    weight = leaf(8)
    loss = weft.ops.nll_loss(x, labels, weight)
    with pytest.raises(weft.ArgumentError, match="no gradient"):
        loss.backward()


# ---- modes: the op is still seen by whoever must see it ----------------------------------------
def test_modes_of_torch() -> None:
    from torch._subclasses.fake_tensor import FakeTensorMode

    x = leaf(2, 8)
    weft.ops.silu(x).sum().backward()
    transformed = torch.func.grad(lambda t: weft.ops.silu(t).sum())(x.detach())
    torch.testing.assert_close(transformed, x.grad)
    torch.testing.assert_close(torch.func.vmap(weft.ops.silu)(x), functional.silu(x))
    with FakeTensorMode(allow_non_fake_inputs=True):
        fake = weft.ops.silu(torch.empty(2, 8, device=where(), requires_grad=True))
        fake.sum().backward()
    with torch.autocast(where(), dtype=torch.bfloat16):
        weft.ops.matmul(x, leaf(8, 2)).float().sum().backward()


def test_a_mode_around_the_backward_pass_sees_its_ops() -> None:
    class Seen(trace.TorchDispatchMode):  # type: ignore[misc]
        def __torch_dispatch__(self, func: Any, types: Any, args: Any, kwargs: Any) -> Any:
            names.append(str(func))
            return func(*args, **(kwargs or {}))

    x, names = leaf(2, 8), list[str]()
    for _ in range(2):
        result = weft.ops.silu(x).sum()
        names.clear()
        with Seen():
            result.backward()
    assert "weft.silu_backward.default" in names


def test_a_subclass() -> None:
    class Mine(torch.Tensor):  # type: ignore[misc]
        pass

    x = leaf(2, 8)
    weft.ops.silu(x)
    assert type(weft.ops.silu(x.as_subclass(Mine))) is Mine


# ---- launches, with a driver that notes what it is given ----------------------------------------
LAUNCH = ctypes.CFUNCTYPE(
    ctypes.c_int, ctypes.POINTER(driver.CuLaunchConfig), ctypes.c_void_p,
    ctypes.POINTER(ctypes.c_void_p), ctypes.c_void_p,
)  # fmt: skip
STREAM = ctypes.CFUNCTYPE(ctypes.c_int, ctypes.c_int, ctypes.c_int, ctypes.POINTER(ctypes.c_void_p))
STATUS = ctypes.CFUNCTYPE(ctypes.c_int, ctypes.c_void_p, ctypes.POINTER(ctypes.c_int))


class Noted:
    """A driver: what it was asked to launch, with `count` words of 64 bits each.

    codes  what the launches return
    """

    def __init__(self, count: int, *codes: int) -> None:
        self.seen: list[tuple[int, ...]] = []
        self.ring = (ctypes.c_uint64 * 33)()
        self._count, self._codes = count, list(codes)

    def _launch(self, config: Any, function: Any, params: Any, extra: Any) -> int:
        words = [ctypes.c_int64.from_address(params[i]).value for i in range(self._count)]
        self.seen.append((config[0].grid[0], config[0].stream, function, *words))
        return self._codes.pop(0)

    @staticmethod
    def _stream(kind: int, number: int, found: Any) -> int:
        found[0] = 77
        return 0

    @staticmethod
    def _capturing(stream: Any, status: Any) -> int:
        status[0] = 0
        return 0

    @contextlib.contextmanager
    def running(self, block: bytes, rows: Any, buffers: Any, slow: Any) -> Iterator[Any]:
        """The function that runs a plan of one kernel, whose result is the first buffer."""
        config = driver.CuLaunchConfig((3, 1, 1), (32, 1, 1), 0, None, None, 0)
        offsets = list(range(0, 8 * self._count, 8))
        kernel = (bytes(config), 1234, block, offsets, rows, 9, slow, None)
        row = ("launches", [0], buffers, 1, [kernel], lambda: 4096, torch.device("cpu"))
        callbacks = LAUNCH(self._launch), STREAM(self._stream), STATUS(self._capturing)
        module = build.started().module
        module.configure(*map(machine.address, callbacks), ctypes.addressof(self.ring), 32)
        try:
            yield module.running(module.program([row], [1]))
        finally:
            if where() == "cuda":
                launches.configure(module)


def failing(*addresses: int) -> None:
    raise weft.LaunchError(f"{len(addresses)} addresses")


def test_launches_of_a_plan() -> None:
    """Addresses, offsets and the stream are set; a launch that fails is repeated in Python."""
    noted, x = Noted(4, 0, 700), torch.zeros(2, 3)
    rows = [(0, 0, 0), (8, 1, 4), (16, -1, 0)]
    buffers = [((2, 3), (3, 1), torch.float32, True)]
    with noted.running(struct.pack("<4q", 0, 0, 0, 5), rows, buffers, failing) as run:
        y = run(x)
        with pytest.raises(weft.LaunchError, match="3 addresses"):
            run(x)
    assert noted.seen[0] == (3, 77, 1234, x.data_ptr(), y.data_ptr() + 4, 4096, 5)
    assert torch.equal(y, torch.zeros(2, 3)) and list(noted.ring)[:3] == [2, 9, 9]


def test_a_launch_with_the_most_parameters() -> None:
    count = min(native_launch.ROOM // 8, native_launch.MANY)
    block = struct.pack(f"<{count}q", *range(count)).ljust(native_launch.ROOM, b"\0")
    noted, x = Noted(count, 0), torch.zeros(2, 3)
    buffers = [((2, 3), (3, 1), torch.float32, False)]
    with noted.running(block, [(8 * count - 8, 0, 0)], buffers, failing) as run:
        run(x)
    assert noted.seen == [(3, 77, 1234, *range(count - 1), x.data_ptr())]


def test_scratch_is_allocated_at_once() -> None:
    """Each part begins where torch's allocations may, behind the one before; zeros are apart."""
    noted, x = Noted(5, 0), torch.zeros(2, 3)
    scratch = [((300,), (1,), torch.uint8, False), ((0, 2), (2, 1), torch.int32, False),
               ((2, 3), (1, 200), torch.int32, False), ((4,), (1,), torch.float32, True),
               ((9,), (1,), torch.int64, False)]  # fmt: skip
    rows = [(8 * i, 2 + i, 0) for i in range(5)]
    buffers = [((2, 3), (3, 1), torch.float32, False), *scratch]
    with noted.running(bytes(40), rows, buffers, failing) as run:
        run(x)
    first, empty, strided, zeros, last = noted.seen[0][3:]
    assert (empty - first, strided - first, last - first) == (512, 512, 512 + 2048)
    assert not first <= zeros < last + 72


# ---- without it --------------------------------------------------------------------------------
def test_calls_are_recorded_in_python_until_it_is_compiled(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(build.started(), "module", None)
    x = leaf(2, 8)
    result = weft.ops.silu(x)
    assert not is_native(result)
    result.sum().backward()
    torch.testing.assert_close(x.grad, silu_slope(x))


def test_a_compiler_that_fails_is_reported(monkeypatch: pytest.MonkeyPatch, tmp_path: Any) -> None:
    (tmp_path / "module.cpp").write_text("#error nothing to compile\n")
    monkeypatch.setattr(build, "FOLDER", tmp_path)
    made = build.Build()
    assert made.wait() is None and "nothing to compile" in made.failure
