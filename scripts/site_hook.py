"""Gives MkDocs the pages of the site and its menu; `mkdocs.yml` names this file as its hook."""

from __future__ import annotations

import sys
from pathlib import Path

from mkdocs.config.defaults import MkDocsConfig
from mkdocs.structure.files import File, Files

sys.path.insert(0, str(Path(__file__).parent))

import site_pages

import weft


def on_config(config: MkDocsConfig) -> MkDocsConfig:
    """Set the menu, and the version that the foot of each page shows."""
    # MkDocs restores the path after it has loaded a hook; processes that run examples inherit it.
    sys.path.insert(0, str(Path(__file__).parent))
    config.nav = site_pages.nav()
    config.copyright = f"weft {weft.__version__}, Apache-2.0"
    return config


def on_files(files: Files, config: MkDocsConfig) -> Files:
    """Replace the files of docs/ by the pages, in which links lead to pages."""
    documents = Path(config.docs_dir)
    for file in list(files):
        if file.abs_src_path and Path(file.abs_src_path).is_relative_to(documents):
            files.remove(file)
    for place, content in site_pages.pages().items():
        files.append(File.generated(config, place, content=content))
    return files
