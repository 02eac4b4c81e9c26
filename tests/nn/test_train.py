"""`weft train mnist`: files, training on own kernels, checkpoints, the command line."""

from __future__ import annotations

import gzip
import json
import signal
import subprocess
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from typer.testing import CliRunner

import weft
from limits import PROCESS_SECONDS
from weft.cli import app
from weft.report import training_page
from weft.train import data
from weft.values.training import History

torch = pytest.importorskip("torch")
from weft.train import (  # noqa: E402  they need torch
    checkpoint,
    contenders,
    loop,
    parallel,
)
from weft.train.settings import Settings, of_torch  # noqa: E402

CPU = torch.device("cpu")


# ---- files -------------------------------------------------------------------------------------
def _idx(array: Any) -> bytes:
    sizes = np.asarray(array.shape, ">u4").tobytes()
    return bytes((0, 0, 8, array.ndim)) + sizes + array.tobytes()


def _files(folder: Path, compressed: bool, count: int = 40) -> data.Mnist:
    sample = data.load(None)
    for names, part in zip(data.PARTS.values(), (sample.training, sample.test), strict=True):
        for name, array in zip(names, (part.images[:count], part.labels[:count]), strict=True):
            raw = _idx(array)
            target = folder / (f"{name}.gz" if compressed else name)
            target.write_bytes(gzip.compress(raw) if compressed else raw)
    return sample


@pytest.mark.parametrize("compressed", [False, True])
def test_files(tmp_path: Path, compressed: bool) -> None:
    sample = _files(tmp_path, compressed)
    read = data.load(tmp_path)
    assert len(read.training) == 40 and str(tmp_path) in read.origin
    assert np.array_equal(read.training.images, sample.training.images[:40])
    assert np.array_equal(read.test.labels, sample.test.labels[:40])


def test_damaged_files(tmp_path: Path) -> None:
    with pytest.raises(weft.ArgumentError, match=r"(?s)is missing.*get them from https"):
        data.load(tmp_path)
    _files(tmp_path, compressed=False)
    name = tmp_path / data.PARTS["training"][0]
    raw = name.read_bytes()
    for bad in (raw[:-1], raw[:2], b"", b"\0\0\x0d\x01" + raw[4:]):
        name.write_bytes(bad)
        with pytest.raises(weft.ArgumentError, match="not an IDX file of bytes"):
            data.load(tmp_path)
    name.write_bytes(_idx(np.zeros((40, 28, 27), np.uint8)))
    with pytest.raises(weft.ArgumentError, match="not MNIST"):
        data.load(tmp_path)
    (tmp_path / "x.gz").write_bytes(b"no gzip")
    with pytest.raises(weft.ArgumentError, match="is damaged"):
        data.idx(tmp_path / "x.gz")


# ---- training ----------------------------------------------------------------------------------
def _losses(host: bool, steps: int, batch: int) -> tuple[list[float], list[float]]:
    settings = Settings(batch=batch, steps=steps, host=host)
    found = data.load(None)
    small = data.Mnist(
        found.training, data.Digits(found.test.images[:8], found.test.labels[:8]), ""
    )
    makes = (contenders.weft_step, contenders.PEERS["PyTorch"])
    first, second = (loop.Training(m(settings, CPU), small, settings, CPU).run() for m in makes)
    assert first.accuracy == second.accuracy and len(first.losses) == steps
    return first.losses, second.losses


@pytest.mark.parametrize(
    ("host", "steps", "batch"), [(True, 2, 4), pytest.param(False, 5, 64, marks=pytest.mark.slow)]
)
def test_losses_are_those_of_pytorch(host: bool, steps: int, batch: int) -> None:
    own, torchs = _losses(host, steps, batch)
    assert own == pytest.approx(torchs, abs=1e-3) and own[-1] != own[0]


def test_batches_are_the_chosen_images() -> None:
    """In their order, normalised; batches may be left unused."""
    from weft.train.batches import Images

    digits = data.load(None).training
    chosen = np.arange(20, dtype=np.int32)[::-1].copy()
    source = Images(digits, CPU, on_host=True)
    pixels, classes = torch.zeros(6, 1, 28, 28), torch.zeros(6, dtype=torch.int64)
    next(source.batches(chosen, 6))
    seen = []
    for fill in source.batches(chosen, 6):
        fill(pixels, classes)
        seen.append((pixels.clone(), classes.tolist()))
    assert [c for _, c in seen] == [digits.labels[chosen[i : i + 6]].tolist() for i in (0, 6, 12)]
    want = (digits.images[chosen[:6]] / 255 - 0.1307) / 0.3081
    assert np.allclose(seen[0][0][:, 0].numpy(), want, atol=1e-5)


def test_checkpoints(tmp_path: Path) -> None:
    """Four steps in one go, and two and two, end with the same weights."""
    found = data.load(None)
    small = data.Mnist(
        data.Digits(found.training.images[:8], found.training.labels[:8]),
        data.Digits(found.test.images[:4], found.test.labels[:4]),
        "",
    )
    make = contenders.PEERS["PyTorch"]  # the loop is the same for both, and PyTorch's is quick
    whole = Settings(batch=2, steps=4)
    one = loop.Training(make(whole, CPU), small, whole, CPU)
    one.run()
    half = Settings(batch=2, steps=2)
    first = loop.Training(make(half, CPU), small, half, CPU)
    first.run()
    checkpoint.save(first, tmp_path / "a" / "half.pt")
    second = loop.Training(make(whole, CPU), small, whole, CPU)
    checkpoint.load(second, tmp_path / "a" / "half.pt")
    second.run()
    assert second.history.losses == one.history.losses and second.done == 4
    for a, b in zip(one.model.parameters(), second.model.parameters(), strict=True):
        assert torch.equal(a, b)
    other = loop.Training(make(whole, CPU), small, Settings(batch=4, steps=4), CPU)
    with pytest.raises(weft.ArgumentError, match="to another training"):
        checkpoint.load(other, tmp_path / "a" / "half.pt")
    with pytest.raises(weft.ArgumentError, match="no such checkpoint"):
        checkpoint.load(other, tmp_path / "none.pt")
    (tmp_path / "text.pt").write_text("no checkpoint")
    torch.save({"weights": torch.ones(2)}, tmp_path / "weights.pt")
    torch.save(torch.ones(2), tmp_path / "tensor.pt")
    for name in ("text.pt", "weights.pt", "tensor.pt"):
        with pytest.raises(weft.ArgumentError, match="not a checkpoint of weft train"):
            checkpoint.load(other, tmp_path / name)


def test_an_interrupt_ends_the_training_and_keeps_its_steps() -> None:
    found, settings = data.load(None), Settings(batch=2, steps=6)
    training = loop.Training(contenders.PEERS["PyTorch"](settings, CPU), found, settings, CPU)

    def tell(number: int, loss: float) -> None:
        if number == 3:
            signal.raise_signal(signal.SIGINT)

    history = training.run(tell)
    assert history.stopped and len(history.losses) == 3 and training.done == 3
    assert signal.getsignal(signal.SIGINT) is signal.default_int_handler
    assert not history.accuracy  # the epoch has not ended


def test_the_first_step_is_timed_apart() -> None:
    history = loop.History("a", losses=[1.0, 1.0, 1.0], seconds=[10.0], first=8.0)
    assert history.per_step == 1.0
    assert loop.History("a", losses=[1.0], seconds=[8.0], first=8.0).per_step == 0.0


def test_the_step_has_no_kernels_but_wefts() -> None:
    """On the simulated GPU every launch is weft's: PyTorch computes nothing, not even a view."""
    from torch.utils._python_dispatch import TorchDispatchMode

    class Calls(TorchDispatchMode):  # type: ignore[misc]
        def __torch_dispatch__(
            self, function: Any, types: Any, args: Any = (), kwargs: Any = None
        ) -> Any:
            seen.add(function.name().partition("::")[0::2])
            return function(*args, **(kwargs or {}))

    seen: set[tuple[str, str]] = set()
    settings = Settings(batch=4)
    fused = contenders.weft_step(settings, CPU)
    with Calls():
        fused.eager()
    assert not seen


# ---- several processes -------------------------------------------------------------------------
def test_shares_of_a_batch() -> None:
    chosen = np.arange(14, dtype=np.int32)
    shares = [parallel.TrainingGroup(rank, 2).share(chosen, 3).tolist() for rank in range(2)]
    assert shares == [[0, 1, 2, 6, 7, 8], [3, 4, 5, 9, 10, 11]]
    assert parallel.TrainingGroup().share(chosen, 4).tolist() == list(range(12))


def test_two_processes_train_as_one_with_the_doubled_batch(tmp_path: Path) -> None:
    _files(tmp_path, compressed=False, count=16)
    options = ("--device", "sim", "--steps", "2", "--data", str(tmp_path), "--json")
    run = (sys.executable, "-m", "torch.distributed.run", "--standalone", "--nproc-per-node", "2")
    done = subprocess.run(
        [*run, "-m", "weft", "train", "mnist", "--batch", "2", *options],
        capture_output=True, text=True, timeout=PROCESS_SECONDS, check=False,
    )  # fmt: skip
    assert done.returncode == 0, done.stderr
    (both,) = json.loads(done.stdout)["trainings"]  # the first process prints, the other does not
    settings = Settings(batch=4, steps=2)
    step = contenders.PEERS["PyTorch"](settings, CPU)
    one = loop.Training(step, data.load(tmp_path), settings, CPU).run()
    assert both["losses"] == pytest.approx(one.losses, abs=1e-4)
    assert both["accuracy"] == one.accuracy


def test_precision_of_torch() -> None:
    before = torch.get_float32_matmul_precision()
    with of_torch("tf32"):
        assert torch.get_float32_matmul_precision() == "high" and torch.backends.cudnn.allow_tf32
    assert torch.get_float32_matmul_precision() == before


# ---- the command line --------------------------------------------------------------------------
def _invoke(*args: str) -> Any:
    return CliRunner().invoke(app, ["train", *args])


def test_command(tmp_path: Path) -> None:
    curves, kept = tmp_path / "curves.html", tmp_path / "c.pt"
    options = ("--steps", "1", "--batch", "4", "--device", "sim", "--compare")
    result = _invoke("mnist", *options, "--html", str(curves), "--checkpoint", str(kept), "--json")
    assert result.exit_code == 0, result.output
    own, torchs = json.loads(result.stdout)["trainings"]
    for one in (own, torchs):
        assert [*one["times"]["parts"]] == ["load", "forward", "backward", "update"]
        assert all(seconds > 0 for seconds in one["times"]["parts"].values())
        assert "simulated GPU" in one["times"]["how"]
    assert own["losses"] == pytest.approx(torchs["losses"], abs=1e-3) and kept.is_file()
    text = curves.read_text()
    assert text.count("<polyline") == 4 and "PyTorch" in text
    assert "Time per step" in text and "<th>backward</th>" in text


def test_messages(tmp_path: Path) -> None:
    assert "allowed: mnist" in _invoke("cifar").stderr
    assert "did you mean 'mnist'?" in _invoke("mnits").stderr
    assert "allowed: fp32, tf32" in _invoke("mnist", "--precision", "bf16").stderr
    assert "not a folder" in _invoke("mnist", "--checkpoint", str(tmp_path)).stderr
    assert "--resume needs --checkpoint" in _invoke("mnist", "--resume").stderr
    assert "1 to 512" in _invoke("mnist", "--batch", "513", "--device", "sim").stderr
    assert "is missing" in _invoke("mnist", "--data", str(tmp_path)).stderr


def test_page_of_an_empty_training() -> None:
    assert "&lt;weft&gt;" in training_page.page("MNIST", [History("<weft>")])
