"""The reports of the gallery: what the examples of docs/gallery.md write, shown below them."""

from __future__ import annotations

import re
import tempfile
from pathlib import Path

import examples

PAGE = re.compile(r"\b(\w+\.html)\b")


def files(documents: Path) -> dict[str, str | bytes]:
    """Run the examples of the gallery; return the pages that they write."""
    document = documents / "gallery.md"
    with tempfile.TemporaryDirectory() as folder:
        examples.outputs(document, examples.examples(document.read_text("utf-8")), Path(folder))
        written = sorted(Path(folder).glob("*.html"))
        return {f"gallery/{path.name}": path.read_text("utf-8") for path in written}


def framed(text: str) -> str:
    """The text of the gallery, with each page below the example that writes it."""
    parts = re.split(r"(^```\w+\n.*?^```\n)", text, flags=re.S | re.M)
    return "".join(part + _frame(part) for part in parts)


def _frame(part: str) -> str:
    names = PAGE.findall(part) if part.startswith("```") else []
    return "".join(
        f'\n<iframe class="report" src="gallery/{name}" title="{name}" loading="lazy"></iframe>\n\n'
        f"[Open {name}](gallery/{name})\n"
        for name in dict.fromkeys(names)
    )
