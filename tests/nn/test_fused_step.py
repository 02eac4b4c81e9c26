"""The training step as fused kernels: the results of PyTorch and of the single ops."""

from __future__ import annotations

import copy
from typing import Any

import pytest

import draw

torch = pytest.importorskip("torch")
from weft import nn, optim  # noqa: E402  they need torch
from weft.ops.core.target import named  # noqa: E402
from weft.train.fused import step as fused  # noqa: E402
from weft.train.fused.kernels import WIDTH, NetworkSizes, blocks, fits  # noqa: E402
from weft.train.fused.step import FusedStep  # noqa: E402
from weft.train.network import Own, network  # noqa: E402
from weft.train.step import Parts, TrainingStep  # noqa: E402

CPU = torch.device("cpu")
RATE, MOMENTUM, BATCH = 0.05, 0.9, 3


def _small() -> Any:
    """A network whose kernels are compiled quickly: images of 8 x 8, five classes."""
    torch.manual_seed(0)
    t = torch.nn
    first, second = (
        [t.Conv2d(i, o, 3, padding=1, bias=False), t.BatchNorm2d(o), t.ReLU(), t.MaxPool2d(2)]
        for i, o in ((1, 16), (16, 32))
    )
    rest = [t.Flatten(), t.Linear(32 * 4, 128), t.ReLU(), t.Linear(128, 5)]
    return t.Sequential(*first, *second, *rest)


def _parts(layers: Any) -> Parts:
    model = Own(layers)
    update = optim.SGD(model.parameters(), RATE, momentum=MOMENTUM)
    return Parts("weft", model, nn.CrossEntropyLoss(), update)


def _fused(layers: Any, precision: str = "fp32", batch: int = BATCH, **options: Any) -> FusedStep:
    return FusedStep(_parts(layers), batch, CPU, graph=False, precision=precision, **options)


def _inputs(step: TrainingStep, seed: int) -> None:
    """Images without near ties in the windows of pools: in tf32 another maximum would win."""
    made = draw.seeded(100 + seed)
    classes = int(list(step.parts.model.parameters())[-1].numel())
    step.pixels = step.pixels.copy_(made.normal(step.pixels.shape))
    step.classes.copy_(made.integers(0, classes, step.classes.shape))


def _reference(layers: Any, step: TrainingStep, steps: int) -> tuple[Any, Any, list[float]]:
    """PyTorch's training in float64: layers, optimiser and losses."""
    layers = copy.deepcopy(layers).double()
    update = torch.optim.SGD(layers.parameters(), RATE, momentum=MOMENTUM)
    losses = []
    for seed in range(steps):
        _inputs(step, seed)
        update.zero_grad()
        loss = torch.nn.functional.cross_entropy(layers(step.pixels.double()), step.classes)
        loss.backward()
        update.step()
        losses.append(loss.item())
    return layers, update, losses


def _apart(a: Any, b: Any) -> float:
    a, b = a.detach().double(), b.detach().double()
    return float((a - b).norm() / b.norm())


def _trained(step: TrainingStep, steps: int) -> list[float]:
    losses = []
    for seed in range(steps):
        _inputs(step, seed)
        step()
        losses.append(float(step.loss))
    return losses


def _check(layers: Any, step: FusedStep, steps: int, tolerance: float) -> None:
    want, update, losses = _reference(layers, step, steps)
    assert _trained(step, steps) == pytest.approx(losses, rel=tolerance)
    got = step.parts.model.layers  # type: ignore[union-attr]
    for (name, p), q in zip(got.named_parameters(), want.parameters(), strict=True):
        assert _apart(p, q) < tolerance, name
        state = step.parts.optimiser.state[p]["momentum_buffer"]
        assert _apart(state, update.state[q]["momentum_buffer"]) < tolerance, name
    for (name, p), q in zip(got.named_buffers(), want.buffers(), strict=True):
        if "tracked" not in name:  # counted at the end
            assert _apart(p, q) < tolerance, name


@pytest.mark.parametrize(("precision", "tolerance"), [("fp32", 5e-6), ("tf32", 5e-3)])
def test_step_of_a_small_network(precision: str, tolerance: float) -> None:
    layers = _small()
    _check(layers, _fused(copy.deepcopy(layers), precision), 2, tolerance)


def test_step_on_one_multiprocessor(monkeypatch: pytest.MonkeyPatch) -> None:
    """Each block has several images, and computes both gradients of them."""
    monkeypatch.setattr(fused, "blocks", lambda *given: blocks(*given[:3], 1))
    layers = _small()
    _check(layers, _fused(copy.deepcopy(layers), batch=5), 1, 5e-6)


@pytest.mark.slow
def test_step_of_the_network() -> None:
    """More images than blocks of some kernels, and not a multiple of anything."""
    layers = network()
    _check(layers, _fused(copy.deepcopy(layers), batch=67), 2, 1e-5)


def test_repeated_and_resumed() -> None:
    """Steps repeat bit for bit; a copied step and a loaded optimiser state go on with them."""
    one = _fused(_small())
    _trained(one, 1)
    two = copy.deepcopy(one)
    three = _fused(copy.deepcopy(one.parts.model.layers))  # type: ignore[union-attr]
    three.parts.optimiser.load_state_dict(copy.deepcopy(one.parts.optimiser.state_dict()))
    ends = []
    for step in (one, two, three):
        _trained(step, 2)
        ends.append([p.detach().clone() for p in step.parts.model.parameters()])
    for other in ends[1:]:
        assert all(torch.equal(a, b) for a, b in zip(ends[0], other, strict=True))


def test_gradients_before_the_update() -> None:
    """With `reduce`, the gradients are seen, may be changed, and the optimiser applies them."""
    layers = _small()
    seen = []

    def reduce(gradients: Any) -> None:
        seen.append(gradients.clone())

    apart, together = _fused(copy.deepcopy(layers), reduce=reduce), _fused(copy.deepcopy(layers))
    _trained(apart, 2)
    _trained(together, 2)
    for p, q in zip(*(s.parts.model.parameters() for s in (apart, together)), strict=True):
        assert _apart(p, q) < 1e-6
    _inputs(apart, 0)
    loss = torch.nn.functional.cross_entropy(layers(apart.pixels), apart.classes)
    loss.backward()
    want = torch.cat([p.grad.reshape(-1) for p in layers.parameters()])
    assert len(seen) == 2 and _apart(seen[0], want) < 1e-5


def test_parameters_out_of_range() -> None:
    layers = _small()
    step = _fused(layers)
    step.check_range()  # warnings are errors here
    parameters = dict(step.parts.model.named_parameters())
    for name, value, kind in (
        ("layers.4.weight", 1001, "weight"),
        ("layers.5.bias", 40, "gain or bias"),
    ):
        before = parameters[name].detach().clone()
        for bad in (value, float("nan")):
            with torch.no_grad():
                parameters[name].view(-1)[0] = bad
            with pytest.warns(UserWarning, match=f"a {kind} of the network is"):
                step.check_range()
        with torch.no_grad():
            parameters[name].copy_(before)


def test_where_the_kernels_do_not_fit() -> None:
    """Ampere has less shared memory than the kernels need, and there are none for 24 channels."""
    assert not fits(network(channels=(24, 64)), "fp32", named("sim:h200"))
    assert fits(network(), "fp32", named("sim:h200")) and not fits(
        network(), "fp32", named("sim:rtx3070")
    )


@pytest.mark.parametrize("batch", [1, 64, 100, 256, 1024, 4096, 60000])
@pytest.mark.parametrize("sms", [1, 46, 132])
def test_blocks(batch: int, sms: int) -> None:
    """Every kernel has a block, and the depth of the first linear layer is covered."""
    sizes = NetworkSizes()
    for exact in (True, False):
        b = blocks(sizes, batch, exact, sms)
        assert min(vars(b).values()) >= 1
        assert 0 <= b.split * b.chunks * WIDTH - sizes.flat < b.chunks * WIDTH
        assert max(b.moments, b.features, b.images) <= batch
