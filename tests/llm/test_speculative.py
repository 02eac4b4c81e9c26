"""The example of speculative decoding: tokens and distributions are those of the target alone."""

from __future__ import annotations

import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest

from folders import ROOT

torch = pytest.importorskip("torch")

import draw  # noqa: E402
import plain_decoder as plain  # noqa: E402
import weft  # noqa: E402
from weft.llm import Sampling, Texts  # noqa: E402

sys.path.insert(0, str(ROOT / "examples" / "speculative"))
import drafts  # noqa: E402
import generate  # noqa: E402
import speculation  # noqa: E402

sys.path.pop(0)

PROMPTS = ([119, 101, 102, 116], [7], [9, 2, 6, 5, 3, 5, 9, 2, 6])
TOKENS, CAPACITY = 12, 21
GREEDY = Sampling()


@pytest.fixture(scope="module")
def pair() -> Any:
    """A target of two layers, and its first layer."""
    return generate.pair("cpu")


@pytest.fixture(scope="module")
def alone(pair: Any) -> list[list[int]]:
    """The target's tokens without a draft; the most probable ones lead by more than roundings."""
    made = []
    for prompt in PROMPTS:
        texts = Texts(pair[0], capacity=CAPACITY)
        (tokens,) = weft.llm.Generator(pair[0], capacity=CAPACITY).generate([prompt], TOKENS)
        (logits,) = texts.extend([[*prompt, *tokens]])
        first, second = logits[len(prompt) - 1 : -1].topk(2).values.T
        assert (first - second).min() > 1e-3
        made.append(tokens)
    return made


class Random:
    """Proposes any tokens, each with the same probability."""

    def __init__(self, vocabulary: int, random: Any) -> None:
        self.vocabulary, self.random = vocabulary, random

    def propose(self, text: Sequence[int], count: int) -> Any:
        made = torch.randint(self.vocabulary, (count,), generator=self.random).tolist()
        return made, torch.full((count, self.vocabulary), 1 / self.vocabulary)


def draft_of(kind: str, pair: Any, random: Any, sampling: Any = GREEDY) -> Any:
    """A draft by its name."""
    if kind == "random":
        return Random(256, random)
    if kind == "lookup":
        return drafts.Lookup(256, torch.device("cpu"))
    model = pair[0] if kind == "itself" else pair[1]
    return drafts.ModelDraft(Texts(model, capacity=CAPACITY), sampling, random)


@pytest.mark.parametrize("ahead", [1, 2, 5])
@pytest.mark.parametrize("kind", ["layer", "itself", "lookup", "random"])
def test_greedy_tokens_are_those_of_the_target(
    pair: Any, alone: list[list[int]], kind: str, ahead: int
) -> None:
    """For every draft; one that is the target is always accepted, as far as there is room."""
    random = torch.Generator().manual_seed(ahead)
    target, draft = Texts(pair[0], capacity=CAPACITY), draft_of(kind, pair, random)
    for prompt, want in zip(PROMPTS, alone, strict=True):
        run = speculation.speculate(target, draft, prompt, TOKENS, ahead, GREEDY, random)
        assert run.tokens == want
        assert run.passes == len(run.tokens) - run.accepted
        if kind == "itself":
            assert run.accepted == run.proposed and run.passes == -(-TOKENS // (ahead + 1))


def test_pages_and_16_bits() -> None:
    """The target and the draft in a paged cache, whose pages are given back."""
    target, layer = (model.to(torch.float16) for model in generate.pair("cpu"))
    options: dict[str, Any] = {"capacity": 16, "cache": "paged", "page": 4, "pages": 4}
    prompt = [176, 118, 112, 235]
    want = weft.llm.Generator(target, **options).generate([prompt], TOKENS)[0]
    random = torch.Generator().manual_seed(1)
    draft = drafts.ModelDraft(Texts(layer, **options), GREEDY, random)
    texts = Texts(target, **options)
    (logits,) = texts.extend([[*prompt, *want]])
    first, second = logits[3:-1].float().topk(2).values.T
    assert (first - second).min() > 0.02  # more than roundings to 11 bits
    for ahead in (3, 4):
        run = speculation.speculate(texts, draft, prompt, TOKENS, ahead, GREEDY, random)
        assert run.tokens == want and 0 < run.accepted < run.proposed


@pytest.mark.parametrize("at", [0, 2, 5])
def test_a_stop_token_ends_an_accepted_run(pair: Any, alone: list[list[int]], at: int) -> None:
    want = alone[2]
    random = torch.Generator().manual_seed(1)
    draft = draft_of("itself", pair, random)
    texts = Texts(pair[0], capacity=CAPACITY)
    first = want.index(want[at])
    run = speculation.speculate(texts, draft, PROMPTS[2], TOKENS, 8, GREEDY, random, [want[at]])
    assert run.tokens == want[: first + 1]


def test_the_capacity_ends_a_run(pair: Any, alone: list[list[int]]) -> None:
    """A proposal is no longer than the room; the tokens after it are refused as for any text."""
    random = torch.Generator().manual_seed(1)
    texts = Texts(pair[0], capacity=16)
    draft = drafts.ModelDraft(Texts(pair[0], capacity=16), GREEDY, random)
    run = speculation.speculate(texts, draft, PROMPTS[0], 12, 7, GREEDY, random)
    assert run.tokens == alone[0] and texts.lengths[0] < 16
    with pytest.raises(weft.ArgumentError, match="longer than the cache"):
        speculation.speculate(texts, draft, PROMPTS[0], 14, 7, GREEDY, random)


def test_a_draft_like_the_target_is_accepted(pair: Any) -> None:
    """Sampling, too: both distributions are the same but for roundings."""
    sampling = Sampling(0.8, 40, 0.95)
    random = torch.Generator().manual_seed(3)
    draft = draft_of("itself", pair, random, sampling)
    texts = Texts(pair[0], capacity=CAPACITY)
    run = speculation.speculate(texts, draft, PROMPTS[0], TOKENS, 3, sampling, random)
    assert run.accepted == run.proposed == 9 and run.passes == 3
    assert "accepted 9 of 9 proposed tokens, 100%; 4.00 tokens for each pass" in str(run)


# ---- distributions -----------------------------------------------------------------------------
SMALL = 4
"""Tokens of a vocabulary whose pairs can be counted."""


class Table:
    """Stands for texts of a model whose logits depend on the last token alone."""

    def __init__(self, seed: int) -> None:
        self.table = draw.seeded(seed).normal(SMALL, SMALL)
        self.lengths = (0,)

    def extend(self, tokens: Any, last: bool = False) -> Any:
        self.lengths = (self.lengths[0] + len(tokens[0]),)
        return (self.table[tokens[0][-1:] if last else tokens[0]],)

    def shorten(self, lengths: Sequence[int]) -> None:
        assert 0 <= lengths[0] <= self.lengths[0]
        self.lengths = (lengths[0],)


@pytest.mark.parametrize("kind", ["another", "random", "lookup"])
@pytest.mark.parametrize("sampling", [Sampling(1.0), Sampling(0.7, top_k=3, top_p=0.9)])
def test_the_distribution_is_that_of_the_target(kind: str, sampling: Any) -> None:
    """Three tokens after a prompt: a chi-square test of all texts, expected at least five times."""
    target, random = Table(1), torch.Generator().manual_seed(5)
    draft: Any = drafts.ModelDraft(Table(2), sampling, random)  # type: ignore[arg-type]
    if kind == "random":
        draft = Random(SMALL, random)
    if kind == "lookup":
        draft = drafts.Lookup(SMALL, torch.device("cpu"))
    count, seen = 400, torch.zeros(SMALL, SMALL, SMALL)
    accepted = 0
    for _ in range(count):
        run = speculation.speculate(target, draft, [1, 2, 1], 3, 2, sampling, random)  # type: ignore[arg-type]
        seen[tuple(run.tokens)] += 1
        accepted += run.accepted
    assert accepted > 0
    p = speculation.probabilities(target.table, sampling)
    want = count * p[1][:, None, None] * p[:, :, None] * p[None]
    assert seen[want == 0].sum() == 0
    often = want >= 5
    pairs = [(seen[often], want[often]), (seen[~often].sum()[None], want[~often].sum()[None])]
    square = sum(float(((s - w) ** 2 / w.clamp(min=1e-9)).sum()) for s, w in pairs)
    free = int(often.sum())
    assert square < free + 4 * (2 * free) ** 0.5, (square, free)


def test_a_wrong_rule_is_noticed() -> None:
    """The same count with all proposals accepted: the test of distributions can fail."""
    target, random = Table(1), torch.Generator().manual_seed(5)
    p = speculation.probabilities(target.table, Sampling(1.0))[1]
    q = speculation.probabilities(Table(2).table, Sampling(1.0))[1]
    assert 0.5 * float((p - q).abs().sum()) > 0.2
    drawn = [speculation.draw(q, random) for _ in range(2000)]
    kept = [speculation.accept([x], q[None], torch.stack([p, p]), random)[0] for x in drawn]
    far, near = (
        float((torch.bincount(torch.tensor(x), minlength=SMALL) / 2000 - p).abs().sum()) / 2
        for x in (drawn, kept)
    )
    assert near < 0.05 < 0.15 < far


SAMPLINGS = (
    Sampling(), Sampling(0.7), Sampling(1.0, top_k=3), Sampling(1.3, top_p=0.6),
    Sampling(1.0, top_p=0.0), Sampling(0.5, 4, 0.8),
)  # fmt: skip


@pytest.mark.parametrize("number", range(len(SAMPLINGS)))
def test_probabilities_are_those_of_sample(number: int) -> None:
    """2000 draws of weft.ops.sample from the same logits."""
    s, count = SAMPLINGS[number], 2000
    logits = 2 * draw.seeded(7).normal(1, 9)
    drawn = weft.ops.sample(
        logits.repeat(count, 1),
        torch.tensor([s.temperature]),
        torch.tensor([s.top_k], dtype=torch.int32),
        torch.tensor([s.top_p]),
        torch.tensor([3]),
        torch.arange(count, dtype=torch.int32),
    )
    seen = torch.bincount(drawn, minlength=9) / count
    p = speculation.probabilities(logits, s)[0]
    assert bool((seen[p == 0] == 0).all())
    assert 0.5 * float((seen - p).abs().sum()) < 0.05


def test_lookup() -> None:
    """The longest match wins, and the latest of equally long ones."""
    lookup = drafts.Lookup(10, torch.device("cpu"))
    tokens, q = lookup.propose([1, 2, 3, 4, 9, 3, 7, 1, 2, 3], 3)
    assert tokens == [4, 9, 3] and q.argmax(-1).tolist() == tokens and q.sum() == 3
    assert lookup.propose([5, 1, 5, 2, 5], 2)[0] == [2, 5]
    assert lookup.propose([1, 2, 3], 2)[0] == [] and lookup.propose([1], 2)[0] == []
    assert lookup.propose([4, 4], 0)[0] == []


# ---- the command -------------------------------------------------------------------------------
def test_the_command(capsys: pytest.CaptureFixture[str], alone: list[list[int]]) -> None:
    """The tiny pair, and both kinds of drafts."""
    for more in ([], ["--lookup"]):
        run = generate.main(["--prompt", "weft", "--tokens", str(TOKENS), *more])
        assert run.tokens == alone[0]
        text = capsys.readouterr().out
        assert (
            text.startswith(" ".join(map(str, alone[0]))) and "for each pass of the target" in text
        )


def test_folders(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """A target and a draft from files; models with other tokens are refused."""
    config = {**plain.LLAMA, "vocab_size": 256}
    stored = plain.weights(config, 1)
    small = {**config, "num_hidden_layers": 1}
    target = plain.write(tmp_path / "target", config, stored)
    draft = plain.write(tmp_path / "draft", small, plain.weights(small, 1))
    words = ["--model", str(target), "--prompt", "ab", "--tokens", "4"]
    run = generate.main([*words, "--draft", str(draft)])
    want, lead = plain.greedy(config, stored, [97, 98], 4)
    assert run.tokens == want and lead > 1e-3
    assert " ".join(map(str, want)) in capsys.readouterr().out
    with pytest.raises(SystemExit, match="--draft FOLDER, or --lookup"):
        generate.main(words)
    other = plain.write(tmp_path / "other", plain.LLAMA, plain.weights(plain.LLAMA, 1))
    with pytest.raises(SystemExit, match="256 and 61 tokens"):
        generate.main([*words, "--draft", str(other)])
    with pytest.raises(SystemExit, match="a prompt needs a token"):
        generate.main(["--prompt", ""])
