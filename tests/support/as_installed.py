"""Import weft as users run it: without pytest's rewriting of its assertions.

pytest marks every module of a package that has a plugin. It would parse and compile 700 modules of
weft for a test of one op, and keep the result only where bytecode is written. The import of this
module ends that; the plugin itself is imported before. The attributes of pytest are private: where
they change, modules are rewritten as before.
"""

from __future__ import annotations

import sys

from _pytest.assertion.rewrite import AssertionRewritingHook

for finder in sys.meta_path:
    if isinstance(finder, AssertionRewritingHook):
        getattr(finder, "_must_rewrite", set()).discard("weft")
        getattr(finder, "_marked_for_rewrite_cache", {}).clear()
