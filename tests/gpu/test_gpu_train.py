"""`weft train mnist` on a real GPU: what its step launches, and every contender of `--compare`."""

from __future__ import annotations

import copy
import re
from pathlib import Path

import pytest

import weft

torch = pytest.importorskip("torch")
from weft.train import contenders, data, loop  # noqa: E402  they need torch
from weft.train.batches import Images, order  # noqa: E402
from weft.train.settings import PRECISIONS, Settings, of_torch  # noqa: E402

pytestmark = pytest.mark.gpu
SOURCES = Path(weft.__file__).parent
KERNEL = re.compile(r"__global__[^;{]*?(\w+)\s*\(")
BOUNDS = re.compile(r"__launch_bounds__\s*\([^)]*\)")


def _own_kernels() -> set[str]:
    """The names of all kernels in weft's sources."""
    files = [f for kind in ("*.cu", "*.cuh", "*.py") for f in SOURCES.rglob(kind)]
    return {name for f in files for name in KERNEL.findall(BOUNDS.sub("", f.read_text()))}


@pytest.mark.filterwarnings("ignore:.*Profiler clears events")  # of the profiler's first use
@pytest.mark.parametrize("precision", PRECISIONS)
@pytest.mark.parametrize("batch", [64, 1024])
def test_the_step_has_no_kernels_but_wefts(batch: int, precision: str) -> None:
    device = torch.device("cuda")
    settings = Settings(batch=batch, host=False, precision=precision)
    training = loop.Training(
        contenders.weft_step(settings, device), _repeated(batch), settings, device
    )
    fill = next(training.endless())
    for _ in range(6):  # the graph is captured meanwhile
        fill(training.step.pixels, training.step.classes)
        training.step()
    torch.cuda.synchronize()
    with torch.profiler.profile(activities=[torch.profiler.ProfilerActivity.CUDA]) as seen:
        fill(training.step.pixels, training.step.classes)
        training.step()
        torch.cuda.synchronize()
    cuda = torch.autograd.DeviceType.CUDA
    names = [e.name for e in seen.events() if e.device_type == cuda]
    short = {re.sub(r"^void ", "", name).partition("<")[0].partition("(")[0] for name in names}
    assert names and short <= _own_kernels(), sorted(short - _own_kernels())


def test_images_in_host_memory_give_the_same_batches() -> None:
    digits, device = data.load(None).training, torch.device("cuda")
    chosen, found = order(len(digits), 0, 3), []
    for on_host in (False, True):
        source = Images(digits, device, on_host)
        assert source.images.device.type == "cuda"
        pixels = torch.zeros(64, 1, 28, 28, device=device)
        classes = torch.zeros(64, dtype=torch.int64, device=device)
        for fill in source.batches(chosen, 64):
            fill(pixels, classes)
            found.append((pixels.clone(), classes.clone()))
    half = len(found) // 2
    for (pixels, classes), (others, same) in zip(found[:half], found[half:], strict=True):
        assert torch.equal(pixels, others) and torch.equal(classes, same)
    assert found[0][1].tolist() == digits.labels[chosen[:64]].tolist()


def _repeated(count: int) -> data.Mnist:
    found, times = data.load(None), -(-count // 512)
    digits = data.Digits(
        found.training.images.repeat(times, 0), found.training.labels.repeat(times, 0)
    )
    return data.Mnist(digits, found.test, found.origin)


@pytest.mark.parametrize("precision", PRECISIONS)
def test_contenders_agree(precision: str) -> None:
    """Eight steps on the sample: the losses of weft's step and of PyTorch's graph."""
    device, found = torch.device("cuda"), data.load(None)
    settings = Settings(precision=precision)
    losses = {}
    with of_torch(precision):
        for name in ("weft", "PyTorch", "PyTorch, CUDA graph"):
            make = contenders.PEERS.get(name, contenders.weft_step)
            training = loop.Training(make(settings, device), found, settings, device)
            losses[name] = training.run().losses
            training.time_parts()
            times = training.history.times
            assert times is not None and all(seconds > 0 for seconds in times.parts.values())
    within = {"fp32": 1e-3, "tf32": 2e-2}[precision]
    for name in ("weft", "PyTorch, CUDA graph"):  # later, roundings have grown
        assert losses[name][:5] == pytest.approx(losses["PyTorch"][:5], abs=within)


@pytest.mark.parametrize(("precision", "within"), [("fp32", 1e-2), ("tf32", 1e-1)])
@pytest.mark.parametrize("batch", [100, 1000])
def test_gradients_of_a_batch(batch: int, precision: str, within: float) -> None:
    """One step on random images against float64. A pixel that is selected for another one by a
    rounding changes the convolutions' gradients; every other number is far closer."""
    device = torch.device("cuda")
    torch.manual_seed(batch)
    step = contenders.weft_step(Settings(batch=batch, precision=precision), device)
    layers = step.parts.model.layers
    want = copy.deepcopy(layers).double()
    step.pixels.normal_()
    step.classes.random_(0, 10)
    step.eager()
    loss = torch.nn.functional.cross_entropy(want(step.pixels.double()), step.classes)
    loss.backward()
    assert step.loss.item() == pytest.approx(loss.item(), rel=within * 1e-2)
    for (name, p), q in zip(layers.named_parameters(), want.parameters(), strict=True):
        got = step.parts.optimiser.state[p]["momentum_buffer"].double()
        assert float((got - q.grad).norm() / q.grad.norm()) < within, name
