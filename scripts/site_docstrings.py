"""Makes Markdown of weft's docstrings for mkdocstrings, in the way of docs/api.md."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Any

import griffe

sys.path.insert(0, str(Path(__file__).parent))

import api_document


class Markdown(griffe.Extension):
    """Rewrites the docstring of every object: fields become lists, examples blocks of code."""

    def on_object(self, *, obj: griffe.Object, **kwargs: Any) -> None:
        """Rewrite one docstring."""
        if obj.docstring is not None:
            obj.docstring.value = api_document.markdown(obj.docstring.value)
