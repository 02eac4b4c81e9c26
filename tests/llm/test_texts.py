"""Texts that grow by several tokens: logits beside those of plain PyTorch, pages, refusals."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

torch = pytest.importorskip("torch")

import plain_decoder as plain  # noqa: E402
import weft  # noqa: E402
from limits import PROCESS_SECONDS  # noqa: E402
from weft.errors import ArgumentError  # noqa: E402
from weft.llm.demo import demo  # noqa: E402

FIRST, SECOND = [3, 1, 4, 15, 9, 2], [9, 2, 6, 5]
F32, F16 = torch.float32, torch.float16
PARTS = (
    [FIRST[:2], SECOND[:3]],  # prompts
    [FIRST[2:5], []],  # one text alone
    [FIRST[5:], SECOND[3:]],  # as many of each
)


def want(config: Any, stored: Any, tokens: list[int]) -> Any:
    """The logits after each token of a text."""
    every = [plain.logits(config, stored, tokens[: i + 1]) for i in range(len(tokens))]
    return torch.stack(every).float()


def grown(texts: Any, parts: Any) -> list[Any]:
    """The logits of both texts, which get their tokens in parts."""
    made = [texts.extend(part) for part in parts]
    return [torch.cat([step[row].float() for step in made]) for row in range(2)]


@pytest.mark.parametrize("family", plain.CONFIGS)
def test_logits_of_every_token(tmp_path: Path, family: str) -> None:
    """A cache in float32, with a row to spare."""
    config = plain.CONFIGS[family]
    stored = plain.weights(config, 1)
    model = weft.llm.load(plain.write(tmp_path, config, stored), "cpu")
    texts = weft.llm.Texts(model, rows=3, capacity=16)
    for found, tokens in zip(grown(texts, PARTS), (FIRST, SECOND), strict=True):
        assert torch.allclose(found, want(config, stored, tokens), atol=1e-3)
    assert texts.lengths == (6, 4, 0)


@pytest.mark.parametrize("cache", ["static", "paged"])
def test_caches_of_16_bits(tmp_path: Path, cache: str) -> None:
    """Both are read by one kernel. A text that was shortened does not see what it had after."""
    config = plain.LLAMA
    stored = plain.weights(config, 1, F16)
    model = weft.llm.load(plain.write(tmp_path, config, stored), "cpu")
    texts = weft.llm.Texts(model, rows=2, capacity=16, cache=cache, page=4)
    once = grown(texts, [[FIRST, SECOND]])
    for found, tokens in zip(once, (FIRST, SECOND), strict=True):
        assert torch.allclose(found, want(config, stored, tokens), atol=0.05)
    texts.shorten([1])
    (other,) = texts.extend([[7, 7, 7, 7, 7, 7, 7]])
    assert not torch.allclose(other[0].float(), once[0][1], atol=0.5)
    texts.shorten([1, 2])
    (last, none) = texts.extend([FIRST[1:], []], last=True)
    assert list(last.shape) == [1, 61] and list(none.shape) == [0, 61]
    assert torch.allclose(last[0].float(), once[0][-1], atol=0.05)
    _, rest = texts.extend([[], SECOND[2:]])
    assert torch.allclose(rest.float(), once[1][2:], atol=0.05)
    assert texts.lengths == (6, 4)


def test_the_last_tokens_alone() -> None:
    """Those of prompts, and of tokens after them."""
    texts = weft.llm.Texts(demo(), rows=2, capacity=8)
    every = [texts.extend(part) for part in ([[1, 2, 3], [7]], [[4, 5], [6, 8]])]
    texts.shorten([0, 0])
    assert texts.lengths == (0, 0)
    for step, part in zip(every, ([[1, 2, 3], [7]], [[4, 5], [6, 8]]), strict=True):
        for all_of, found in zip(step, texts.extend(part, last=True), strict=True):
            assert torch.allclose(all_of[-1:], found, atol=1e-4)


def test_pages_are_taken_and_given_back() -> None:
    """A text has pages for its tokens and no more, so that another one can grow instead."""
    texts = weft.llm.Texts(demo(dtype=F16), rows=2, capacity=16, cache="paged", page=4, pages=3)
    texts.extend([[1] * 5, [2] * 3])
    with pytest.raises(ArgumentError, match=r"(?s)longer than the cache.*4 pages of 4.*3 pages"):
        texts.extend([[], [2] * 2])
    assert texts.lengths == (5, 3)
    texts.shorten([4])
    (first, second) = texts.extend([[], [2] * 2])
    assert len(first) == 0 and len(second) == 2
    alone = weft.llm.Texts(demo(dtype=F16), rows=2, capacity=16)
    assert torch.allclose(alone.extend([[], [2] * 5])[1][3:], second, atol=0.05)


def test_no_tokens() -> None:
    texts = weft.llm.Texts(demo(), rows=2, capacity=8)
    assert [list(x.shape) for x in texts.extend([[], []])] == [[0, 256]] * 2
    assert texts.extend([]) == ()


GRAPHED = """
import torch, weft
from weft.llm.demo import demo

model = demo("cuda", torch.float16)
graphed, plain = (weft.llm.Texts(model, rows=2, capacity=64, cache="paged", page=4) for _ in "ab")
prompts = [[1, 2], [3]]
graphed.extend(prompts), plain.extend(prompts)
plain._graphed = plain._continue
kept = []
for i in range(10):
    new = [[i, i + 1, i + 2], [5 * i, 2, 3]]
    found, want = graphed.extend(new, last=i % 2 > 0), plain.extend(new, last=i % 2 > 0)
    kept += zip(found, want)
    if i == 6:
        graphed.shorten([9, 5]), plain.shorten([9, 5])
assert all(torch.equal(a, b) for a, b in kept)  # results are not overwritten by later passes
assert graphed._graphed.captures == 2, graphed._graphed.captures
"""


@pytest.mark.sim
def test_passes_that_are_graphs(tmp_path: Path) -> None:
    """Replays read the tokens, pages and lengths of their call; `weft run` simulates graphs."""
    script = tmp_path / "script.py"
    script.write_text(GRAPHED, "utf-8")
    subprocess.run(
        [sys.executable, "-m", "weft", "run", str(script)], check=True, timeout=PROCESS_SECONDS
    )


CASES: dict[str, Any] = {
    "more texts than rows": ([[1]] * 3, "(?s)more texts than rows.*3.*at most 2"),
    "a token out of range": ([[1], [2, 256]], "(?s)text 1 .*token 256.*0 to 255"),
    "a token below 0": ([[-1]], "token -1"),
    "a token that is none": ([[1.5]], "token 1.5"),
    "past the capacity": ([[1] * 6], r"(?s)text 0 becomes longer.*3 \+ 6 tokens.*8 in all"),
}


@pytest.mark.parametrize("case", CASES)
def test_tokens_that_are_refused(case: str) -> None:
    """A call that is refused leaves the texts as they were."""
    tokens, words = CASES[case]
    texts = weft.llm.Texts(demo(), rows=2, capacity=8)
    texts.extend([[1, 2, 3]])
    with pytest.raises(ArgumentError, match=words):
        texts.extend(tokens)
    assert texts.lengths == (3, 0)


@pytest.mark.parametrize("lengths", [[4], [-1], [1, 1], [1, 0, 0]])
def test_lengths_that_are_refused(lengths: list[int]) -> None:
    texts = weft.llm.Texts(demo(), rows=2, capacity=8)
    texts.extend([[1, 2, 3]])
    with pytest.raises(ArgumentError, match=r"(?s)cannot be shortened.*each text: 3, 0"):
        texts.shorten(lengths)
    assert texts.lengths == (3, 0)


def test_caches_that_are_refused() -> None:
    with pytest.raises(ArgumentError, match=r"weft\.llm\.Texts: a paged cache takes float16"):
        weft.llm.Texts(demo(), cache="paged")
    with pytest.raises(ArgumentError, match=r"(?s)capacity does not fit.*1 to 256"):
        weft.llm.Texts(demo(), capacity=257)
