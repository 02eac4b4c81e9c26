"""`weft.quant.report`: ratios against float64, histograms, text and page."""

from __future__ import annotations

import json
import math
from html.parser import HTMLParser
from pathlib import Path
from typing import Any

import pytest

import draw
from weft.errors import ArgumentError, Error
from weft.values.quantisation import EDGES

torch = pytest.importorskip("torch")
from weft.quant import quantise, report  # noqa: E402  they need torch


def model() -> Any:
    made = torch.nn.Sequential(
        torch.nn.Linear(64, 24), torch.nn.Dropout(0.9), torch.nn.Linear(24, 6, bias=False)
    )
    with torch.no_grad():
        for p in made.parameters():
            p.copy_(draw.seeded(p.numel()).normal(*p.shape))
    return made


X = draw.seeded(1).normal(40, 64)


def decibels(signal: Any, noise: Any) -> float:
    return 10 * math.log10(float(signal.square().sum() / noise.square().sum()))


@pytest.mark.parametrize("format", ["int8", "int4:32", "e4m3:block", "e5m2:tensor"])
def test_ratios_are_those_of_float64(format: str) -> None:
    made = model()
    first, second = report(made, X, formats=[format]).layers
    assert (first.layer, second.layer, first.shape, first.rows) == ("0", "2", (24, 64), 40)
    name, _, group = format.partition(":")
    w = made[0].weight.detach()
    q = quantise(w, name, int(group) if group.isdigit() else group or None)
    exact = X.double() @ w.double().T + made[0].bias.detach().double()
    error = X.double() @ (q.dequantise().double() - w.double()).T
    (noise,) = first.formats
    assert noise.format == format and noise.bits == q.bits
    assert noise.snr == pytest.approx(decibels(exact, error), abs=1e-6)
    channels = [decibels(exact[:, i], error[:, i]) for i in range(24)]
    assert noise.worst_snr == pytest.approx(min(channels), abs=1e-6)
    assert noise.worst_channel == channels.index(min(channels))
    assert sum(noise.histogram) == error.numel() and len(noise.histogram) == len(EDGES) - 1
    part = (error.abs() / exact.square().mean().sqrt()).flatten()
    middle = len(noise.histogram) // 2
    inside = ((part >= EDGES[middle]) & (part < EDGES[middle + 1])).sum()
    assert noise.histogram[middle] == inside


def test_the_model_does_not_change() -> None:
    made = model()
    before = [p.detach().clone() for p in made.parameters()]
    found = report(made, X)
    assert found.formats == ("int8", "int4", "e4m3", "e5m2")
    assert made.training and all(type(m).__module__.startswith("torch.") for m in made)
    assert all(torch.equal(a, b) for a, b in zip(before, made.parameters(), strict=True))


def test_long_inputs_are_sampled_and_calls_joined() -> None:
    layer = model()[0]
    assert report(layer, torch.ones(5000, 64), formats=["int8"]).layers[0].rows == 1000
    twice = torch.nn.Sequential(torch.nn.Linear(4, 4))
    twice.append(twice[0])
    assert report(twice, torch.ones(3, 4), formats=["int8"]).layers[0].rows == 6


def test_text_and_worst() -> None:
    found = report(model(), X, formats=["int8", "int4:32"])
    lines = str(found).splitlines()
    assert lines[0].startswith("Sequential: signal-to-noise ratio")
    assert lines[1].split() == ["layer", "shape", "int8", "int4:32"]
    assert lines[2].split()[:4] == ["0", "24", "x", "64"] and lines[3].endswith("no")
    assert lines[-1] == "no: int4:32: the group does not divide the columns of the weight" + (
        " (group=32, K = 24)"
    )
    worst = found.worst("int8")
    assert worst is not None and worst[1] == min(one.formats[0].snr for one in found.layers)
    assert found.worst("int9") is None


def test_no_error_at_all() -> None:
    layer = torch.nn.Linear(32, 2, bias=False)
    with torch.no_grad():
        layer.weight.fill_(1.0)
    found = report(layer, X[:, :32], formats=["e4m3"])
    (noise,) = found.layers[0].formats
    assert noise.snr is noise.worst_snr is None and "exact" in str(found)
    assert "(model)" in str(found) and found.worst("e4m3") is None


def test_json() -> None:
    found = json.loads(json.dumps(report(model(), X).to_dict()))
    assert found["layers"][0]["formats"][0]["format"] == "int8"
    assert found["edges"] == pytest.approx(EDGES)


class Tags(HTMLParser):
    """Counts tags, and notes those that are not closed in order."""

    def __init__(self) -> None:
        super().__init__()
        self.open: list[str] = []
        self.seen: list[str] = []

    def handle_starttag(self, tag: str, attrs: Any) -> None:
        self.seen.append(tag)
        if tag not in ("meta",):
            self.open.append(tag)

    def handle_startendtag(self, tag: str, attrs: Any) -> None:
        self.seen.append(tag)

    def handle_endtag(self, tag: str) -> None:
        assert self.open.pop() == tag


def test_page(tmp_path: Path) -> None:
    found = report(model(), X, formats=["int8", "int4:32"])
    found.save(tmp_path / "page.html")
    text = (tmp_path / "page.html").read_text("utf-8")
    tags = Tags()
    tags.feed(text)
    assert not tags.open and tags.seen.count("svg") == 3  # one layer has no int4:32
    assert tags.seen.count("rect") == 3 * (len(EDGES) - 1) and "script" not in tags.seen
    assert "the group does not divide" in text
    assert "<iframe" in found._repr_html_()
    with pytest.raises(Error, match="cannot write the file"):
        found.save(tmp_path / "missing" / "page.html")


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (lambda: report(abs, X), "a model is a module of PyTorch"),
        (lambda: report(torch.nn.ReLU(), X), "the inputs reach no linear layer"),
        (lambda: report(model(), X, formats="int8"), "formats is no list of formats"),
        (lambda: report(model(), X, formats=[]), "formats is no list of formats"),
        (lambda: report(model(), X, formats=["int9"]), "there is no such format"),
        (lambda: report(model(), X, formats=[8]), "there is no such format of weights\n  got: 8"),
        (lambda: report(model(), X, formats=["int8:7"]), "int8 weights have no such groups"),
    ],
)
def test_refusals(call: Any, message: str) -> None:
    with pytest.raises(ArgumentError) as raised:
        call()
    assert message in str(raised.value)
