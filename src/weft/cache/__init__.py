"""The disk cache of compiled PTX and machine code, shared by all processes of a user.

    data = cache.get("sim", cache.key(*parts))      None when it is not there
    cache.put("sim", cache.key(*parts), data)

Nothing here raises for a full disk or a read-only home; `status()` reports the problem. Entries are
code that this user executes, so a folder that others can modify is rejected with one warning
(private.py), and every entry is authenticated (entries.py).
"""

from weft.cache.entries import get, put
from weft.cache.folders import directory, folder
from weft.cache.keys import key
from weft.cache.upkeep import LIMIT, CacheStatus, Usage, clear, prune, status, warn_if_unusable

__all__ = [
    "LIMIT",
    "CacheStatus",
    "Usage",
    "clear",
    "directory",
    "folder",
    "get",
    "key",
    "prune",
    "put",
    "status",
    "warn_if_unusable",
]
