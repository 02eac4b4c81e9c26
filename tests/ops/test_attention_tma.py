"""Attention by warpgroups whose tiles TMA copies: the forward kernel for Hopper."""

from __future__ import annotations

import dataclasses
from collections.abc import Sequence
from typing import Any, NamedTuple

import pytest

import draw

torch = pytest.importorskip("torch")

import weft  # noqa: E402
from exact_attention import exact, on  # noqa: E402
from weft.errors import CompileError  # noqa: E402
from weft.ops.core import library  # noqa: E402
from weft.ops.core.choose import Candidate  # noqa: E402
from weft.ops.core.runner import runner  # noqa: E402
from weft.ops.families.attention import forward, tma_model  # noqa: E402
from weft.ops.families.attention.tma_model import TmaTile  # noqa: E402

DTYPE = torch.bfloat16
HEAD = 80  # two slabs of columns, the second one in part
TILE = TmaTile(warpgroups=2, keys=16, stages=2, slots=2, reach=1.0)
TILES = tma_model.TILES


@pytest.fixture(autouse=True)
def small(monkeypatch: pytest.MonkeyPatch) -> None:
    """A tile of little code, so that one kernel serves most calls."""
    monkeypatch.setenv("WEFT_DRAFTS", "1")
    monkeypatch.setattr(forward, "LISTED", 1000)
    use(monkeypatch, TILE)


def use(monkeypatch: pytest.MonkeyPatch, tile: TmaTile, head: int = HEAD) -> None:
    monkeypatch.setattr(tma_model, "TILES", {head: (tile,)})


def drawn(*shape: int, seed: int) -> Any:
    return draw.seeded(seed).normal(*shape).to(DTYPE)


def by_tma(candidates: list[Candidate], kind: str = "") -> Candidate:
    """The candidate by TMA whose name ends with `kind` behind its tile."""
    ends = {c.name.partition("TMA")[2]: c for c in candidates if "TMA" in c.name}
    return ends[kind]


class Options(NamedTuple):
    """Options of a call, the SMs it runs on, and the division of its work."""

    causal: bool = False
    sms: int = 3
    kind: str = ""
    mask: Any = None
    scale: float | None = None
    window: tuple[int, int] | None = None


def attend(q: Any, k: Any, v: Any, options: Options) -> Any:
    """The result and the logarithms of the sums."""
    gqa = q.shape[1] > k.shape[1]
    arguments = (q, k, v, options.mask, 0.0, options.causal, options.scale, gqa, options.window)
    request = on(library.function("attention_lse").request(*arguments), options.sms)
    one = by_tma(forward.candidates(request, False, True), options.kind)
    return runner(one.build(), len(request.inputs), q.device)(q, k, v, options.mask)


def in_window(rows: int, keys: int, window: tuple[int, int]) -> Any:
    """True for the keys that a query sees."""
    left, right = window
    distance = torch.arange(keys) - torch.arange(rows)[:, None]
    return (distance >= (-left if left >= 0 else -rows)) & (
        distance <= (right if right >= 0 else keys)
    )


def added(options: Options, rows: int, keys: int) -> Any:
    """The terms that the mask and the window add to the scores."""
    zeros = torch.zeros(rows, keys)
    if options.window is not None:
        zeros = zeros.masked_fill(~in_window(rows, keys, options.window), -torch.inf)
    if options.mask is not None and options.mask.dtype is torch.bool:
        return torch.where(options.mask, zeros, -torch.inf)
    return zeros if options.mask is None else zeros + options.mask


def compare(tensors: Sequence[Any], options: Options) -> None:
    out, lse = attend(*tensors, options)
    more = added(options, tensors[0].shape[2], tensors[1].shape[2])
    expected, logs = exact(tensors, options.causal, options.scale, more)
    torch.testing.assert_close(out.double(), expected, rtol=1e-2, atol=1e-2)
    torch.testing.assert_close(lse.double(), logs, rtol=1e-5, atol=1e-5)


def operands(rows: int, keys: int, heads: int, shared: int, head: int = HEAD) -> tuple[Any, ...]:
    """Queries as models have them, whose heads follow one another in a row."""
    q = drawn(2, rows, heads, head, seed=1).transpose(1, 2)
    k, v = (drawn(2, shared, keys, head, seed=n) for n in (2, 3))
    return q, k, v


CALLS = {
    "a unit without rows": (130, 40, 1, 1, Options()),
    "tiles that one warpgroup does not see": (200, 170, 2, 1, Options(causal=True)),
    "queries behind the last key": (150, 20, 2, 2, Options(causal=True)),
    "one key": (3, 1, 2, 2, Options(causal=True, kind=", 1 units")),
    "units that share tiles": (330, 30, 1, 1, Options(kind=", 6 units")),
    "fewer units than warpgroups in an item": (150, 30, 3, 3, Options(sms=1, kind=", 3 units")),
    "heads as rows of a unit": (5, 100, 4, 1, Options(kind=", 1 units")),
    "heads that do not fill a unit": (11, 40, 7, 1, Options(causal=True, sms=1)),
    "a negative scale": (70, 40, 1, 1, Options(scale=-0.1)),
    "a window": (200, 170, 2, 1, Options(causal=True, window=(37, 0))),
    "a window on both sides": (200, 170, 2, 1, Options(window=(20, 35))),
    "a window behind the queries": (
        150,
        150,
        1,
        1,
        Options(window=(-1, 20), kind=", keys in 2", sms=20),
    ),
    "a window that the last queries do not see": (200, 90, 1, 1, Options(window=(5, 0))),
    "a window of packed heads": (9, 70, 4, 1, Options(window=(3, 2), kind=", 1 units")),
}


@pytest.mark.parametrize("call", CALLS)
def test_forward(call: str) -> None:
    rows, keys, heads, shared, options = CALLS[call]
    compare(operands(rows, keys, heads, shared), options)


KEYS_IN_2 = pytest.param(", keys in 2", marks=pytest.mark.slow)


@pytest.mark.parametrize("kind", [KEYS_IN_2, ", 1 units, keys in 3"])
def test_keys_in_parts(kind: str) -> None:
    """The last warpgroup of a unit combines its parts; a part may see no key."""
    rows = 100 if "units" not in kind else 3
    compare(operands(rows, 110, 2, 1), Options(causal=True, kind=kind, sms=20))


def test_queries_in_registers(monkeypatch: pytest.MonkeyPatch) -> None:
    use(monkeypatch, TILE._replace(registers=True, slots=1, in_turns=True))
    compare(operands(300, 70, 2, 1), Options(causal=True, sms=2))


def test_blocks_of_an_sm(monkeypatch: pytest.MonkeyPatch) -> None:
    """Blocks of one warpgroup share an SM, and its registers; the last unit has few rows."""
    use(monkeypatch, TILE._replace(warpgroups=1, blocks=3))
    compare(operands(200, 70, 2, 1), Options(causal=True, sms=2, kind=", 3 blocks"))


def test_registers_that_a_block_does_not_have(monkeypatch: pytest.MonkeyPatch) -> None:
    """Four warpgroups would wait for registers forever on a GPU: they are not compiled."""
    use(monkeypatch, TILE._replace(warpgroups=4))
    with pytest.raises(CompileError, match="more registers than the block has"):
        attend(*operands(300, 16, 1, 1), Options())


@pytest.mark.parametrize("head", [32, 256])
def test_heads(head: int, monkeypatch: pytest.MonkeyPatch) -> None:
    use(monkeypatch, TILE._replace(slots=1, warpgroups=1 if head == 32 else 2), head)
    compare(operands(70, 40, 1, 1, head), Options())


def test_mask() -> None:
    """A row that sees no key is 0. Rows of 40 bytes are no whole vectors: the mask is padded."""
    mask = draw.seeded(5).normal(2, 1, 70, 40) > 0
    mask[:, :, 3] = False
    compare(operands(70, 40, 1, 1), Options(mask=mask))


MASKS = {
    "of each head": ((1, 2, 150, 72), Options(causal=True)),
    "of each batch": ((2, 1, 150, 72), Options(sms=1)),
    "that all queries share": ((2, 1, 1, 72), Options()),
    "whose rows are no whole vectors": ((2, 2, 150, 35), Options(scale=0.3)),
    "of few keys, for units that share tiles": ((2, 2, 150, 24), Options(kind=", 3 units")),
}


@pytest.mark.parametrize("mask", MASKS)
def test_added_mask(mask: str) -> None:
    shape, options = MASKS[mask]
    added = drawn(*shape, seed=5)
    added[..., 7] = -torch.inf
    compare(operands(150, shape[-1], 2, 1), options._replace(mask=added))


def test_added_mask_of_floats(monkeypatch: pytest.MonkeyPatch) -> None:
    """Rows of two slabs, and keys in parts."""
    use(monkeypatch, TILE._replace(keys=48))
    mask = draw.seeded(5).normal(1, 2, 100, 200)
    compare(operands(100, 200, 2, 2), Options(mask=mask, kind=", keys in 2", sms=20))


def test_added_mask_in_a_window() -> None:
    mask = drawn(1, 2, 150, 72, seed=5)
    compare(operands(150, 72, 2, 1), Options(mask=mask, window=(33, 4)))


def test_mask_of_packed_heads() -> None:
    mask = drawn(2, 1, 5, 40, seed=5)
    compare(operands(5, 40, 4, 1), Options(mask=mask, kind=", 1 units"))


def test_heads_packed_under_a_causal_mask() -> None:
    compare(operands(150, 150, 4, 1), Options(causal=True, kind=", 4 heads packed"))


def test_operands_of_all_kinds() -> None:
    """Values of another width, a misaligned key, and keys that all batches share."""
    q, v = drawn(2, 1, 66, 67, seed=1), drawn(2, 1, 65, 71, seed=3)
    k = drawn(65 * 67 + 1, seed=2)[1:].view(1, 1, 65, 67).expand(2, 1, 65, 67)
    compare((q, k, v), Options())


def test_slices_of_a_projection() -> None:
    rows = drawn(2, 70, 3, 2, HEAD, seed=1)
    compare([x.transpose(1, 2) for x in rows.unbind(2)], Options())


def test_large_scores() -> None:
    """Products of maxima and the scale that are rounded by more than an exponential can take."""
    q, k, v = (drawn(1, 1, 66, HEAD, seed=n) for n in (1, 2, 3))
    q = (q * 2.0**22).to(DTYPE)
    out, _ = attend(q, k, v, Options())
    largest = (q[0, 0].double() @ k[0, 0].double().mT).argmax(-1)
    assert torch.equal(out[0, 0], v[0, 0, largest])


def test_ragged() -> None:
    """Sequences of different lengths, one of them empty; infinite values stay in their sequence."""
    lengths, keys = (70, 0, 3, 5), (90, 5, 1, 3)
    starts = [torch.tensor([0, *n]).cumsum(0).int() for n in (lengths, keys)]
    q = drawn(sum(lengths), 2, HEAD, seed=1)
    k, v = (drawn(sum(keys), 1, HEAD, seed=n) for n in (2, 3))
    v[96:] = torch.inf
    tensors = (q, k, v, *starts)
    request = library.function("attention_varlen_lse").request(*tensors, 70, 90, True, None, True)
    one = by_tma(forward.candidates(on(request, 2), True, True))
    out, lse = runner(one.build(), len(tensors), q.device)(*tensors)
    row = key = 0
    for n, m in zip(lengths[:-1], keys, strict=False):
        parts = [
            x.transpose(0, 1)[None].double()
            for x in (q[row : row + n], k[key : key + m], v[key : key + m])
        ]
        scores = parts[0] @ parts[1].repeat_interleave(2, 1).mT / HEAD**0.5
        scores = scores.masked_fill(torch.ones(n, m, dtype=torch.bool).triu(1 + m - n), -torch.inf)
        expected = scores.softmax(-1).nan_to_num(0.0) @ parts[2].repeat_interleave(2, 1)
        ours = out[row : row + n].transpose(0, 1)[None].double()
        torch.testing.assert_close(ours, expected, rtol=1e-2, atol=1e-2)
        torch.testing.assert_close(
            lse[:, row : row + n].double(), scores.logsumexp(-1)[0], rtol=1e-5, atol=1e-5
        )
        row, key = row + n, key + m


def test_sanitized() -> None:
    with weft.sanitize():
        compare(operands(130, 40, 1, 1), Options(causal=True))
        mask = drawn(2, 1, 130, 40, seed=5)
        compare(operands(130, 40, 1, 1), Options(causal=True, mask=mask))


@pytest.mark.parametrize("schedule", ["last", "random:1"])
def test_scheduled(schedule: str) -> None:
    mask = drawn(1, 1, 130, 40, seed=5)
    with weft.schedule(schedule):
        compare(operands(130, 40, 1, 1), Options(causal=True, sms=1))
        compare(operands(130, 40, 1, 1), Options(causal=True, sms=1, mask=mask))


@pytest.mark.parametrize(
    ("change", "chosen"),
    [({}, True), ({"capability": (8, 0)}, False), ({"capability": (10, 0)}, False)],
)
def test_only_on_hopper(change: dict[str, Any], chosen: bool) -> None:
    q = torch.empty(1, 4, 4096, HEAD, dtype=DTYPE).expand(64, 4, 4096, HEAD)
    request = library.function("attention").request(q, q, q, None, 0.0, False, None, False)
    target = dataclasses.replace(request.target, **{"real": True, **change})
    made = forward.candidates(dataclasses.replace(request, target=target), False, False)
    assert any("TMA" in c.name for c in made) == chosen


RECORDED = {
    "bert-base": (64, 512, torch.bfloat16, "3 x 128, TMA, 8 units"),
    "vit with 197 tokens": (64, 197, torch.bfloat16, "3 x 112, TMA, 4 units"),
    "clip": (64, 77, torch.bfloat16, "1 x 80, TMA, 3 blocks, 2 units"),
}


@pytest.mark.parametrize("call", RECORDED)
def test_the_fastest_recorded_tile_is_chosen(call: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """Times are in benchmarks/records/attention_tiles.jsonl."""
    monkeypatch.setattr(tma_model, "TILES", TILES)
    batch, rows, dtype, name = RECORDED[call]
    x = torch.empty(batch, rows, 12, 64, dtype=dtype).transpose(1, 2)
    assert weft.ops.explain(weft.ops.attention, x, x, x).choice.used.name == name
