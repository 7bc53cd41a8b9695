"""Hooks of mkdocs.yml: pages from outside of docs/, and anchors as GitHub writes them."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

from mkdocs.structure.files import File

ROOT = Path(__file__).parents[1]
OUTSIDE = {"README.md": "index.md", "CHANGELOG.md": "CHANGELOG.md", "CONTRIBUTING.md": "CONTRIBUTING.md"}
"""Page of the root -> its name in the site."""


def slug(heading: str, separator: str) -> str:
    return re.sub(r"[^\w\- ]", "", heading.lower()).replace(" ", separator)


def on_config(config: Any) -> Any:
    config.mdx_configs["toc"] = {"slugify": slug}
    return config


def on_files(files: Any, config: Any) -> Any:
    for page, name in OUTSIDE.items():
        text = (ROOT / page).read_text(encoding="utf-8")
        files.append(File.generated(config, name, content=of_site(text)))
    return files


def of_site(text: str) -> str:
    """A page of the root with links as they are from docs/; those to other files of the root become plain text."""

    def link(match: re.Match[str]) -> str:
        words, target = match[1], match[2]
        if "://" in target or target.startswith("#"):
            return match[0]
        page, anchor = re.fullmatch(r"([^#]*)(#.*)?", target).groups("")
        if page.startswith("docs/"):
            return f"[{words}]({target.removeprefix('docs/')})"
        return f"[{words}]({OUTSIDE[page]}{anchor})" if page in OUTSIDE else words

    return re.sub(r"\[([^]\n]*)\]\(([^)\s]+)\)", link, text)
