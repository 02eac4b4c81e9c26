"""Generated tokens beside those of plain PyTorch: families, batches, caches, samples, refusals."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

torch = pytest.importorskip("torch")

import plain_decoder as plain  # noqa: E402
import weft  # noqa: E402
from weft.errors import ArgumentError  # noqa: E402
from weft.kernels import Launch  # noqa: E402
from weft.llm.demo import demo  # noqa: E402

PROMPTS = ([3, 1, 4], [15], [9, 2, 6, 5, 35, 8, 9])
F32, F16 = torch.float32, torch.float16


def loaded(folder: Path, family: str, dtype: Any = F32, seed: int = 1) -> tuple[Any, Any]:
    """A model of a folder, and its weights by their public names."""
    stored = plain.weights(plain.CONFIGS[family], seed, dtype)
    return weft.llm.load(plain.write(folder, plain.CONFIGS[family], stored), "cpu"), stored


def test_one_text(tmp_path: Path) -> None:
    model, stored = loaded(tmp_path, "llama")
    found = weft.llm.Generator(model, capacity=16).generate(PROMPTS[:1], 5)
    want, lead = plain.greedy(plain.LLAMA, stored, PROMPTS[0], 5)
    assert found == [want] and lead > 1e-3


@pytest.mark.parametrize("family", plain.CONFIGS)
def test_texts_of_different_lengths(tmp_path: Path, family: str) -> None:
    """A batch in float32, with a row to spare; the largest logit leads by more than roundings."""
    model, stored = loaded(tmp_path, family)
    generator = weft.llm.Generator(model, rows=4, capacity=16)
    found = generator.generate(PROMPTS, 5, stop=())
    for prompt, tokens in zip(PROMPTS, found, strict=True):
        want, lead = plain.greedy(plain.CONFIGS[family], stored, prompt, 5)
        assert tokens == want and lead > 1e-3, lead


@pytest.mark.parametrize("family", ["llama", "gpt2"])
def test_pages(tmp_path: Path, family: str) -> None:
    """Float16, where both caches are read by one kernel: pages of 4 tokens, or one for a text."""
    model, stored = loaded(tmp_path, family, F16)
    paged = weft.llm.Generator(model, rows=3, capacity=16, cache="paged", page=4, pages=9)
    found = paged.generate(PROMPTS, 5, stop=())
    large = weft.llm.Generator(model, rows=3, capacity=16, cache="paged", page=32)
    assert large.generate(PROMPTS, 5, stop=()) == found
    want = [plain.greedy(plain.CONFIGS[family], stored, p, 5) for p in PROMPTS]
    # A lead that roundings to 11 bits do not turn over.
    assert all(lead > 0.05 for _, lead in want), want
    assert found == [tokens for tokens, _ in want]
    static = weft.llm.Generator(model, rows=3, capacity=16)
    assert static.generate(PROMPTS, 5, stop=()) == found


def test_a_second_call_and_stops() -> None:
    """Rows are free again; a stop token ends its own text alone; None stands for ended ones."""
    generator = weft.llm.Generator(demo(), rows=2, capacity=12)
    drawn = [weft.llm.Sampling(1.0, seed=seed) for seed in (3, 4)]
    both = generator.generate([[1, 2], [7]], 4, drawn)
    assert generator.generate([[7]], 4, drawn[1:]) == both[1:]
    ended = both[0][1]
    assert ended != both[0][0] and ended not in both[1]
    steps = list(generator.stream([[1, 2], [7]], 4, drawn, stop=[ended]))
    assert [step[0] for step in steps] == [*both[0][:2], None, None]
    assert [step[1] for step in steps] == both[1]
    assert generator.generate([[7]], 0) == [[]]
    assert len(generator.generate([[7]])[0]) == 11  # up to the capacity


def test_a_prompt_that_fills_its_row() -> None:
    """It gets no token, and takes no slot of the text behind it."""
    generator = weft.llm.Generator(demo(), rows=2, capacity=8)
    alone = generator.generate([[5, 6]], stop=())
    full = list(range(1, 9))
    assert generator.generate([full, [5, 6]], stop=()) == [[], *alone]
    assert generator.generate([[5, 6], full], stop=()) == [*alone, []]


def test_samples_do_not_depend_on_the_batch() -> None:
    """Seed and position decide; one Sampling for all gives rows seeds that follow each other."""
    sampling = weft.llm.Sampling(temperature=0.9, top_k=20, top_p=0.9, seed=5)
    generator = weft.llm.Generator(demo(), rows=3, capacity=12)
    three = generator.generate([[1, 2], [7], [7]], 3, sampling)
    assert three == generator.generate([[1, 2], [7], [7]], 3, sampling)
    assert three[1] != three[2]
    other = weft.llm.Sampling(0.9, 20, 0.9, 7)
    assert generator.generate([[7]], 3, [other]) == three[2:]


class Twin(torch.nn.Module):  # type: ignore[misc]
    """A module with the call of a linear layer, as converters put in its place."""

    def __init__(self, layer: Any) -> None:
        super().__init__()
        self.weight, self.bias = layer.weight, layer.bias

    def forward(self, x: Any) -> Any:
        return torch.nn.functional.linear(x, self.weight, self.bias)


def test_layers_that_were_replaced() -> None:
    """Every product may be another module."""
    model = demo()
    want = weft.llm.Generator(model, capacity=8).generate([[7, 1]], 3)
    for module in [m for m in model.modules() if not isinstance(m, Twin)]:
        for name, layer in list(module.named_children()):
            if isinstance(layer, torch.nn.Linear):
                setattr(module, name, Twin(layer))
    assert not any(isinstance(m, torch.nn.Linear) for m in model.modules())
    assert weft.llm.Generator(model, capacity=8).generate([[7, 1]], 3) == want


def test_one_stream_at_a_time() -> None:
    """A stream that is left open neither goes on nor ends the one that came after it."""
    generator = weft.llm.Generator(demo(), capacity=8)
    want = generator.generate([[7]], 2)
    left = generator.stream([[1, 2]], 3)
    next(left)
    later = generator.stream([[7]], 2)
    found = next(later)
    with pytest.raises(ArgumentError, match="a later call has taken the cache"):
        next(left)
    assert [[*found, *next(later)]] == want


@pytest.mark.sim
def test_a_step_is_few_launches(monkeypatch: pytest.MonkeyPatch) -> None:
    """Nine for each layer; the embedding, the last norm, the head and the token."""
    generator = weft.llm.Generator(demo(dtype=F16), rows=1, capacity=8)
    stream = generator.stream([[1, 2]], 3)
    next(stream)
    seen, plain_launch = [], Launch.__call__

    def counted(launch: Launch, *args: Any) -> None:
        seen.append(launch)
        plain_launch(launch, *args)

    monkeypatch.setattr(Launch, "__call__", counted)
    next(stream)
    assert len(seen) == 2 * 9 + 4, seen


CASES: dict[str, Any] = {
    "too many prompts": (([[1]] * 3,), {}, "1 to 2"),
    "no prompts": (([],), {}, "number of prompts"),
    "an empty prompt": (([[]],), {}, "prompt 0 has no tokens"),
    "a token out of range": (([[1], [256]],), {}, "(?s)prompt 1 .*token 256.*0 to 255"),
    "a token that is none": (([[1.5]],), {}, "token 1.5"),
    "too long": (([[1] * 5], 4), {}, r"(?s)longer than the cache.*5 \+ 4 tokens.*8 in all"),
    "tokens below 0": (([[1]], -1), {}, "at least 0, got -1"),
    "samplings that do not fit": (([[1]],), {"sampling": []}, "(?s)one for each.*0 for 1"),
}


@pytest.mark.parametrize("case", CASES)
def test_refused(case: str) -> None:
    args, options, words = CASES[case]
    with pytest.raises(ArgumentError, match=words):
        weft.llm.Generator(demo(), rows=2, capacity=8).generate(*args, **options)


@pytest.mark.parametrize(
    ("options", "words"),
    [
        ({"cache": "dynamic"}, "(?s)no such cache.*static, paged"),
        ({"cache": "paged"}, "takes float16 and bfloat16"),
        ({"capacity": 257}, "(?s)capacity does not fit.*1 to 256"),
        ({"rows": 0}, "(?s)at least 1.*rows=0"),
    ],
)
def test_generators_that_are_refused(options: dict[str, Any], words: str) -> None:
    with pytest.raises(ArgumentError, match=words):
        weft.llm.Generator(demo(), **options)


def test_too_few_pages() -> None:
    """Pages for all that a text may need are taken when it begins."""
    generator = weft.llm.Generator(
        demo(dtype=F16), rows=2, capacity=16, cache="paged", page=4, pages=3
    )
    with pytest.raises(ArgumentError, match=r"(?s)longer than the cache.*4 pages of 4.*3 pages"):
        generator.generate([[1, 2], [3]], 4)


@pytest.mark.parametrize(
    ("options", "words"),
    [
        ({"temperature": -1.0}, "temperature is out of range"),
        ({"temperature": float("nan")}, "temperature is out of range"),
        ({"top_k": -1}, "top_k"),
        ({"top_p": 1.5}, "(?s)top_p.*0 to 1"),
        ({"seed": -3}, "seed"),
    ],
)
def test_samplings_that_are_refused(options: dict[str, Any], words: str) -> None:
    with pytest.raises(ArgumentError, match=words):
        weft.llm.Sampling(**options)
