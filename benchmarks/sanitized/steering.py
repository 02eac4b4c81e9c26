"""Steers calls of `weft.ops` to all kernels, and records the kernels that they reach.

The cost models choose among few kernels for small tensors. `Steering` chooses the candidate that
was used least instead, or one that was chosen before, and notes the kernels of every plan.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import Any

from weft.kernels import Kernel
from weft.ops.core import choose, function, library, source
from weft.ops.core.choose import Candidate, Choice, Request

_BOUNDS = re.compile(r"__launch_bounds__(\((?:[^()]|\((?:[^()]|\([^()]*\))*\))*\))")
_COMMENT = re.compile(r"//[^\n]*")
_GLOBAL = re.compile(r"__global__[\s\w]*?(\w+)\s*\(")


def every_kernel() -> list[str]:
    """All kernels of the library as "file name", e.g. "softmax/forward.cu rows"."""
    found = []
    for file, path in source.sources().items():
        text = _BOUNDS.sub("", _COMMENT.sub("", path.read_text(encoding="utf-8")))
        found += [f"{file} {name}" for name in _GLOBAL.findall(text)]
    return found


_IN_HEADERS = {k.partition(" ")[2]: k for k in every_kernel() if ".cuh " in k}


def kernel_of(file: str, instance: str) -> str:
    """The kernel of an instance, as `every_kernel` writes it; some are in headers of the file."""
    name = instance.partition("<")[0]
    return _IN_HEADERS.get(name, f"{file} {name}")


class Steering:
    """Chooses kernels, and notes which are used.

    kernels  instances of kernels that plans have: (file, name with template arguments)
    chosen   the candidates of the requests since the last `forget`: key of a request -> name
    fresh    True if a request had a kind of candidate that no call has used, and did not get it
    """

    def __init__(self) -> None:
        self.kernels: set[tuple[str, str]] = set()
        self.chosen: dict[str, str] = {}
        self.fresh = False
        self._used: Counter[tuple[str, str]] = Counter()
        self._given: Mapping[str, str] = {}

    @contextmanager
    def active(self) -> Iterator[None]:
        """Every op chooses as `choose` does here."""
        before, kernel = function.choose, source.kernel

        def noted(file: str, name: str, **defines: str) -> Kernel:
            self.kernels.add((file, name))
            return kernel(file, name, **defines)

        made: Any = noted
        function.choose, source.kernel = self.choose, made
        try:
            yield
        finally:
            function.choose, source.kernel = before, kernel

    def forget(self, given: Mapping[str, str] | None = None) -> None:
        """Let the next call of every op choose again: as given, or what was used least."""
        self.kernels, self.chosen, self.fresh = set(), {}, False
        self._given = given or {}
        for name in library.definitions():
            library.function(name).forget()

    def choose(self, request: Request, candidates: Sequence[Candidate]) -> Choice:
        """The candidate of this name, else the least used: by kind, then sizes, then cost."""
        if len(candidates) < 2:
            return choose.choose(request, candidates)
        name = self._given.get(request.key(), "")

        def rank(c: Candidate) -> tuple[bool, int, int, float]:
            uses = (self._used[request.op, n] for n in (_kind(c), c.name))
            return c.name != name, *uses, c.cost

        used, *others = sorted(candidates, key=rank)
        self.chosen[request.key()] = used.name
        for n in {used.name, _kind(used)}:
            self._used[request.op, n] += 1
        self.fresh |= any(not self._used[request.op, _kind(c)] for c in others)
        return Choice(used, tuple(others), False)


def _kind(candidate: Candidate) -> str:
    """The name of a candidate without its sizes."""
    return re.sub(r"\d+", "#", candidate.name)
