"""Texts as tokens: bytes, or byte pair encoding (Sennrich et al., 2016) learned from the text."""

from __future__ import annotations

import functools
import re
from collections import Counter, defaultdict
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from itertools import pairwise

import numpy as np

from weft.errors import ArgumentError

BYTES = 256
"""Tokens that are single bytes."""
MOST = 65536
"""The largest vocabulary: learning is in Python."""
KINDS = ("bytes", "bpe")
WORD = re.compile(rb" ?[A-Za-z\x80-\xff]+| ?[0-9]+|\s+| ?[^A-Za-z0-9\x80-\xff\s]+")
"""Pairs are joined inside of words, so that a token has a meaning."""
Pair = tuple[int, int]


@dataclass(frozen=True)
class Tokens:
    """A vocabulary: the bytes, and one more token for each pair of `merges`, in their order."""

    merges: tuple[Pair, ...] = ()

    @property
    def count(self) -> int:
        """The size of the vocabulary."""
        return BYTES + len(self.merges)

    def encode(self, text: bytes) -> np.ndarray[tuple[int], np.dtype[np.int64]]:
        """The tokens of a text."""
        if not self.merges:
            return np.frombuffer(text, np.uint8).astype(np.int64)
        ranks = {pair: rank for rank, pair in enumerate(self.merges)}
        encoded = functools.cache(lambda word: _joined(word, ranks))
        found = [token for word in WORD.findall(text) for token in encoded(word)]
        return np.asarray(found, np.int64)

    def decode(self, tokens: Iterable[int]) -> bytes:
        """The text of tokens."""
        return b"".join(self._texts[token] for token in tokens)

    @functools.cached_property
    def _texts(self) -> list[bytes]:
        texts = [bytes([n]) for n in range(BYTES)]
        for first, second in self.merges:
            texts.append(texts[first] + texts[second])
        return texts


def learned(kind: str, vocabulary: int, text: bytes) -> Tokens:
    """The vocabulary of a text: its bytes, or with the pairs that are most often together."""
    if kind not in KINDS:
        raise ArgumentError("there are no such tokens", got=kind, allowed=", ".join(KINDS))
    if kind == "bytes":
        return Tokens()
    if not BYTES < vocabulary <= MOST:
        raise ArgumentError(
            "a vocabulary of byte pairs has more tokens than bytes",
            got=str(vocabulary),
            allowed=f"{BYTES + 1} to {MOST}",
        )
    return Tokens(tuple(_merges(text, vocabulary - BYTES)))


def _merges(text: bytes, most: int) -> list[Pair]:
    """The pairs to join, the most frequent first; fewer than `most` if no pair is left twice.

    Of pairs that are as frequent, the lesser one comes first: a text has one vocabulary.
    """
    counted = Counter(WORD.findall(text))
    words = [list(word) for word in counted]
    counts = list(counted.values())
    pairs: Counter[Pair] = Counter()
    places: defaultdict[Pair, set[int]] = defaultdict(set)
    for number, word in enumerate(words):
        for pair in pairwise(word):
            pairs[pair] += counts[number]
            places[pair].add(number)
    found: list[Pair] = []
    while len(found) < most and pairs:
        best = min(pairs, key=lambda p: (-pairs[p], p))
        if pairs[best] < 2:
            break
        found.append(best)
        for number in places.pop(best):
            before, after = words[number], _replaced(words[number], best, BYTES + len(found) - 1)
            for pair in pairwise(before):
                pairs[pair] -= counts[number]
            for pair in pairwise(after):
                pairs[pair] += counts[number]
                places[pair].add(number)
            words[number] = after
        pairs = +pairs  # those that are left
    return found


def _replaced(word: Sequence[int], pair: Pair, token: int) -> list[int]:
    """A word in which a token stands for each pair."""
    made: list[int] = []
    n = 0
    while n < len(word):
        if n + 1 < len(word) and (word[n], word[n + 1]) == pair:
            made.append(token)
            n += 2
        else:
            made.append(word[n])
            n += 1
    return made


def _joined(word: bytes, ranks: dict[Pair, int]) -> list[int]:
    """The tokens of a word: pairs are joined in the order in which they were learned."""
    tokens = list(word)
    while len(tokens) > 1:
        last = len(ranks)
        rank, pair = min((ranks.get(p, last), p) for p in pairwise(tokens))
        if rank == last:
            break
        tokens = _replaced(tokens, pair, BYTES + rank)
    return tokens
