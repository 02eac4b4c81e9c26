"""Machine code of functions that the drafts of many kernels call: made once, found by name.

A kernel brings the functions that it needs (`weft.ir.outline`). Those that no kernel before it has
brought are compiled together, as a batch, which is kept in the cache and stays in the process. A
name stands for a function's contents, so kernels of any module share it.
"""

from __future__ import annotations

import json
import threading
from collections.abc import Iterable

from weft import cache
from weft.device import jit
from weft.device.version import generator
from weft.ir.outline import Outlined
from weft.ir.shared_functions import callees, declaration

MOST = 5000
"""Functions that the cache's index names, the newest."""

_lock = threading.Lock()
_batches: dict[str, str] = {}
"""The batch that has a function."""
_loaded: dict[str, jit.Library] = {}
"""Batches of this process."""
_kept: list[jit.Library] = []


def provide(outlined: Outlined) -> list[str]:
    """Compiles the functions that are missing; the batches that the kernel needs."""
    with _lock:
        missing = [name for name in outlined.shared if name not in _batches]
        if missing:  # another process may have made them
            index = _index()
            for batch in {index[name] for name in missing if name in index}:
                _load(batch)
            missing = [name for name in missing if name not in _batches]
        if missing:
            _compile(outlined, missing)
        return sorted({_batches[name] for name in outlined.shared})


def load(batches: Iterable[str]) -> bool:
    """Loads batches from the cache; False if one is not there."""
    with _lock:
        return all(batch in _loaded or _load(batch) for batch in batches)


def forget() -> None:
    """As in a new process, which has the cache alone; code that is loaded stays."""
    with _lock:
        _kept.extend(_loaded.values())
        _batches.clear()
        _loaded.clear()


def _compile(outlined: Outlined, missing: list[str]) -> None:
    texts = [outlined.shared[name] for name in missing]
    others = [declaration(text) for name, text in outlined.shared.items() if name not in missing]
    data = jit.compile_object("\n".join([*texts, *others, outlined.common]), draft=True)
    batch = cache.key("shared", generator(), jit.identity(), *missing)
    # What they call is in earlier batches, and is loaded before them.
    called = {name for text in texts for name in callees(text)} - set(missing)
    needs = sorted({_batches[name] for name in called})
    head = json.dumps({"names": missing, "needs": needs}).encode()
    cache.put("sim", batch, len(head).to_bytes(4, "little") + head + data)
    _add(batch, missing, data)
    # A process that adds at the same time loses an entry of the index: its code is made again.
    known = [*_index().items(), *((name, batch) for name in missing)]
    cache.put("sim", _index_key(), json.dumps(dict(known[-MOST:])).encode())


def _index() -> dict[str, str]:
    """The batch of each function that is in the cache."""
    data = cache.get("sim", _index_key())
    index: dict[str, str] = json.loads(data) if data else {}
    return index


def _index_key() -> str:
    return cache.key("shared index", generator(), jit.identity())


def _load(batch: str) -> bool:
    data = cache.get("sim", batch)
    if not data:
        return False
    size = int.from_bytes(data[:4], "little")
    try:
        head = json.loads(data[4 : 4 + size])
        if not all(other in _loaded or _load(other) for other in head["needs"]):
            return False
        _add(batch, head["names"], data[4 + size :])
    except (ValueError, TypeError, KeyError, jit.BadObject):
        return False
    return True


def _add(batch: str, names: list[str], data: bytes) -> None:
    _loaded[batch] = jit.load_library(data, names)
    _batches.update(dict.fromkeys(names, batch))
