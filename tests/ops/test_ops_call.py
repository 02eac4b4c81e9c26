"""The call path of the op library: modes of torch see the op, and plans fit what they serve."""

from __future__ import annotations

import pkgutil
from typing import Any

import pytest

import devices
import draw
import weft

torch = pytest.importorskip("torch")

from weft.ops.core import library  # noqa: E402


def where() -> str:
    return "cuda" if devices.current.name == "gpu" else "cpu"


def randn(*shape: int) -> Any:
    generator = draw.seeded(sum(shape) + len(shape))
    return generator.normal(*shape).to(where())


def test_plans_are_found_again() -> None:
    op, x = weft.ops.softmax.op, randn(3, 8)
    first = weft.ops.softmax(x)
    count = len(op.plans)
    for _ in range(3):
        torch.testing.assert_close(weft.ops.softmax(x), first)
        torch.testing.assert_close(weft.ops.softmax(x, dim=-1), first)
    assert len(op.plans) == count
    torch.testing.assert_close(weft.ops.softmax(x, 0), x.softmax(0))
    assert len(op.plans) == count + 1


def test_a_dimension_as_number_list_and_tuple_is_one_plan() -> None:
    op, x = weft.ops.sum.op, randn(3, 5)
    weft.ops.sum(x, 1)
    count = len(op.plans)
    for dim in (1, [1], (1,)):
        torch.testing.assert_close(weft.ops.sum(x, dim), x.sum(1))
    assert len(op.plans) == count


def test_layouts_of_one_shape_have_plans_of_their_own() -> None:
    x = randn(6, 6)
    for view in (x, x.t(), x[:, ::2], x[1:, 1:], x.expand(2, 6, 6), randn(37)[1:].view(6, 6)):
        torch.testing.assert_close(weft.ops.softmax(view), view.softmax(-1))
        torch.testing.assert_close(weft.ops.sum(view, -1), view.sum(-1))


def test_no_module_hides_an_op() -> None:
    """`weft.ops.norm` is the op, whatever has been imported."""
    modules = {module.name for module in pkgutil.iter_modules(weft.ops.__path__)}
    assert not modules & set(library.names())


def test_a_negated_view() -> None:
    pair = torch.view_as_complex(randn(5, 2))
    plain, negated = pair.imag, pair.conj().imag
    assert negated.is_neg() and not plain.is_neg()
    for view in (plain, negated, plain):  # dtype, shape, strides and address are the same
        torch.testing.assert_close(weft.ops.softmax(view), view.softmax(-1))


def test_plans_keep_no_tensors_alive() -> None:
    import gc
    import weakref

    x = randn(4, 7).t()
    weft.ops.softmax(x)
    gone = weakref.ref(x)
    del x
    gc.collect()
    assert gone() is None


@pytest.mark.parametrize(
    ("name", "options"), [("max_pool2d", (2,)), ("avg_pool2d", (3, 2, 1)), ("sum", (1,))]
)
def test_a_number_for_a_list_finds_its_plan(
    name: str, options: tuple[int, ...], monkeypatch: pytest.MonkeyPatch
) -> None:
    op, x = getattr(weft.ops, name), randn(1, 1, 6, 6)
    first = op(x, *options)

    def dispatch(*args: Any) -> Any:
        raise AssertionError("the call was dispatched by torch")

    monkeypatch.setitem(op.op.namespace, "dispatch", dispatch)
    assert torch.equal(op(x, *options), first)


# ---- modes: with a plan at hand, the op is still seen by whoever must see it --------------------
@pytest.fixture
def x() -> Any:
    x = randn(4, 8)
    weft.ops.softmax(x)
    weft.ops.softmax(x)
    return x


def test_gradients(x: Any) -> None:
    assert weft.ops.softmax(x.clone().requires_grad_()).requires_grad
    with torch.no_grad():
        assert not weft.ops.softmax(x.clone().requires_grad_()).requires_grad
    parameter = torch.nn.Parameter(x.clone())
    assert weft.ops.softmax(parameter).requires_grad
    with torch.inference_mode():
        assert weft.ops.softmax(x).is_inference()


@pytest.mark.parametrize("name", ["softmax", "cross_entropy"])
def test_a_gradient_is_recorded_without_the_dispatcher(
    x: Any, name: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    op, leaf = getattr(weft.ops, name), x.clone().requires_grad_()
    rest = (torch.zeros(4, dtype=torch.int64, device=x.device),) if name == "cross_entropy" else ()

    def dispatch(*args: Any) -> Any:
        raise AssertionError("the call was dispatched by torch")

    monkeypatch.setitem(op.op.namespace, "dispatch", dispatch)
    (slope,) = torch.autograd.grad(op(leaf, *rest).sum(), leaf)
    same = leaf.softmax(-1) if name == "softmax" else torch.nn.functional.cross_entropy(leaf, *rest)
    torch.testing.assert_close(slope, torch.autograd.grad(same.sum(), leaf)[0], atol=1e-6, rtol=0)


def seen_by(mode: Any, x: Any) -> list[str]:
    """The functions that a mode of torch sees in a call of softmax."""
    seen: list[str] = []

    class Mode(mode):  # type: ignore[misc]
        def see(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
            seen.append(str(func))
            return func(*args, **(kwargs or {}))

        __torch_dispatch__ = __torch_function__ = see

    with Mode():
        weft.ops.softmax(x)
    return seen


def test_dispatch_modes(x: Any) -> None:
    from torch.utils._python_dispatch import TorchDispatchMode

    assert any("weft.softmax" in name for name in seen_by(TorchDispatchMode, x))


def test_function_modes(x: Any) -> None:
    from torch.overrides import TorchFunctionMode

    assert any("softmax" in name for name in seen_by(TorchFunctionMode, x))


def test_vmap(x: Any) -> None:
    torch.testing.assert_close(torch.vmap(weft.ops.softmax)(x), x.softmax(-1))


def test_compile(x: Any) -> None:
    f = torch.compile(lambda v: weft.ops.softmax(v) + 1, fullgraph=True, backend="aot_eager")
    torch.testing.assert_close(f(x), x.softmax(-1) + 1)


def test_autocast(x: Any) -> None:
    with torch.autocast(where(), dtype=torch.bfloat16):
        assert weft.ops.softmax(x.bfloat16()).dtype == torch.float32
    assert weft.ops.softmax(x.bfloat16()).dtype == torch.bfloat16


def test_fake_and_meta_tensors(x: Any) -> None:
    from torch._subclasses.fake_tensor import FakeTensorMode

    with FakeTensorMode() as mode:
        assert weft.ops.softmax(mode.from_tensor(x)).shape == x.shape
    assert weft.ops.softmax(x.to("meta")).device.type == "meta"


def test_subclasses(x: Any) -> None:
    class Mine(torch.Tensor):
        pass

    assert isinstance(weft.ops.softmax(x.as_subclass(Mine)), Mine)


def test_profiler_sees_the_op(x: Any) -> None:
    with torch.autograd.profiler.profile() as profile:
        weft.ops.softmax(x)
    assert any("weft::softmax" in event.key for event in profile.key_averages())


# ---- what is refused ---------------------------------------------------------------------------
@pytest.mark.parametrize(
    ("call", "words"),
    [
        (lambda: weft.ops.softmax(randn(4, 4).to_sparse()), "not a dense tensor"),
        (lambda: weft.ops.softmax(randn(4, 4), 2), "got: dim 2 of 2 dimensions"),
        (lambda: weft.ops.sum(randn(4), (0, 0)), "each once"),
        (lambda: weft.ops.amax(randn(0, 3), 0), "at least one element"),
        (lambda: weft.ops.matmul(randn(2, 3), randn(4, 5)), "incompatible shapes"),
        (lambda: weft.ops.matmul(randn(2, 3).double(), randn(3, 5).double()), "float32"),
        (lambda: weft.ops.matmul(randn(2, 3), randn(3, 5), precision="tf23"), "'3xtf32'"),
        (lambda: weft.ops.addmm(randn(7), randn(2, 3), randn(3, 5)), "broadcasts to [M, N]"),
        (lambda: weft.ops.norm(randn(4), ord=3.0), "1, 2, math.inf"),
        (lambda: weft.ops.softmax(randn(4), "last"), "got: 'last' (str)\n  allowed: an integer"),
        (lambda: weft.ops.matmul(randn(4, 4), 3), "allowed: a tensor"),
        (lambda: weft.ops.layer_norm(randn(4), 4), "allowed: a list of integers"),
        (
            lambda: weft.ops.batch_norm_relu(
                randn(2, 4, 3), randn(4), randn(4), randn(4), randn(4), True
            ),
            "'residual' has a wrong type\n  got: True (bool)\n  allowed: a tensor or None",
        ),
        (lambda: weft.ops.linear(randn(4, 4), None), "got: None (NoneType)\n  allowed: a tensor"),
        (lambda: weft.ops.explain(torch.softmax, randn(4)), "explain takes an op of the library"),
    ],
)
def test_messages(call: Any, words: str) -> None:
    with pytest.raises(weft.ArgumentError) as caught:
        call()
    assert words in str(caught.value)


def test_explain() -> None:
    found = weft.ops.explain(weft.ops.matmul, randn(64, 4096), randn(4096, 4096))
    assert found.choice.used.name == found.to_dict()["used"]
    assert "K in" in found.choice.used.name  # too few tiles for the SMs otherwise
    assert "least modelled time" in str(found) and "blocks for" in str(found)


def test_three_products_of_tf32_are_as_accurate_as_fp32() -> None:
    a, b = randn(70, 200), randn(200, 33)
    want = a.double() @ b.double()
    errors = [
        float((weft.ops.matmul(a, b, precision=p) - want).norm() / want.norm())
        for p in ("fp32", "3xtf32")
    ]
    assert errors[0] < 5e-7 and errors[1] < 2 * errors[0]
