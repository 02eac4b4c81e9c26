"""Several calls that become one op of weft: fewer kernels, and the results of eager PyTorch."""

from __future__ import annotations

from typing import Any

import pytest

torch = pytest.importorskip("torch")
from torch.nn import functional as F  # noqa: E402

from compiled_models import compiled, names, normal, same  # noqa: E402
from weft.torch_backend import reports  # noqa: E402

BATCH, HEADS, KV_HEADS, POSITIONS, SIZE = 2, 4, 2, 5, 8


# ---- rotary embeddings -------------------------------------------------------------------------
def frequencies() -> Any:
    powers = torch.arange(0, SIZE, 2).float() / SIZE
    return torch.outer(torch.arange(POSITIONS).float(), 100.0**-powers)


TURNS = torch.polar(torch.ones(POSITIONS, SIZE // 2), frequencies())


def halves_of(x: Any) -> Any:
    return x[..., : x.shape[-1] // 2], x[..., x.shape[-1] // 2 :]


def chunks_of(x: Any) -> Any:
    return x.chunk(2, dim=-1)


def rotate_half(x: Any, parts: Any) -> Any:
    first, second = parts(x)
    return torch.cat((-second, first), dim=-1)


def by_halves(q: Any, k: Any, heads: int = 1, parts: Any = halves_of) -> Any:
    """As in the Llama of the transformers library: angles [1, positions, size], doubled."""
    angles = frequencies()[None]
    angles = torch.cat((angles, angles), dim=-1)
    cos, sin = (x.to(q.dtype).unsqueeze(heads) for x in (angles.cos() * 1.0, angles.sin() * 1.0))
    return [(x * cos) + (rotate_half(x, parts) * sin) for x in (q, k)]


def by_complex(q: Any, k: Any) -> Any:
    """As in Meta's Llama: pairs of neighbours are complex numbers; heads after positions."""
    turns = TURNS.view(1, POSITIONS, 1, SIZE // 2)
    pairs = [torch.view_as_complex(x.float().reshape(*x.shape[:-1], -1, 2)) for x in (q, k)]
    return [torch.view_as_real(x * turns).flatten(3).type_as(q) for x in pairs]


FORMS = {
    "halves": lambda q, k: by_halves(q.transpose(1, 2), k.transpose(1, 2)),
    "chunks, positions first": lambda q, k: by_halves(q, k, 2, chunks_of),
    "complex": by_complex,
}


@pytest.mark.parametrize("form", FORMS)
def test_rotary_embeddings_are_one_op(form: str) -> None:
    q = normal(BATCH, POSITIONS, HEADS, SIZE)
    k = normal(BATCH, POSITIONS, KV_HEADS, SIZE, seed=1)
    same(FORMS[form], q, k)
    assert names("forward")[-1] == "weft.rotary"
    assert names("forward").count("aten.cat") <= 1  # that of the angles
    assert names("backward") == ["weft.rotary_back"]


def test_angles_of_several_layers_are_computed_once() -> None:
    def function(q: Any, k: Any) -> Any:
        angles = frequencies()
        angles = torch.cat((angles, angles), dim=-1)
        cos, sin = angles.cos(), angles.sin()
        for _ in range(2):
            q, k = (x * cos + rotate_half(x, chunks_of) * sin for x in (q, k))
            q, k = q.tanh(), k.tanh()
        return q, k

    shape = BATCH, HEADS, POSITIONS, SIZE
    same(function, normal(*shape), normal(*shape, seed=1))
    steps = names("forward")
    assert steps.count("weft.rotary") == 2
    assert len([s for s in steps if "cos" in s.split(", ")]) == 1


@pytest.mark.parametrize("form", ["halves", "complex"])
def test_rotary_embeddings_of_half_precision(form: str) -> None:
    """The op rounds once, PyTorch up to three times: sums of two products below 6 in size."""
    q = normal(BATCH, POSITIONS, HEADS, SIZE).bfloat16()
    k = normal(BATCH, POSITIONS, KV_HEADS, SIZE, seed=1).bfloat16()
    same(FORMS[form], q, k, tolerance=3 * 2.0**-8 * 6)
    assert names("forward")[-1] == "weft.rotary"


def test_rotary_embeddings_of_sizes_that_change() -> None:
    """The number of positions and of sequences are no constants of the graph."""

    def function(q: Any, k: Any) -> Any:
        powers = torch.arange(0, SIZE, 2).float() / SIZE
        angles = torch.outer(torch.arange(q.shape[2]).float(), 100.0**-powers)
        angles = torch.cat((angles, angles), dim=-1)
        cos, sin = angles.cos(), angles.sin()
        return [x * cos + rotate_half(x, halves_of) * sin for x in (q, k)]

    run = compiled(function, dynamic=True)
    for batch, positions in ((2, 5), (3, 7)):
        inputs = [normal(batch, h, positions, SIZE, seed=h) for h in (HEADS, KV_HEADS)]
        for ours, torchs in zip(run(*inputs), function(*inputs), strict=True):
            torch.testing.assert_close(ours, torchs, rtol=1e-4, atol=1e-5)
        assert names("inference")[-1] == "weft.rotary"


@pytest.mark.parametrize("changed", ["halves differ", "the angles change", "the sum is minus"])
def test_what_looks_like_a_rotary_embedding(changed: str) -> None:
    """Such calls stay as they are, and their results are right."""

    def function(q: Any, k: Any) -> Any:
        angles = frequencies()
        if changed == "halves differ":
            angles = torch.cat((angles, 2 * angles), dim=-1)
        else:
            angles = torch.cat((angles, angles), dim=-1)
        if changed == "the angles change":
            angles[:, 0] = 3.0
        cos, sin = angles.cos(), angles.sin()
        if changed == "the sum is minus":
            return [
                x * cos + torch.cat((chunks_of(x)[1], -chunks_of(x)[0]), -1) * sin for x in (q, k)
            ]
        return [x * cos + rotate_half(x, chunks_of) * sin for x in (q, k)]

    shape = BATCH, HEADS, POSITIONS, SIZE
    same(function, normal(*shape), normal(*shape, seed=1))
    assert "weft.rotary" not in names("forward")


# ---- dropout -----------------------------------------------------------------------------------
def test_dropout_is_a_part_of_the_residual_sum() -> None:
    """One kernel instead of two; both passes have the mask of the op with the same generator."""
    weight = normal(8, seed=3)

    def function(x: Any, y: Any) -> Any:
        total = x + F.dropout(y, 0.25, True)
        return F.layer_norm(total, (8,), weight), total

    x, y = (normal(32, 8, seed=i).requires_grad_() for i in range(2))
    normed, total = compiled(function)(x, y)
    kept = (total - x).detach() != 0
    assert 0.6 < kept.float().mean() < 0.9
    torch.testing.assert_close(total, x + kept * y / 0.75)
    torch.testing.assert_close(normed, F.layer_norm(total, (8,), weight), rtol=1e-4, atol=1e-5)
    forward = [s for s in next(r for r in reports()[::-1] if r.kind == "forward").steps]
    assert "mul, add, dropout" in [s.name for s in forward]
    assert not [s.name for s in forward if "seeded_dropout" in s.name]
    down = normal(32, 8, seed=4)
    (normed + total).backward(down)
    exact, other = x.detach().requires_grad_(), y.detach().requires_grad_()
    wanted = exact + kept * other / 0.75
    (F.layer_norm(wanted, (8,), weight) + wanted).backward(down)
    torch.testing.assert_close(x.grad, exact.grad, rtol=1e-4, atol=1e-4)
    torch.testing.assert_close(y.grad, other.grad, rtol=1e-4, atol=1e-4)


def test_dropout_and_a_norm_under_autocast() -> None:
    """A norm that is converted, the sum and dropout are one kernel."""
    weight = normal(8, 8, seed=3)

    def function(x: Any, y: Any) -> Any:
        total = x + F.dropout(y, 0.25, True)
        return F.linear(F.layer_norm(total, (8,)), weight), total

    x, y = (normal(32, 8, seed=i).requires_grad_() for i in range(2))
    with torch.autocast("cpu", torch.bfloat16):
        _, total = compiled(function)(x, y)
    kept = (total - x).detach() != 0
    torch.testing.assert_close(total, x + kept * y / 0.75)
    assert any("rsqrt" in name and name.endswith("dropout") for name in names("forward"))
    total.sum().backward()
    torch.testing.assert_close(y.grad, kept / 0.75)


def test_dropout_has_new_numbers_in_each_call() -> None:
    run = compiled(lambda x: F.gelu(F.dropout(x, 0.5, True)))
    x = torch.ones(64, 8)
    first, second = run(x), run(x)
    assert names("inference")[-1] == "mul, gelu, dropout"
    assert not torch.equal(first, second)


# ---- gradients of queries, keys and values ------------------------------------------------------
def parts_of_rows(x: Any) -> Any:
    """Parts of the result of one linear layer, as GPT-2 has them."""
    return (t.unflatten(-1, (2, 8)).transpose(1, 2) for t in x.split(16, dim=2))


def parts_of_a_dimension(x: Any) -> Any:
    """Parts of another dimension, as vision transformers have them."""
    return x.unflatten(-1, (3, 2, 8)).permute(2, 0, 3, 1, 4).unbind(0)


@pytest.mark.parametrize("parts", [parts_of_rows, parts_of_a_dimension])
def test_gradients_of_one_linear_layer_are_written_side_by_side(parts: Any) -> None:
    weight = normal(48, 16, seed=1) / 4

    def function(x: Any) -> Any:
        y = F.scaled_dot_product_attention(*parts(F.linear(x, weight)))
        return y.transpose(1, 2).flatten(2)

    same(function, normal(2, 6, 16))
    assert names("backward") == ["weft.attention_backward_joined", "weft.matmul"]


def test_gradients_of_parts_in_another_order_are_joined() -> None:
    """So are those that something else reads."""
    weight = normal(48, 16, seed=1) / 4

    def turned(x: Any) -> Any:
        k, q, v = parts_of_rows(F.linear(x, weight))
        return F.scaled_dot_product_attention(q, k, v)

    def read_again(x: Any) -> Any:
        q, k, v = parts_of_rows(F.linear(x, weight))
        return F.scaled_dot_product_attention(q, k, v) * q

    for function in (turned, read_again):
        same(function, normal(2, 6, 16))
        assert any(name.startswith("weft.cat") for name in names("backward"))
        assert "weft.attention_backward" in names("backward")


# ---- gated activations -------------------------------------------------------------------------
def test_the_gate_of_a_packed_tensor_is_one_op() -> None:
    """Its gradient is written where it lies, without a copy that joins the halves."""
    weight = normal(16, 8, seed=1)

    def function(x: Any) -> Any:
        gate, up = F.linear(x, weight).chunk(2, dim=-1)
        return F.silu(gate) * up

    same(function, normal(4, 8))
    assert names("forward") == ["weft.linear", "weft.swiglu"]
    assert names("backward") == ["weft.swiglu_backward", "weft.matmul"]


@pytest.mark.parametrize("approximate", ["none", "tanh"])
@pytest.mark.parametrize("first", [True, False])
def test_gelu_of_a_half_is_one_op(first: bool, approximate: str) -> None:
    weight = normal(16, 8, seed=1)

    def function(x: Any) -> Any:
        halves = F.linear(x, weight).chunk(2, dim=-1)
        gate, up = halves if first else halves[::-1]
        return up * F.gelu(gate, approximate=approximate)

    same(function, normal(4, 8))
    assert names("forward") == ["weft.linear", "weft.gated"]
    assert names("backward") == ["weft.gated_backward", "weft.matmul"]


def test_the_gate_of_two_tensors_is_a_fused_kernel() -> None:
    """It moves as many bytes as the op would: each tensor once."""
    same(lambda gate, up: F.silu(gate) * up, normal(4, 16), normal(4, 16, seed=1))
    forward, backward = reports()[-2:]
    assert [(s.kind, s.bytes) for s in forward.steps] == [("fused", 3 * 4 * 16 * 4)]
    assert [(s.kind, s.bytes) for s in backward.steps] == [("fused", 5 * 4 * 16 * 4)]
