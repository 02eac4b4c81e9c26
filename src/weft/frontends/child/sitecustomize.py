"""Simulates the GPU in Python processes that a script starts, such as the workers of DDP.

Python imports the first `sitecustomize` on its path when it starts. `weft run` puts this folder in
front of PYTHONPATH. The environment's own `sitecustomize` is imported afterwards.
"""

from __future__ import annotations

import importlib.machinery
import importlib.util
import json
import os
import sys

_here = os.path.dirname(os.path.abspath(__file__))
sys.path[:] = [entry for entry in sys.path if entry != _here]
_options = os.environ.get("WEFT_SCRIPT")
if _options:
    from weft.frontends import script

    script.install(script.ScriptOptions(*json.loads(_options)))
# `import sitecustomize` would find this module, which is being imported.
_spec = importlib.machinery.PathFinder.find_spec("sitecustomize", sys.path)
if _spec is not None and _spec.loader is not None:
    _spec.loader.exec_module(importlib.util.module_from_spec(_spec))
