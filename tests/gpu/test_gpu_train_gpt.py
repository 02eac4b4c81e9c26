"""`weft train gpt` on a real GPU: its graph, and every contender of `--compare`."""

from __future__ import annotations

from dataclasses import replace

import pytest

torch = pytest.importorskip("torch")
from weft.train.gpt import contenders, loop, sample, text, tokens  # noqa: E402  they need torch
from weft.train.gpt.settings import TextSettings  # noqa: E402

pytestmark = pytest.mark.gpu
SETTINGS = TextSettings(size="2x64", length=64, batch=4, steps=12, warm_up=2)


def _losses(make: contenders.Make, settings: TextSettings) -> list[float]:
    device = torch.device("cuda")
    found = text.Windows(text.load(None), tokens.Tokens(), settings.length, device)
    training = loop.TextTraining(make(settings, 256, device), found, settings, device)
    history = training.run()
    assert len(history.losses) == settings.steps and len(history.validation) == 1
    said = sample.continued(training.model, tokens.Tokens(), settings, device, "The ", 5)
    assert said.startswith("The ")
    training.time_parts()
    assert history.times is not None and history.times.total > 0
    return history.losses


@pytest.mark.parametrize("precision", ["fp32", "bf16"])
def test_a_captured_step_trains_as_called_ones(precision: str) -> None:
    settings = replace(SETTINGS, precision=precision)
    captured = _losses(contenders.weft_step, settings)
    called = _losses(contenders.weft_step, replace(settings, graph=False))
    assert captured == pytest.approx(called, rel=1e-4 if precision == "fp32" else 1e-2)


@pytest.mark.parametrize("name", contenders.PEERS)
def test_peers_train_as_weft_does(name: str) -> None:
    settings = replace(SETTINGS, precision="fp32")
    ours = _losses(contenders.weft_step, settings)
    assert _losses(contenders.PEERS[name], settings) == pytest.approx(ours, rel=1e-3)
