"""weft.sparse: pruning, permutations, compressed weights, and layers that train."""

from __future__ import annotations

import itertools
from collections.abc import Callable
from typing import Any

import pytest

import draw
import weft

torch = pytest.importorskip("torch")


def weight(rows: int, columns: int, seed: int = 1) -> Any:
    return draw.seeded(seed).normal((rows, columns))


def kept(x: Any) -> float:
    """The magnitude that the best two of each four have, by trying all pairs."""
    fours = x.double().abs().reshape(x.shape[0], -1, 4)
    pairs = [fours[..., i] + fours[..., j] for i, j in itertools.combinations(range(4), 2)]
    return float(torch.stack(pairs).amax(0).sum())


def test_pruning_keeps_the_largest_two_of_four() -> None:
    x = weight(9, 24)
    pruned = weft.sparse.prune(x)
    assert ((pruned != 0).reshape(9, 6, 4).sum(2) == 2).all()
    assert torch.equal(pruned[pruned != 0], x[pruned != 0])
    assert float(pruned.double().abs().sum()) == pytest.approx(kept(x), rel=1e-12)


def test_equal_and_undefined_elements() -> None:
    """The first of equal ones are kept, and what is not a number stays."""
    assert weft.sparse.prune(torch.ones(1, 4)).tolist() == [[1, 1, 0, 0]]
    odd = weft.sparse.prune(torch.tensor([[5.0, 6.0, float("nan"), 7.0]]))
    assert odd[0, 2].isnan() and odd[0, 3] == 7
    infinite = weft.sparse.prune(torch.full((1, 4), -torch.inf))
    assert infinite.tolist() == [[-torch.inf, -torch.inf, 0, 0]]


def test_permutations_keep_more() -> None:
    x = weight(6, 40, 2)
    x[:, :4] *= 9  # four channels that compete with each other
    pruned, order = weft.sparse.prune(x, permute=True)
    assert sorted(order.tolist()) == list(range(40))
    assert float(pruned.double().abs().sum()) == pytest.approx(kept(x[:, order]), rel=1e-12)
    assert kept(x[:, order]) > 1.1 * kept(x)
    same = weft.sparse.prune(x[:, :4], permute=True)
    assert same[1].tolist() == [0, 1, 2, 3]


def test_a_layer_with_permuted_inputs_computes_the_same() -> None:
    x, given = weight(3, 16, 3), weight(5, 16, 4)
    pruned, order = weft.sparse.prune(x, permute=True)
    back = torch.empty_like(pruned)
    back[:, order] = pruned
    torch.testing.assert_close(given[:, order] @ pruned.T, given @ back.T)


def test_a_report() -> None:
    made = weft.sparse.report(torch.tensor([[3.0, 0.0, 4.0, 0.0], [1.0, 1.0, 1.0, 1.0]]))
    assert made.kept == pytest.approx(9 / 11)
    assert made.error == pytest.approx((2 / 29) ** 0.5)
    assert made.zeros == 0.25
    assert (
        str(made) == "2:4 keeps 81.8 % of the magnitude; relative error 0.263; 25.0 % are zeros now"
    )
    empty = weft.sparse.report(torch.zeros(2, 4))
    assert (empty.kept, empty.error, empty.zeros) == (1.0, 0.0, 1.0)


@pytest.mark.parametrize("dtype", [torch.float16, torch.float32])
def test_compressed_weights_are_the_same(dtype: Any) -> None:
    """Fours with two, one and no elements that are not 0."""
    x = weft.sparse.prune(weight(70, 80).to(dtype))
    x[3], x[5, ::3] = 0, 0
    compressed = weft.sparse.compress(x)
    assert compressed.shape == (70, 80) and compressed.values.shape == (70, 40)
    assert torch.equal(compressed.dense(), x)
    with pytest.raises(AttributeError):
        compressed.shape = (1, 1)


def test_metadata_are_in_the_order_of_threads() -> None:
    """Thread 5 has rows 1 and 9, and columns 16 to 31 of 64."""
    x = torch.zeros(64, 64)
    x[1, 18:20], x[9, 28], x[9, 31] = 1, 1, 1
    (words,) = weft.sparse.compress(x).metadata[0]
    first = 0x4444
    low, high = first & ~0xF | 0b1110, first & ~0xF000 | 0b1100 << 12
    assert int(words[5]) & 0xFFFFFFFF == low | high << 16
    assert all(int(w) == 0x44444444 for i, w in enumerate(words) if i != 5)


def test_a_model_trains() -> None:
    """The loss falls, kept places do not change, and the others stay 0."""
    model = torch.nn.Sequential(
        torch.nn.Linear(32, 16), torch.nn.ReLU(), torch.nn.Linear(16, 6), torch.nn.Linear(6, 4)
    )
    parameters = list(model.parameters())
    with torch.no_grad():
        for i, one in enumerate(parameters):
            one.copy_(0.3 * draw.seeded(20 + i).normal(tuple(one.shape)))
    assert weft.sparse.convert(model) is model
    assert all(a is b for a, b in zip(parameters, model.parameters(), strict=True))
    first, last = model[0], model[3]
    assert isinstance(first, weft.sparse.Linear) and type(last) is torch.nn.Linear
    places = first.weight != 0
    x, y = weight(8, 32, 5), weight(8, 4, 6)
    optimiser, losses = torch.optim.Adam(model.parameters(), 0.01), []
    for _ in range(4):
        loss = (model(x) - y).square().mean()
        optimiser.zero_grad()
        loss.backward()
        assert not first.weight.grad[~places].any() and first.weight.grad[places].any()
        optimiser.step()
        losses.append(loss.item())
    assert losses[-1] < 0.95 * losses[0]
    assert not first.weight[~places].any()


def test_layers_of_16_bits() -> None:
    """Elements of a converted weight that are 0 by chance are kept; autocast lowers float32."""
    layer = torch.nn.Linear(32, 16)
    with torch.no_grad():
        layer.weight.copy_(weight(16, 32, 7))
        layer.weight[0] = 0
    weft.sparse.convert(layer)
    assert (layer.metadata != 0).all()
    x = weight(4, 32, 8)
    want = x.double() @ layer.weight.double().T + layer.bias.double()
    with torch.autocast("cpu", torch.bfloat16):
        lowered = layer(x)
    assert lowered.dtype is torch.bfloat16
    assert (lowered.double() - want).norm() < 0.01 * want.norm()
    half = layer.half()(x.half())
    assert (half.double() - want).norm() < 2e-3 * want.norm()


def test_evaluation_takes_the_kept_elements_once() -> None:
    """Until the weight changes, or the layer is trained again."""
    layer = torch.nn.Linear(16, 8)
    with torch.no_grad():
        layer.weight.copy_(weight(8, 16, 14))
    weft.sparse.convert(layer).eval()
    x = weight(3, 16, 15)
    with torch.no_grad():
        first = layer(x)
        taken = layer._values()
        assert layer._values() is taken and torch.equal(layer(x), first)
        layer.weight.mul_(2)
        torch.testing.assert_close(layer(x) - layer.bias, 2 * (first - layer.bias))
        layer.weight.data.mul_(0.5)
        layer.train().eval()
        assert torch.equal(layer(x), first)
    assert layer(x).requires_grad


def test_a_state_contains_the_places() -> None:
    layer, other = (torch.nn.Linear(16, 8) for _ in range(2))
    for i, one in enumerate((layer, other)):
        with torch.no_grad():
            one.weight.copy_(weight(8, 16, 10 + i))
        weft.sparse.convert(one)
    other.load_state_dict(layer.state_dict())
    new = weft.sparse.Linear(16, 8, bias=True)
    new.load_state_dict(layer.state_dict())
    x = weight(3, 16, 12)
    assert torch.equal(other(x), layer(x)) and torch.equal(new(x), layer(x))


@pytest.mark.parametrize(
    ("call", "words"),
    [
        (lambda: weft.sparse.prune([1.0]), "weight has a wrong type"),
        (lambda: weft.sparse.prune(torch.ones(4, 6)), "K a multiple of 4"),
        (lambda: weft.sparse.prune(torch.ones(4)), "got: [4] torch.float32"),
        (lambda: weft.sparse.report(torch.ones(4, 4, dtype=torch.int32)), "torch.int32"),
        (lambda: weft.sparse.compress(torch.zeros(4, 20)), "K a multiple of 16"),
        (lambda: weft.sparse.convert(3), "model is not a module of PyTorch"),
        (lambda: weft.sparse.Linear(24, 8), "in_features cannot be 2:4 sparse"),
    ],
)
def test_messages(call: Callable[[], Any], words: str) -> None:
    with pytest.raises(weft.ArgumentError) as caught:
        call()
    assert words in str(caught.value)


def test_a_dense_weight_is_refused_by_its_place() -> None:
    x = weft.sparse.prune(weight(6, 32))
    x[4, 20:24] = torch.tensor([1.0, 0.0, 2.0, 3.0])
    with pytest.raises(weft.ArgumentError) as caught:
        weft.sparse.compress(x)
    assert "row 4, column 23: the third element that is not 0 of columns 20 to 23" in str(
        caught.value
    )


def test_unknown_names() -> None:
    assert "compress" in dir(weft.sparse)
    with pytest.raises(AttributeError, match=r"weft\.sparse has no 'prun'"):
        _ = weft.sparse.prun
