"""Machine code of functions that the drafts of many kernels call: made once, found by name.

A kernel brings the functions that it needs (`weft.ir.outline`): first the helpers of its module,
then outlined instructions. Those that no kernel before it has brought are compiled together, as a
batch, which is kept in the cache. A name stands for a function's contents, so kernels of any module
share it. A batch stays in the process as long as a kernel calls it, or until others were used more
recently.
"""

from __future__ import annotations

import json
import os
import threading
import weakref
from collections import OrderedDict
from collections.abc import Iterable

from weft import cache
from weft.device import jit
from weft.device.version import generator
from weft.ir.outline import Outlined
from weft.ir.shared_functions import callees, declaration

MOST = 5000
"""Functions that the cache's index names, the newest."""

RECENT = 128
"""The number of batches that are retained although no kernel may need them."""

_lock = threading.Lock()
_batches: dict[str, str] = {}
"""The batch of a function; it may have been freed."""
_loaded: weakref.WeakValueDictionary[str, jit.LoadedLibrary] = weakref.WeakValueDictionary()
"""Batches of this process."""
_recent: OrderedDict[str, jit.LoadedLibrary] = OrderedDict()


def provide(outlined: Outlined) -> dict[str, jit.LoadedLibrary]:
    """Compile the missing functions; return the batches that the kernel needs."""
    with _lock:
        found = _find(outlined.shared)
        if missing := [name for name in outlined.shared if name not in found]:
            index = _index()  # another process may have made them
            for batch in {index[name] for name in missing if name in index}:
                _load(batch)
            found = _find(outlined.shared)
            missing = [name for name in missing if name not in found]
        if missing:
            _compile(outlined, missing, found)
        return {_batches[name]: found[name] for name in sorted(found)}


def load(batches: Iterable[str]) -> list[jit.LoadedLibrary] | None:
    """Load batches from the cache; None if one is not there."""
    with _lock:
        libraries = [_load(batch) for batch in batches]
    whole = [library for library in libraries if library is not None]
    return whole if len(whole) == len(libraries) else None


def forget() -> None:
    """Reset to the state of a new process; kernels keep the code that they call."""
    with _lock:
        _batches.clear()
        _loaded.clear()
        _recent.clear()


def _find(names: Iterable[str]) -> dict[str, jit.LoadedLibrary]:
    """The batches of those functions that are loaded."""
    found = {name: _loaded.get(_batches.get(name, "")) for name in names}
    return {name: library for name, library in found.items() if library is not None}


def _compile(outlined: Outlined, missing: list[str], found: dict[str, jit.LoadedLibrary]) -> None:
    """Add the missing functions to those that were found."""
    texts = [outlined.shared[name] for name in missing]
    others = [declaration(text) for name, text in outlined.shared.items() if name not in missing]
    data = jit.compile_object("\n".join([*texts, *others, outlined.common]), draft=True)
    batch = cache.key("shared", generator(), jit.identity(), *missing)
    # What they call is in earlier batches, and is loaded before them.
    called = {name for text in texts for name in callees(text)} - set(missing)
    needs = {_batches[name]: found[name] for name in sorted(called)}
    head = json.dumps({"names": missing, "needs": list(needs)}).encode()
    cache.put("sim", batch, len(head).to_bytes(4, "little") + head + data)
    library = _add(batch, missing, data, list(needs.values()))
    found.update(dict.fromkeys(missing, library))
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


def _load(batch: str) -> jit.LoadedLibrary | None:
    """A batch that is loaded, or in the cache."""
    if (library := _loaded.get(batch)) is not None:
        return _used(batch, library)
    data = cache.get("sim", batch)
    if not data:
        return None
    size = int.from_bytes(data[:4], "little")
    try:
        head = json.loads(data[4 : 4 + size])
        needs = [_load(other) for other in head["needs"]]
        whole = [library for library in needs if library is not None]
        if len(whole) < len(needs):
            return None
        return _add(batch, head["names"], data[4 + size :], whole)
    except (ValueError, TypeError, KeyError, jit.BadObject):
        return None


def _add(
    batch: str, names: list[str], data: bytes, needs: list[jit.LoadedLibrary]
) -> jit.LoadedLibrary:
    library = _loaded[batch] = jit.load_library(data, names, needs)
    _batches.update(dict.fromkeys(names, batch))
    if len(_batches) > MOST:
        for name in [name for name, held in _batches.items() if held not in _loaded]:
            del _batches[name]
    return _used(batch, library)


def _used(batch: str, library: jit.LoadedLibrary) -> jit.LoadedLibrary:
    _recent[batch] = library
    _recent.move_to_end(batch)
    while len(_recent) > RECENT:
        _recent.popitem(last=False)
    return library


def _new_lock() -> None:
    """Replace the lock in a child of `fork`: a thread of the parent may hold it."""
    global _lock
    _lock = threading.Lock()


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_new_lock)
