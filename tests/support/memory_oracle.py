"""The cost of one access of a warp, computed slowly: sets of addresses, as MEMORY's rules state.

`lanes` maps each lane that takes part to its byte address (global: in the pretended memory, shared:
inside the block's memory, local: inside the thread's).
"""

from __future__ import annotations

from collections import Counter

Lanes = dict[int, int]
MASKS = (0x6F7AB5, 0xBAD5DA)


def _group(address: int) -> tuple[int, ...]:
    return tuple((address >> 7 & mask).bit_count() % 2 for mask in MASKS)


def global_access(lanes: Lanes, width: int) -> dict[str, int]:
    sectors, tags = ({a >> n for a in lanes.values()} for n in (5, 7))
    waves = Counter(_group(line << 7) for line in tags)
    return {
        "requests": 1,
        "threads": len(lanes),
        "sectors": len(sectors),
        "tags": len(tags),
        "tag_wavefronts": max(waves.values()),
        "sectors_ideal": min(len(sectors), -(-len(lanes) * width // 32)),
    }


def global_atomic(lanes: Lanes, width: int, *, cas: bool) -> dict[str, int]:
    left, sectors, tags, waves = dict(sorted(lanes.items())), 0, 0, 0
    unit = 64 if cas else 128
    while left:
        served: dict[tuple[int, ...], int] = {}
        places: set[tuple[tuple[int, ...], int]] = set()
        wave = {}
        for lane, a in left.items():
            g = _group(a)
            first = served.setdefault(g, a // unit)
            fresh = (g, a % 128 // width) not in places
            places.add((g, a % 128 // width))
            if fresh and first == a // unit:
                wave[lane] = a
        sectors += len({a // 32 for a in wave.values()})
        tags += len({a // 128 for a in wave.values()})
        waves += 1
        left = {lane: a for lane, a in left.items() if lane not in wave}
    return {
        "requests": 1, "threads": len(lanes), "sectors": sectors, "tags": tags,
        "tag_wavefronts": waves,
    }  # fmt: skip


def _parts(lanes: Lanes, count: int) -> list[list[int]]:
    size = 32 // count
    parts = [[a for i, a in lanes.items() if i // size == k] for k in range(count)]
    return [p for p in parts if p]


def _deepest(part: list[int], width: int) -> int:
    words = {a // 4 + k for a in part for k in range(max(1, width // 4))}
    return max(Counter(w % 32 for w in words).values())


def shared_access(lanes: Lanes, width: int, *, reads: bool) -> dict[str, int]:
    count = max(1, width // 4)

    def alike(mask: int) -> bool:
        return all(lanes[i] == lanes.get(i ^ mask, lanes[i]) for i in lanes)

    if reads and count > 1 and (alike(1) or alike(2)):
        count //= 2
    parts = _parts(lanes, count)
    waves = sum(_deepest(p, width) for p in parts)
    return {
        "requests": 1,
        "threads": len(lanes),
        "wavefronts": waves,
        "conflicts": waves - len(parts),
        "wavefronts_ideal": min(len(parts), -(-len(lanes) * width // 128)),
    }


def matrix_access(lanes: Lanes) -> dict[str, int]:
    parts = _parts(lanes, 4)
    waves = sum(_deepest(p, 16) for p in parts)
    return {"requests": 1, "wavefronts": waves, "conflicts": waves - len(parts)}


def local_access(lanes: Lanes, width: int) -> dict[str, int]:
    words = max(1, width // 4)
    places = {(a // 4 * 32 + i) * 4 for i, a in lanes.items()}
    return {
        "requests": words,
        "threads": len(lanes),
        "sectors": words * len({p // 32 for p in places}),
        "tags": words * len({p // 128 for p in places}),
    }
