"""Batch-invariant generation: a text has the same bits alone, among others and in any row."""

from __future__ import annotations

import dataclasses
from typing import Any

import pytest

torch = pytest.importorskip("torch")

import draw  # noqa: E402
import weft  # noqa: E402
from candidates import by  # noqa: E402
from weft.errors import ArgumentError  # noqa: E402
from weft.llm import cache as caches  # noqa: E402
from weft.llm.decoder import Decoder  # noqa: E402
from weft.llm.demo import CONFIG, spread  # noqa: E402
from weft.ops.core import library  # noqa: E402

F32, F16, BF16 = torch.float32, torch.float16, torch.bfloat16
TEXT = [3, 1, 4, 1, 5, 9, 2, 6]
OTHERS = [[7], [i % 97 for i in range(40)], [5] * 3, [8] * 17]
BATCHES = ((2, [TEXT, OTHERS[0]], 0), (5, [*OTHERS, TEXT], 4), (20, [*OTHERS * 4, TEXT], 16))
"""Rows of the generator, prompts, and the text's number among them."""


def model(family: str, dtype: Any) -> Decoder:
    """A small model whose sums are long enough to differ by their order."""
    sizes: dict[str, Any] = {"width": 128, "head_size": 32, "hidden": 256, "family": family}
    if family == "gpt2":
        sizes |= {"kv_heads": 4}
    if family == "mistral":
        sizes |= {"windows": (8, 0)}
    return spread(Decoder(dataclasses.replace(CONFIG, **sizes), "cpu", dtype))


def logits(made: Any, rows: int, prompts: Any, **options: Any) -> list[Any]:
    """The logits of each step, for all prompts."""
    generator = weft.llm.Generator(made, rows=rows, capacity=48, **options)
    seen, drawn = [], generator._draw

    def noted(found: Any, count: int) -> Any:
        seen.append(found.clone())
        return drawn(found, count)

    generator._draw = noted  # type: ignore[method-assign]
    generator.generate(prompts, 3, stop=())
    return seen


def differing(made: Any, **options: Any) -> int:
    """Steps whose logits differ between the text alone and among others."""
    alone = [step[0] for step in logits(made, 1, [TEXT], **options)]
    return sum(
        not torch.equal(one, step[at])
        for rows, prompts, at in BATCHES
        for one, step in zip(alone, logits(made, rows, prompts, **options), strict=True)
    )


@pytest.mark.parametrize(
    ("family", "dtype", "cache"),
    [
        ("llama", F32, "static"),
        ("llama", F16, "static"),
        ("llama", BF16, "paged"),
        ("mistral", F16, "paged"),
        ("gpt2", F32, "static"),
        ("gpt2", BF16, "static"),
    ],
)
def test_logits_do_not_depend_on_the_batch(family: str, dtype: Any, cache: str) -> None:
    made = model(family, dtype)
    assert differing(made, cache=cache, batch_invariant=True) == 0
    if family == "llama" and dtype is F32:  # else the test would show nothing
        assert differing(made, cache=cache) > 0


@pytest.mark.parametrize("form", ["int8", "int4"])
def test_quantised_layers(form: str) -> None:
    """Layers without kernels of one order are called with one number of rows."""
    made = model("llama", F16)
    weft.quant.convert(made, form, group=64)
    assert differing(made, batch_invariant=True) == 0


def test_calls_of_attention_for_many_texts(monkeypatch: Any) -> None:
    """More heads than a call takes are several calls; a direct call is refused."""
    made = model("llama", F16)
    want = logits(made, 5, [*OTHERS, TEXT], batch_invariant=True)
    monkeypatch.setattr(caches, "MOST_HEADS", 2 * made.config.heads)
    got = logits(made, 5, [*OTHERS, TEXT], batch_invariant=True)
    assert all(torch.equal(*both) for both in zip(got, want, strict=True))
    call = library.call("attention_paged_invariant")
    q, k = torch.zeros(300, 4, 1, 16, dtype=F16), torch.zeros(1, 8, 4, 16, dtype=F16)
    numbers = torch.ones(300, dtype=torch.int32)
    with pytest.raises(ArgumentError, match="300 sequences of 4 heads"):
        call(q, k, k, numbers[:, None] * 0, numbers)


# ---- ops -----------------------------------------------------------------------------------------
def offered(op: str, *args: Any) -> list[str]:
    """The names of the candidates of a call."""
    function = library.function(op)
    request = function.request(*args)
    return [c.name for c in function.definition.candidates(request)]


@pytest.mark.parametrize(("dtype", "k"), [(F16, 520), (BF16, 520), (BF16, 519), (F32, 519)])
def test_every_tile_adds_a_product_in_one_order(dtype: Any, k: int) -> None:
    """Drawn tiles for several numbers of rows, with the bits of the first rows' tile."""
    generator = draw.seeded(k)
    x, weight = (generator.normal(n, k).to(dtype) for n in (140, 72))
    bias = generator.normal(72).to(dtype)
    op, want = "linear_constant_invariant", None
    for rows in (140, 1, 17, 64):
        names = offered(op, x[:rows], weight, bias)
        for number in set(generator.integers(0, len(names), (3,)).tolist()):
            made = by(names[number], op, x[:rows], weight, bias)
            want = made if want is None else want
            assert torch.equal(made, want[:rows]), (rows, names[number])


@pytest.mark.parametrize("op", ["rms_norm", "add_layer_norm"])
@pytest.mark.parametrize("width", [60, 1000, 4099])
def test_norms_add_rows_in_one_order(op: str, width: int) -> None:
    """Also widths whose rows begin at different places of a vector."""
    generator = draw.seeded(width)
    rows = [generator.normal(700, width).to(F16) for _ in range(2 if "add" in op else 1)]
    weight = generator.normal(width).to(F16)
    call = library.call(f"{op}_invariant")
    first = lambda made: made[0] if isinstance(made, tuple) else made  # noqa: E731
    want = first(call(*rows, (width,), weight))
    for count in (1, 5, 40):
        made = first(call(*(x[-count:] for x in rows), (width,), weight))
        assert torch.equal(made, want[-count:]), count


def test_no_kernel_of_one_order() -> None:
    """A call without rows has no order; it is refused instead of computed in another one."""
    empty, weight = torch.zeros(0, 32), torch.zeros(16, 32)
    with pytest.raises(ArgumentError, match="in the same order in every batch"):
        library.call("linear_constant_invariant")(empty, weight)
