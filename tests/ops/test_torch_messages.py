"""Messages of ops of PyTorch that are made or called wrongly."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

import weft

torch = pytest.importorskip("torch")

from torch_kernels import MODULE, randn, sized, square  # noqa: E402

MESSAGES: list[Any] = [
    ("dtype", lambda: square()(randn(4).double()), "'x' has a dtype that the kernel does not take"),
    (
        "shape",
        lambda: MODULE.square_backward.as_op("mine::d")(randn(4), randn(5)),
        "'grad' has not the shape of 'x'",
    ),
    (
        "backward",
        lambda: square("mine::m1", backward=None)(randn(4, grad=True)).sum().backward(),
        "mine::m1 has no backward",
    ),
    (
        "count of gradients",
        lambda: (
            square("mine::m2", backward=lambda ctx, g: (g, g))(randn(4, grad=True)).sum().backward()
        ),
        "does not give a gradient for each tensor",
    ),
    ("name", lambda: square("square"), "a namespace of your own"),
    ("torch's name", lambda: square("aten::square"), "belong to torch"),
    ("schema", lambda: MODULE.square.as_op("mine::m3", "(Tensor x -> y"), "schema cannot be read"),
    (
        "argument of another name",
        lambda: MODULE.square.as_op("mine::m3", "(Tensor a) -> Tensor"),
        "args={'x': 'a'}",
    ),
    (
        "type of an argument",
        lambda: MODULE.square.as_op("mine::m3", "(Tensor x, float n) -> Tensor"),
        "'n' is float in the schema, int in the kernel",
    ),
    (
        "written argument",
        lambda: MODULE.axpy.as_op("mine::m3", "(float a, Tensor x, Tensor y) -> ()"),
        "Tensor(a!) y where it is changed in place",
    ),
    (
        "results",
        lambda: MODULE.square.as_op("mine::m3", "(Tensor x) -> (Tensor, Tensor)"),
        "results are not those that the kernel writes",
    ),
    ("sizes", lambda: sized()(randn(5)), "'x' has a shape that does not fit"),
    (
        "rule that raises",
        lambda: MODULE.square.as_op("mine::m3", args={"n": "x.nume()"})(randn(4)),
        "mine::m3: args['n']: 'x.nume()' cannot be computed",
    ),
    (
        "sizes that differ",
        lambda: MODULE.square_backward.as_op(
            "mine::m3", "x:f32[n] grad:f32[n] -> dx:f32[n]"
        )(randn(4), randn(5)),
        "got: x [4], grad [5]\n  allowed: grad[n] with n = 4",
    ),
    ("type in a signature", lambda: sized("x:f64[rows,columns] -> y:f32[rows]"),
     "'x' is f64 in the signature, float const* in the kernel"),
    ("size that is none", lambda: sized(grid="row"), "did you mean 'rows'?"),
    ("signature", lambda: sized("x:f32 -> y:f32[rows]"), "signature cannot be read"),
    ("no op", lambda: weft.ops.verify(lambda x: x, randn(3)), "verify takes an op"),
    ("option", lambda: square("mine::m3", gird=1), "did you mean 'grid'?"),
    ("rule", lambda: square("mine::m3", grid=lambda xs: 1), "did you mean 'x'?"),
    ("expression", lambda: square("mine::m3", grid="cdiv(x,"), "is not an expression"),
    ("vmap", lambda: square("mine::m3", vmap="rows"), "no such rule for vmap"),
    ("save", lambda: square("mine::m3", save="z"), "neither argument nor result"),
    ("clear", lambda: square("mine::m3", clear="z"), "which is no result"),
    ("out", lambda: MODULE.split.as_op("mine::m3", out="x"), "which result each shape is for"),
    ("kernel", lambda: weft.as_op(3, "mine::m3"), "made of a kernel or of a function"),
    (
        "derivative of in place",
        lambda: MODULE.axpy.as_op(
            "mine::m3", "(float a, Tensor x, Tensor(a!) y) -> ()", backward=lambda ctx: None
        ),
        "an op that writes to its arguments has no derivative",
    ),
]  # fmt: skip


@pytest.mark.parametrize(
    ("call", "words"), [pytest.param(call, words, id=name) for name, call, words in MESSAGES]
)
def test_messages(call: Callable[[], Any], words: str) -> None:
    with pytest.raises(weft.ArgumentError) as caught:
        call()
    assert words in str(caught.value)


def test_formula_asks_for_what_is_not_saved() -> None:
    op = square("mine::m4", save="x", backward=lambda ctx, g: ctx.y * g)
    with pytest.raises(AttributeError, match="'y' is not saved for backward; ctx has x"):
        op(randn(4, grad=True)).sum().backward()


def test_name_of_another_library() -> None:
    library = torch.library.Library("elsewhere", "DEF")
    library.define("taken(Tensor x) -> Tensor")
    with pytest.raises(weft.ArgumentError, match="is taken"):
        square("elsewhere::taken")
