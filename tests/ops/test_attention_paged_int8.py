"""Attention whose keys and values are in pages of int8, against float64 of dequantised values."""

from __future__ import annotations

from typing import Any, NamedTuple

import pytest

import draw

torch = pytest.importorskip("torch")
from torch.nn.functional import scaled_dot_product_attention as by_torch  # noqa: E402

import weft  # noqa: E402
from candidates import by  # noqa: E402
from weft.errors import ArgumentError  # noqa: E402

HALF, BFLOAT = torch.float16, torch.bfloat16
LIMITS = {HALF: 2e-3, BFLOAT: 1.2e-2}
"""Weights and results are rounded to 16 bits; keys and values are not."""


class Cache(NamedTuple):
    """Pages of keys and values, in an order that is not theirs, with their scales."""

    key: Any
    value: Any
    table: Any
    lengths: Any
    key_scale: Any
    value_scale: Any

    def sequence(self, number: int) -> list[Any]:
        """The dequantised keys and values of a sequence, [heads, keys, elements]."""
        pages, length = self.table[number].long(), int(self.lengths[number])
        pairs = ((self.key, self.key_scale), (self.value, self.value_scale))
        rows = (x.double() * scale.double()[..., None] for x, scale in pairs)
        return [x[pages].flatten(0, 1)[:length].transpose(0, 1) for x in rows]

    def call(self, q: Any, **options: Any) -> Any:
        """The op's result."""
        scales = {"key_scale": self.key_scale, "value_scale": self.value_scale}
        return weft.ops.attention_paged(q, *self[:4], **scales, **options)


def cached(lengths: tuple[int, ...], size: int, heads: int, head: int) -> Cache:
    most = max(-(-n // size) for n in lengths)
    pages = most * len(lengths)
    made = []
    for seed in (1, 2):
        # Keys of different magnitude, so that each scale matters.
        x = draw.seeded(seed).normal(pages, size, heads, head)
        x = x * (0.2 + 2 * draw.seeded(seed + 5).uniform(pages, size, heads, 1))
        made.append(weft.ops.quantise(x, torch.int8))
    (key, key_scale), (value, value_scale) = made
    order = torch.tensor([(7 * i + 3) % pages for i in range(pages)])
    assert len(set(order.tolist())) == pages
    table, counts = order.view(len(lengths), most).int(), torch.tensor(lengths).int()
    return Cache(key, value, table, counts, key_scale[..., 0], value_scale[..., 0])


def compare(
    out: Any, q: Any, cache: Cache, causal: bool = False, window: tuple[int, int] | None = None
) -> None:
    rows = q.shape[2]
    for i in range(len(q)):
        key, value = cache.sequence(i)
        distance = torch.arange(key.shape[1]) - torch.arange(rows)[:, None] + rows - key.shape[1]
        left, right = window or (1 << 20, 1 << 20)
        mask = (distance >= -left) & (distance <= (0 if causal else right))
        want = by_torch(q[i].double(), key, value, attn_mask=mask, enable_gqa=True)
        assert (out[i].double() - want).norm() <= LIMITS[q.dtype] * want.norm()


@pytest.mark.parametrize("dtype", LIMITS)
def test_decoding(dtype: Any) -> None:
    """One query; shared heads, keys in parts, a page that is not full."""
    q, cache = draw.seeded(5).normal(3, 4, 1, 32).to(dtype), cached((300, 1, 129), 16, 2, 32)
    compare(cache.call(q), q, cache)


@pytest.mark.parametrize("head", [24, 128, 256])
def test_sizes_of_heads(head: int) -> None:
    q, cache = draw.seeded(5).normal(1, 2, 1, head).to(BFLOAT), cached((70,), 16, 1, head)
    compare(cache.call(q), q, cache)


def test_several_queries() -> None:
    """The last queries of a sequence, under a causal mask, in a window."""
    q = draw.seeded(5).normal(2, 5, 2, 32).half().transpose(1, 2)
    cache = cached((70, 40), 12, 1, 32)
    compare(cache.call(q, is_causal=True), q, cache, True)
    compare(cache.call(q, is_causal=True, window=(20, 0)), q, cache, True, (20, 0))


@pytest.mark.parametrize("name", ["64 x 64", "128 x 64", "warps share queries, cluster of 2"])
def test_other_tiles(name: str) -> None:
    q, cache = draw.seeded(5).normal(1, 2, 3, 32).half(), cached((150,), 16, 1, 32)
    given = q, *cache[:4], False, None, None, *cache[4:]
    compare(by(name, "attention_paged", *given), q, cache)


def test_strides() -> None:
    """Keys and values that are parts of one tensor, and scales that are parts of another."""
    cache = cached((50,), 16, 2, 32)
    both = torch.stack((cache.key, cache.value), 2)
    scales = torch.stack((cache.key_scale, cache.value_scale), -1)
    q = draw.seeded(5).normal(1, 2, 1, 32).half()
    views = Cache(both[:, :, 0], both[:, :, 1], *cache[2:4], scales[..., 0], scales[..., 1])
    compare(views.call(q), q, cache)


def test_large_and_small_values() -> None:
    """Scales of values far from 1 leave the weights of float16 their bits."""
    q, cache = draw.seeded(5).normal(1, 1, 1, 32).half(), cached((90,), 16, 1, 32)
    for factor in (1e-4, 300.0):
        scaled = cache._replace(value_scale=cache.value_scale * factor)
        compare(scaled.call(q), q, scaled)


def test_fake_tensors() -> None:
    cache = cached((8,), 8, 1, 16)
    given = [x.to("meta") for x in (torch.zeros(1, 1, 1, 16).half(), *cache)]
    made = torch.ops.weft.attention_paged(*given[:5], False, None, None, *given[5:])
    assert made.shape == (1, 1, 1, 16) and made.dtype is HALF


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"key_scale": None}, "key_scale must be float32"),
        ({"value_scale": torch.ones(1, 8)}, "value_scale must be float32"),
        ({"value_scale": torch.ones(1, 8, 1).half()}, "value_scale must be float32"),
        ({"value": torch.zeros(1, 8, 1, 16).half()}, "unsupported dtypes"),
        (
            {"key": torch.zeros(1, 8, 1, 16).half(), "value": torch.zeros(1, 8, 1, 16).half()},
            "key_scale is given for keys and values that are not int8",
        ),
        ({"key": torch.zeros(1, 8, 2, 17).to(torch.int8)[..., :16]}, "incompatible shapes"),
        (
            {"key": torch.zeros(1, 8, 1, 17).to(torch.int8)[..., :16]},
            "no whole, aligned vectors of 8 bytes",
        ),
    ],
)
def test_refused(change: dict[str, Any], message: str) -> None:
    cache = cached((8,), 8, 1, 16)._replace(**change)
    with pytest.raises(ArgumentError, match=message):
        cache.call(torch.zeros(1, 1, 1, 16).half())


def test_no_findings() -> None:
    cache = cached((150, 20), 16, 2, 32)
    with weft.sanitize() as session:
        cache.call(draw.seeded(5).normal(2, 4, 1, 32).half())
    assert not session.findings


@pytest.mark.sim
@pytest.mark.parametrize("schedule", ["last", "random:3"])
def test_every_schedule_gives_the_same(schedule: str) -> None:
    q, cache = draw.seeded(5).normal(1, 2, 1, 32).half(), cached((150,), 16, 1, 32)
    plain = cache.call(q)
    with weft.schedule(schedule):
        assert torch.equal(cache.call(q), plain)
