"""Calls that are made in C++: which plan serves them, and which calls are left to Python."""

from __future__ import annotations

import contextlib
import dataclasses
import gc
import threading
import weakref
from collections.abc import Callable
from typing import Any

import pytest

import draw
import native_ops
import weft

torch = pytest.importorskip("torch")

from torch._subclasses.fake_tensor import FakeTensorMode  # noqa: E402
from torch.autograd import forward_ad  # noqa: E402
from torch.nn import functional  # noqa: E402
from torch.overrides import TorchFunctionMode  # noqa: E402
from torch.utils._python_dispatch import TorchDispatchMode  # noqa: E402

from weft.ops.core import library  # noqa: E402
from weft.ops.core.native import build, calls  # noqa: E402

pytestmark = native_ops.MARKS


def randn(*shape: int) -> Any:
    generator = draw.seeded(sum(shape) + len(shape))
    return generator.normal(*shape).to(native_ops.where())


def learned(op: Any, *args: Any) -> Any:
    """The function of the C++ code that makes calls of an op, which has learned this one."""
    op(*args)
    op(*args)
    native = op.op.native.call
    assert native(*op.op.bound(args, {})) is not NotImplemented
    return native


@pytest.fixture
def x() -> Any:
    return randn(4, 8)


# ---- plans -------------------------------------------------------------------------------------
CALLS: list[tuple[str, Callable[[Any], tuple[Any, ...]], Callable[..., Any]]] = [
    ("exp", lambda x: (x,), torch.exp),
    ("add", lambda x: (x, x[:1]), torch.add),
    ("gelu", lambda x: (x, "tanh"), lambda x, a: functional.gelu(x, approximate=a)),
    ("softmax", lambda x: (x.t(), 0), torch.softmax),
    ("sum", lambda x: (x, [0, 1], True), torch.sum),
    ("layer_norm", lambda x: (x, (8,)), functional.layer_norm),
    ("layer_norm", lambda x: (x, x[0].shape, x[0]), functional.layer_norm),
]


@pytest.mark.parametrize(("name", "given", "by_torch"), CALLS, ids=[row[0] for row in CALLS])
def test_a_learned_call_needs_no_python(
    name: str, given: Any, by_torch: Any, x: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    op, args = getattr(weft.ops, name), given(x)
    learned(op, *args)

    def python(*args: Any) -> Any:
        raise AssertionError("Python has made the call")

    for path in ("dispatch", "known", "recorded"):
        monkeypatch.setitem(op.op.namespace, path, python)
    torch.testing.assert_close(op(*args), by_torch(*args))
    with pytest.raises(AssertionError, match="Python"):  # another shape has no plan
        op(*given(randn(5, 8)))


@pytest.mark.parametrize("name", ["cat", "stack"])
def test_a_learned_list_of_tensors_is_not_checked_again(
    name: str, x: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    op, by_torch = getattr(weft.ops, name), getattr(torch, name)
    parts = [x.clone().requires_grad_(), randn(4, 8), x + 1]
    for given in ([p.detach() for p in parts], parts):
        for _ in range(2):
            op(given, 1)

    def check(*args: Any) -> None:
        raise AssertionError("Python has checked the list")

    monkeypatch.setattr("weft.ops.families.join.op._check_list", check)
    for given in (parts, tuple(parts)):
        y = op(given, 1)
        assert torch.equal(y, by_torch(parts, 1))
    (dx,) = torch.autograd.grad(y, parts[0], 2 * torch.ones_like(y))
    assert torch.equal(dx, torch.full_like(x, 2))
    for others in (parts[:2], [x[:2]] * 3, [x, x, x.half()], "abc", [x, x, None]):
        with pytest.raises(AssertionError, match="checked"):
            op(others, 1)


def test_every_part_of_a_layout_and_every_option_is_in_the_key(x: Any) -> None:
    native = learned(weft.ops.softmax, x, -1)
    room = torch.empty(64, device=x.device)
    same = room[4:36].view(4, 8)  # also aligned to 16 bytes
    assert native(same, -1) is not NotImplemented
    others = [
        (x.half(), -1), (x.t().contiguous().t(), -1), (x[:2], -1), (x.view(4, 8, 1), -1),
        (room[1:33].view(4, 8), -1), (room.view(8, 8)[::2], -1), (x, 1), (x, True), (x, -1.0),
        (x, None), (x, "-1"), (x, 2**70), (x.to("meta"), -1), (x, x), (3.0, -1), (x,), (x, -1, 0),
    ]  # fmt: skip
    for args in others:
        assert native(*args) is NotImplemented, args


def test_a_plan_has_several_keys(x: Any) -> None:
    sums = weft.ops.sum
    for dim in (1, [1], (1,), torch.Size([1])):
        native = learned(sums, x, dim)
        torch.testing.assert_close(native(x, dim, False), x.sum(1))
    assert len(sums.op.plans) == 1


def test_text_and_lists_of_text_are_told_apart(x: Any) -> None:
    native = learned(weft.ops.elementwise, "a * C(2)", x)
    torch.testing.assert_close(native("a * C(2)", x, None, None), x * 2)
    for other in ("a * C(3)", "a * C(2) ", "", "\ud800", ["a * C(2)"]):
        assert native(other, x, None, None) is NotImplemented


def test_plans_are_dropped(x: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    module, op = build.started().module, weft.ops.exp
    native = learned(op, x)
    entry = weakref.ref(next(iter(op.op.plans.values())).run)
    op.op.forget()
    gc.collect()
    assert native(x) is NotImplemented and entry() is None
    monkeypatch.setattr(calls, "REMEMBERED", 2)
    for columns in (1, 2, 3):
        learned(op, x[:, :columns])
        assert module.count(op.op.native._table) <= 2


def test_threads_while_plans_are_dropped(x: Any) -> None:
    """Also the first use of an op, by several threads at once."""
    wrong: list[bool] = []

    def work() -> None:
        wrong.extend(
            not torch.equal(weft.ops.hardtanh(x), functional.hardtanh(x)) for _ in range(50)
        )

    threads = [threading.Thread(target=work) for _ in range(3)]
    for thread in threads:
        thread.start()
    while any(thread.is_alive() for thread in threads):
        weft.ops.hardtanh.op.native.forget()
    assert len(wrong) == 150 and not any(wrong)


def test_a_call_that_has_no_key_does_not_keep_others_from_being_learned() -> None:
    pair = torch.view_as_complex(randn(4, 2))
    for _ in range(3):
        weft.ops.cos(pair.conj().imag)  # negated: only Python makes the call
    learned(weft.ops.cos, pair.imag)


def test_a_call_that_fails_in_python_fails_alike(x: Any) -> None:
    learned(weft.ops.softmax, x, -1)
    with pytest.raises(weft.ArgumentError, match="dim 2 of 2 dimensions"):
        weft.ops.softmax(x, 2)
    with pytest.raises(TypeError, match="softmax"):
        weft.ops.softmax(x, -1, 3)


# ---- gradients ---------------------------------------------------------------------------------
def test_a_gradient_is_recorded_by_the_same_call(x: Any) -> None:
    native = learned(weft.ops.exp, x)
    leaf = x.clone().requires_grad_()
    weft.ops.exp(leaf)
    result = native(leaf)
    torch.testing.assert_close(torch.autograd.grad(result.sum(), leaf)[0], x.exp())
    with torch.no_grad():
        assert not native(leaf).requires_grad
    assert not native(x).requires_grad
    assert native(torch.nn.Parameter(x)).requires_grad


def test_a_gradient_without_a_recipe_is_left_to_python(x: Any) -> None:
    native = learned(weft.ops.mul, x, x.clone())
    leaf = x.clone().requires_grad_()
    assert native(leaf, x) is NotImplemented
    weft.ops.mul(leaf, x)
    assert native(leaf, x) is not NotImplemented
    assert native(x, leaf) is NotImplemented


def _recorded(name: str) -> tuple[Any, list[Any], Callable[..., Any]]:
    """The op that is called, its arguments, and torch's function of them."""
    x, weight, bias, labels = randn(4, 8), randn(8), randn(8) + 1, torch.arange(4)
    image, rows = randn(2, 3, 4, 4), randn(1, 2, 4, 16)
    mean, var = torch.zeros(3), torch.ones(3)
    moved = [t.to(native_ops.where()) for t in (labels, mean, var)]
    table: dict[str, tuple[list[Any], Callable[..., Any]]] = {
        "linear": ([x, randn(6, 8), randn(6)], functional.linear),
        "layer_norm": ([x, (8,), weight, bias], functional.layer_norm),
        "rms_norm": ([x, (8,), weight], functional.rms_norm),
        "group_norm": ([image, 3], functional.group_norm),
        "max_pool2d": ([image, 2], functional.max_pool2d),
        "cross_entropy": ([x, moved[0]], functional.cross_entropy),
        "attention": ([rows, rows + 1, rows - 1], functional.scaled_dot_product_attention),
        "conv2d": ([image, randn(4, 3, 3, 3)], functional.conv2d),
        "batch_norm": ([image, *moved[1:], randn(3), randn(3) + 1, True], functional.batch_norm),
    }
    given, by_torch = table[name]
    return getattr(weft.ops, name), given, by_torch


@pytest.mark.parametrize(
    "name",
    ["linear", "layer_norm", "rms_norm", "group_norm", "max_pool2d", "cross_entropy", "attention",
     "conv2d", "batch_norm"],
)  # fmt: skip
def test_a_recorded_call_needs_no_python(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """Also where another op records it, or two others make it; calls without gradients differ."""
    op, given, by_torch = _recorded(name)

    def leaves() -> list[Any]:
        own = [a.clone() if isinstance(a, torch.Tensor) else a for a in given]
        written = own[1:3] if name == "batch_norm" else []
        for a in own:
            if isinstance(a, torch.Tensor) and not any(a is w for w in written):
                a.requires_grad_(a.is_floating_point())
        return own

    for _ in range(3):
        op(*leaves())
    with monkeypatch.context() as patched:
        for path in ("dispatch", "known", "recorded"):
            patched.setitem(op.op.namespace, path, None)
        mine, theirs = leaves(), leaves()
        got, want = op(*mine), by_torch(*theirs)
    assert not hasattr(got.grad_fn, "saved_tensors")  # a node of the C++ code
    torch.testing.assert_close(got, want)
    rate = torch.linspace(-1, 1, got.numel()).view(got.shape).to(got.device)
    (got * rate).sum().backward()
    (want * rate).sum().backward()
    for i, (a, b) in enumerate(zip(mine, theirs, strict=True)):
        if isinstance(a, torch.Tensor):
            torch.testing.assert_close(a.detach(), b.detach())  # also what the call has written
            torch.testing.assert_close(a.grad, b.grad, rtol=1e-4, atol=1e-5)
            assert a._version == (name == "batch_norm" and i in (1, 2))
    with torch.no_grad():
        again, expected = leaves(), leaves()
        for _ in range(2):
            torch.testing.assert_close(op(*again), by_torch(*expected))


# ---- modes -------------------------------------------------------------------------------------
class _Dispatch(TorchDispatchMode):  # type: ignore[misc]
    def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        return func(*args, **(kwargs or {}))


class _Function(TorchFunctionMode):  # type: ignore[misc]
    def __torch_function__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        return func(*args, **(kwargs or {}))


MODES: dict[str, Callable[[], Any]] = {
    "dispatch mode": _Dispatch,
    "function mode": _Function,
    "default device": lambda: torch.device("cpu"),
    "fake tensors": FakeTensorMode,
    "profiler": torch.autograd.profiler.profile,
    "below autograd": torch._C._AutoDispatchBelowAutograd,
}


@pytest.mark.parametrize("mode", MODES)
def test_a_mode_sees_the_call(mode: str, x: Any) -> None:
    native = learned(weft.ops.exp, x)
    with MODES[mode]():
        assert native(x) is NotImplemented
    assert native(x) is not NotImplemented


@pytest.mark.filterwarnings("ignore:.*torch.jit:DeprecationWarning")
def test_transforms_see_the_call(x: Any) -> None:
    native, seen = learned(weft.ops.exp, x[0]), list[Any]()

    def noted(t: Any) -> Any:
        seen.extend([native(t), native(x[0])])
        return t.sum()

    torch.vmap(noted)(x)
    torch.func.grad(noted)(x[0])
    torch.func.jvp(noted, (x[0],), (x[0],))
    with forward_ad.dual_level():
        seen.append(native(forward_ad.make_dual(x[0], x[1])))
    torch.jit.trace(noted, x[0], check_trace=False)
    assert len(seen) == 9 and all(each is NotImplemented for each in seen)


def test_tensors_that_torch_must_see(x: Any) -> None:
    class Mine(torch.Tensor):  # type: ignore[misc]
        pass

    pair = torch.view_as_complex(randn(4, 2))
    native = learned(weft.ops.neg, pair.imag)
    assert native(pair.conj().imag) is NotImplemented  # a negated view with the same layout
    torch.testing.assert_close(weft.ops.neg(pair.conj().imag), pair.imag)
    native = learned(weft.ops.exp, x)
    with FakeTensorMode() as mode:
        fake = mode.from_tensor(x)
    for other in (x.as_subclass(Mine), fake, x.to_sparse(), torch._efficientzerotensor(4, 8)):
        assert native(other) is NotImplemented


@pytest.mark.parametrize(
    "mode",
    [torch.no_grad, torch.inference_mode, torch.enable_grad, contextlib.nullcontext],
    ids=lambda mode: mode.__name__,
)
def test_these_do_not_need_python(mode: Any, x: Any) -> None:
    native = learned(weft.ops.exp, x)
    with mode():
        result = native(x)
    torch.testing.assert_close(result, x.exp())
    assert result.is_inference() == (mode is torch.inference_mode)
    with torch.inference_mode():
        inside = x.clone()
        weft.ops.exp(inside)
        assert weft.ops.exp(inside).is_inference()
    weft.ops.exp(inside)
    assert native(inside) is not NotImplemented  # has a key of its own


def test_torch_compile(x: Any) -> None:
    learned(weft.ops.exp, x)
    compiled = torch.compile(lambda t: weft.ops.exp(t) + 1, fullgraph=True, backend="aot_eager")
    torch.testing.assert_close(compiled(x), x.exp() + 1)
    exported = torch.export.export(_Exp(), (x,), strict=False)
    assert any("weft.exp" in str(node.target) for node in exported.graph.nodes)


class _Exp(torch.nn.Module):  # type: ignore[misc]
    def forward(self, x: Any) -> Any:
        return weft.ops.exp(x)


# ---- without it --------------------------------------------------------------------------------
def test_calls_are_made_in_python_until_it_is_compiled(
    x: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(build.started(), "module", None)
    op = weft.ops.tanh
    for _ in range(3):
        torch.testing.assert_close(op(x), x.tanh())
    assert op.op.native.call is calls.unknown
    (entry,) = op.op.plans.values()
    assert entry.record.open
    monkeypatch.setattr(build.started(), "failure", "there is no g++")
    torch.testing.assert_close(op(x), x.tanh())
    assert not entry.record.open


# ---- random numbers ----------------------------------------------------------------------------
def test_the_gradient_of_dropout_has_the_mask_of_its_call(monkeypatch: pytest.MonkeyPatch) -> None:
    """Also where two calls are recorded before their backward passes, by formula and program."""
    leaf = torch.ones(4, 64, device=native_ops.where(), requires_grad=True)
    one = torch.ones_like(leaf)
    for _ in range(3):
        results = [weft.ops.dropout(leaf) for _ in range(2)]
        assert all(not hasattr(r.grad_fn, "saved_tensors") for r in results)
        assert not torch.equal(*results)
        for result in results[::-1]:
            assert torch.equal(torch.autograd.grad(result, leaf, one)[0], result)
    seeded = weft.ops.dropout.__closure__[0].cell_contents._seeded
    monkeypatch.setattr(seeded, "definition", dataclasses.replace(seeded.definition, backward=None))
    result = weft.ops.dropout(leaf)
    assert torch.equal(torch.autograd.grad(result, leaf, one)[0], result)  # no formula


def test_a_seed_of_zero_is_not_part_of_a_program() -> None:
    seeded = library.call("seeded_dropout")
    leaf = torch.ones(4, 64, device=native_ops.where(), requires_grad=True)
    for seed, offset in ((0, 0), (0, 0), (0, 0), (-5, 4), (2**63 - 1, 8)):
        result = seeded(leaf, 0.5, seed, offset)
        expected = seeded(leaf.detach(), 0.5, seed, offset)
        assert torch.equal(result, expected)
        gradient = torch.autograd.grad(result, leaf, torch.ones_like(leaf))[0]
        assert torch.equal(gradient, expected)
