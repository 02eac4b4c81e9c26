"""An opcode resolved to its row: the meaning of its words by name."""

from __future__ import annotations

import functools
from collections.abc import Mapping

from weft.ptx.isa.columns import GENERIC, Ordering, Participants, ResultForm
from weft.ptx.isa.row import InstructionRow
from weft.ptx.model import SIZES
from weft.records import dataclass

_DIMENSIONS = ("1d", "2d", "3d", "4d", "5d")
_STATE_SPACES = ("global", "shared", "local", "param", "const")


@dataclass(frozen=True)
class Decoded:
    """An opcode resolved to its row; the properties name what its words say.

    words   the word of each modifier of the row; "" for one that is left out
    types   the type of each operand
    parts   all words of the opcode
    """

    row: InstructionRow
    words: Mapping[str, str]
    types: Mapping[str, str]
    parts: tuple[str, ...]

    @property
    def type(self) -> str:
        """The last word, which is the type of most opcodes."""
        return self.parts[-1]

    @functools.cached_property
    def space(self) -> str:
        """The state space: `global`, `shared`, `local`, `param`, `const`, or `generic`."""
        named = {word.partition("::")[0] for word in self.parts[1:]}
        return next((space for space in _STATE_SPACES if space in named), GENERIC)

    @functools.cached_property
    def elements(self) -> int:
        """The number of elements of a vector access: 2 for `.v2`, 1 without such a word."""
        return next((int(p[1:]) for p in self.parts if p in ("v2", "v4", "v8")), 1)

    @functools.cached_property
    def vector_length(self) -> int:
        """The length of a vector operand: 2 for `.v2`, 4 for `.x4`, 0 without such a word."""
        words = ("v2", "v4", "v8", "x1", "x2", "x4")
        return next((int(p[1:]) for p in self.parts if p in words), 0)

    @functools.cached_property
    def lane_bytes(self) -> int:
        """Bytes that one lane accesses; 1 if no word is a type."""
        return self.elements * next((SIZES[p] for p in reversed(self.parts) if p in SIZES), 1)

    @property
    def operation(self) -> str:
        """The operation of an atomic, an mbarrier, or a comparison with a third operand."""
        return self.words.get("op", "")

    @property
    def comparison(self) -> str:
        """The comparison of `setp` and `set`: `lt`, `ne`, ..."""
        return self.words.get("cmp", "")

    @property
    def mode(self) -> str:
        """The mode of a shuffle: `up`, `down`, `bfly` or `idx`."""
        return self.words.get("mode", "")

    @property
    def order(self) -> str:
        """The memory order: `relaxed`, `acquire`, `volatile`, ..."""
        return self.words.get("order", "")

    @property
    def scope(self) -> str:
        """The scope of an ordered access or a fence: `cta`, `gpu`, ...; `level` of a membar."""
        return self.words.get("scope", "") or self.words.get("level", "")

    @property
    def rounding(self) -> str:
        """The rounding mode of an arithmetic instruction."""
        return self.words.get("rnd", "")

    @property
    def ftz(self) -> bool:
        """True if denormals are flushed to zero."""
        return bool(self.words.get("ftz"))

    @property
    def sat(self) -> bool:
        """True if the result is clamped."""
        return bool(self.words.get("sat"))

    @property
    def wide(self) -> bool:
        """True for a product twice as wide as its factors."""
        return self.row.form in (ResultForm.WIDE_PRODUCT, ResultForm.WIDE_PRODUCT_SUM)

    @property
    def cache_operator(self) -> str:
        """The cache operator: `ca`, `cg`, `cv`, ..."""
        return self.words.get("cop", "")

    @property
    def has_cache_hint(self) -> bool:
        """True if the last operand is a cache policy."""
        return self.words.get("l2") == "L2::cache_hint"

    @functools.cached_property
    def is_read_only(self) -> bool:
        """True for a load through the read-only cache: `.nc`."""
        return "nc" in self.parts

    @functools.cached_property
    def is_bulk(self) -> bool:
        """True for bulk copies, and for what commits and awaits them."""
        return "bulk" in self.parts

    @functools.cached_property
    def fences_async_proxy(self) -> bool:
        """True for `fence.proxy.async`, which orders accesses of threads and asynchronous ones."""
        return self.row.ordering is Ordering.PROXY_FENCE and "async" in self.parts

    @functools.cached_property
    def fences_products(self) -> bool:
        """True for `wgmma.fence`, which orders accesses to registers of products."""
        return self.row.base == "wgmma" and "fence" in self.parts

    @functools.cached_property
    def is_tensor(self) -> bool:
        """True for copies whose addresses are those of a tensor map."""
        return "tensor" in self.parts

    @functools.cached_property
    def dimensions(self) -> int:
        """The rank that a tensor copy names: 3 for `.3d`; 0 without such a word."""
        return next((int(p[0]) for p in self.parts if p in _DIMENSIONS), 0)

    @functools.cached_property
    def by_columns(self) -> bool:
        """True for a tensor copy in one of the im2col modes."""
        return any(p.startswith("im2col") for p in self.parts)

    @functools.cached_property
    def names_peers(self) -> bool:
        """True if it meets other blocks of the cluster, or names them."""
        of_cluster = self.row.participants is Participants.CLUSTER
        return of_cluster or self.row.peers or bool(self.words.get("multicast"))

    @functools.cached_property
    def from_generic(self) -> bool:
        """True for `cvta.to`, which converts generic addresses to those of a space."""
        return "to" in self.parts

    @functools.cached_property
    def kinds(self) -> frozenset[str]:
        """The types of all operands."""
        return frozenset(self.types.values())

    @functools.cached_property
    def source_types(self) -> tuple[str, ...]:
        """The types of the sources that the text of an instruction has, in its order."""
        return tuple(self.types[x.name] for x in self.row.written if not x.is_dest)
