"""`weft train gpt`: tokens, texts, training on own kernels, checkpoints, the command line."""

from __future__ import annotations

import json
import signal
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from typer.testing import CliRunner

from weft.cli import app
from weft.errors import ArgumentError
from weft.report import training_page
from weft.train.gpt import tokens
from weft.values.training import History

torch = pytest.importorskip("torch")
from weft.networks import gpt2  # noqa: E402  they need torch
from weft.train.gpt import checkpoint, contenders, loop, sample, text  # noqa: E402
from weft.train.gpt.settings import TextSettings  # noqa: E402

CPU = torch.device("cpu")
PROSE = b"A warp has 32 lanes. A block has warps; a grid has blocks. \xc3\xa9 " * 9
TINY = TextSettings(size="1x16", length=8, batch=2, steps=4, warm_up=1, precision="fp32")


# ---- tokens and texts --------------------------------------------------------------------------
def test_bytes_are_tokens() -> None:
    found = tokens.learned("bytes", 0, PROSE)
    assert found.count == 256 and found.encode(b"a\xff").tolist() == [97, 255]
    assert found.decode([97, 255]) == b"a\xff"


def test_pairs_are_learned_in_the_order_of_their_frequency() -> None:
    """`ab` is there four times; then `abc` and ` ab` three times: the lesser pair comes first."""
    found = tokens.learned("bpe", 258, b"abc abc abc ab x")
    assert found.merges == ((97, 98), (32, 256))
    assert found.encode(b"ab ab").tolist() == [256, 257]


@pytest.mark.parametrize("content", [PROSE, b"", b"\x00\xff \n\n x", "wefts Ünicode 12".encode()])
def test_texts_come_back(content: bytes) -> None:
    found = tokens.learned("bpe", 300, PROSE)
    encoded = found.encode(content)
    assert found.decode(encoded) == content and encoded.dtype == np.int64
    assert found.count <= 300 and encoded.max(initial=0) < found.count


def test_pairs_shorten_a_text() -> None:
    found = tokens.learned("bpe", 300, PROSE)
    assert len(found.encode(PROSE)) < len(PROSE) / 2
    few = tokens.learned("bpe", 60000, b"abab")  # no pair is left twice
    assert few.merges == ((97, 98),)


def test_tokens_that_there_are_not() -> None:
    with pytest.raises(ArgumentError, match="there are no such tokens"):
        tokens.learned("words", 0, PROSE)
    with pytest.raises(ArgumentError, match="more tokens than bytes"):
        tokens.learned("bpe", 256, PROSE)


def windows(content: bytes = PROSE, length: int = 8) -> text.Windows:
    return text.Windows(text.Text(content, "a text"), tokens.Tokens(), length, CPU)


def test_windows_of_a_text() -> None:
    found = windows()
    one, again, other = (found.drawn(0, step, 3) for step in (4, 4, 5))
    assert one.shape == (3, 9) and torch.equal(one, again) and not torch.equal(one, other)
    assert all(bytes(row.tolist()) in PROSE for row in one)
    assert len(found) == len(PROSE) and len(found.test) == int(0.1 * len(PROSE))
    kept = found.spread(2)
    assert torch.equal(kept[0], found.test[:9]) and torch.equal(kept[1], found.test[-9:])
    with pytest.raises(ArgumentError, match="a text is too short"):
        windows(b"short text here", 8)


def test_the_documents_of_weft_are_a_text() -> None:
    found = text.load(None)
    assert len(found.content) > 50_000 and "documents of weft" in found.origin


# ---- training ----------------------------------------------------------------------------------
def training(make: Any, settings: TextSettings = TINY) -> loop.TextTraining:
    return loop.TextTraining(make(settings, 256, CPU), windows(), settings, CPU)


@pytest.mark.sim
@pytest.mark.parametrize("precision", ["fp32", "bf16"])
def test_weft_trains_as_pytorch_does(precision: str) -> None:
    settings = replace(TINY, steps=10, rate=1e-2, precision=precision)
    ours = training(contenders.weft_step, settings).run()
    theirs = training(contenders.PEERS["PyTorch"], settings).run()
    assert ours.losses == pytest.approx(theirs.losses, rel=1e-4 if precision == "fp32" else 0.02)
    assert ours.validation == pytest.approx(theirs.validation, rel=0.02)
    assert ours.losses[-1] < ours.losses[0] - 0.5


def test_a_training_goes_on_where_it_stopped(tmp_path: Path) -> None:
    make = contenders.PEERS["PyTorch"]
    found, none = text.Text(PROSE, "a text"), tokens.Tokens()
    whole = training(make)
    saved: list[int] = []
    whole.run(save=lambda: saved.append(whole.done), every=3)
    assert saved == [3] and len(whole.history.seconds) == 2

    first = training(make)

    def interrupt(number: int, loss: float) -> None:
        if number == 2:
            signal.raise_signal(signal.SIGINT)

    first.run(interrupt)
    assert first.history.stopped and first.done == 2 and not first.history.validation
    path = tmp_path / "a" / "half.pt"
    checkpoint.save(first, found, none, path)
    second = training(make)
    checkpoint.load(second, found, none, path)
    assert second.run().losses == whole.history.losses and second.done == 4
    for a, b in zip(whole.model.parameters(), second.model.parameters(), strict=True):
        assert torch.equal(a, b)
    plain = gpt2.Gpt2(TINY.config(256))
    plain.load_state_dict(torch.load(path, weights_only=True)["model"])

    other = training(make, replace(TINY, seed=1))
    with pytest.raises(
        ArgumentError, match="to another training\n  got: seed 0\n  allowed: seed 1"
    ):
        checkpoint.load(other, found, none, path)
    with pytest.raises(ArgumentError, match="got: text"):
        checkpoint.load(second, text.Text(b"another", ""), none, path)
    (tmp_path / "text.pt").write_text("no checkpoint")
    with pytest.raises(ArgumentError, match="not a checkpoint of weft train"):
        checkpoint.load(second, found, none, tmp_path / "text.pt")


def test_the_learning_rate_rises_and_falls() -> None:
    settings = TextSettings(rate=1.0, warm_up=9, steps=109)
    rates = [settings.rate_at(n) for n in range(109)]
    assert rates[0] == pytest.approx(0.1) and max(rates) == rates[9] == 1.0
    assert rates[9:] == sorted(rates[9:], reverse=True) and rates[-1] < 0.11


@pytest.mark.parametrize(
    ("size", "expected"),
    [("6x384", (384, 6, 6)), ("2x48", (48, 2, 3)), ("124m", (768, 12, 12)), ("1x8", (8, 1, 1))],
)
def test_sizes(size: str, expected: tuple[int, int, int]) -> None:
    config = TextSettings(size=size, length=32).config(300)
    assert (config.width, config.depth, config.heads) == expected
    assert (config.vocabulary, config.length) == (300, 32)


@pytest.mark.parametrize(
    ("change", "said"),
    [
        ({"size": "6x385"}, "there is no such size of a GPT"),
        ({"size": "huge"}, "there is no such size of a GPT"),
        ({"size": "0x64"}, "there is no such size of a GPT"),
        ({"precision": "fp8"}, "there is no such precision"),
        ({"rate": 0.0}, "the rate must be positive"),
        ({"clip": float("nan")}, "the clip must be positive"),
    ],
)
def test_settings_that_are_refused(change: dict[str, Any], said: str) -> None:
    with pytest.raises(ArgumentError, match=said):
        replace(TINY, **change).config(256)


def test_a_sample_continues_its_prompt() -> None:
    """A network that was trained on one sentence repeats it."""
    settings = TextSettings(
        size="1x32", length=16, batch=8, steps=40, warm_up=2, rate=1e-2, precision="fp32"
    )
    one = loop.TextTraining(
        contenders.PEERS["PyTorch"](settings, 256, CPU),
        windows(b"abcdefgh" * 40, 16),
        settings,
        CPU,
    )
    one.run()
    found = sample.continued(one.model, tokens.Tokens(), settings, CPU, "abc", 20, 0.1)
    assert found == "abcdefghabcdefghabcdefg"
    with pytest.raises(ArgumentError, match="temperature"):
        sample.continued(one.model, tokens.Tokens(), settings, CPU, "abc", 1, 0.0)


# ---- the command line --------------------------------------------------------------------------
def _invoke(*args: str) -> Any:
    return CliRunner().invoke(app, ["train", "gpt", *args])


@pytest.mark.sim
def test_command(tmp_path: Path) -> None:
    """The loss of a small network falls on the simulated GPU, as PyTorch's does."""
    kept, curves = tmp_path / "g.pt", tmp_path / "g.html"
    options = ("--device", "sim", "--size", "1x16", "--length", "8", "--steps", "6", "--json",
               "--tokens", "bpe", "--vocabulary", "270", "--checkpoint", str(kept))  # fmt: skip
    done = _invoke(*options, "--compare", "--sample", "3", "--html", str(curves))
    assert done.exit_code == 0, done.output
    found = json.loads(done.stdout)
    ours, theirs = found["trainings"]
    assert ours["losses"] == pytest.approx(theirs["losses"], rel=1e-4)
    assert ours["losses"][-1] < ours["losses"][0] and len(ours["validation"]) == 1
    assert all(
        [*t["times"]["parts"]][1:] == ["forward", "backward", "update"] for t in (ours, theirs)
    )
    assert found["sample"].startswith("The ") and found["vocabulary"] == 270
    assert "loss on kept text" in curves.read_text() and kept.is_file()
    again = _invoke(*options, "--resume", "--steps", "7", "--sample", "0")
    assert again.exit_code == 0, again.output
    assert len(json.loads(again.stdout)["trainings"][0]["losses"]) == 7


def test_messages(tmp_path: Path) -> None:
    assert "there is no such text" in _invoke("--text", str(tmp_path / "none.txt")).stderr
    assert "not a folder" in _invoke("--text", str(tmp_path)).stderr
    assert "--resume needs --checkpoint" in _invoke("--resume").stderr
    assert "no such size" in _invoke("--size", "big", "--device", "sim").stderr
    assert "no such tokens" in _invoke("--tokens", "words", "--device", "sim").stderr
    assert "temperature" in _invoke("--temperature", "0").stderr
    short = tmp_path / "short.txt"
    short.write_text("a few words")
    assert "is too short" in _invoke("--text", str(short), "--device", "sim").stderr
    said = CliRunner().invoke(app, ["train", "--steps", "1", "gpt"]).stderr
    assert "the options of a GPT follow its name" in said
    assert "did you mean 'gpt'?" in CliRunner().invoke(app, ["train", "gtp"]).stderr


def test_the_page_of_a_text() -> None:
    page = training_page.page("GPT", [History("weft", [2.0, 1.0], validation=[1.5])])
    assert "1.5000" in page and "Accuracy after" not in page
