"""The command that installs an optional part of weft; errors about missing packages show it."""

from __future__ import annotations

import os
import re

DISTRIBUTION = "weft-gpu"
"""The name on PyPI, where `weft` belongs to another project."""


def pip_install(extra: str) -> str:
    """Return the command that installs an optional part of weft, from where weft came from."""
    return f"pip install '{_origin()}[{extra}]'"


def _origin() -> str:
    """The source tree that weft runs from or was installed from, or its name on PyPI."""
    site = os.path.dirname(os.path.dirname(os.path.abspath(__file__)))
    tree = os.path.dirname(site)
    if os.path.basename(site) == "src" and os.path.isfile(os.path.join(tree, "pyproject.toml")):
        return tree
    # pip leaves the address of what it did not take from an index.
    prefix = DISTRIBUTION.replace("-", "_") + "-"
    for name in os.listdir(site) if os.path.isdir(site) else ():
        record = os.path.join(site, name, "direct_url.json")
        if name.startswith(prefix) and os.path.isfile(record):
            with open(record, encoding="utf-8") as file:
                address = re.search(r'"url": *"file://([^"]+)"', file.read())
            if address:
                return re.sub(r"%(..)", lambda m: chr(int(m[1], 16)), address[1])
    return DISTRIBUTION
