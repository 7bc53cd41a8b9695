"""The one part of the metadata that pyproject.toml cannot state: README.md as the long description of the package.

Links to pages of the repository lead nowhere outside of it.  They become absolute where `project.urls` names the
repository (`Source`), and plain text otherwise.
"""

import re
import tomllib
from pathlib import Path

from setuptools import setup

HERE = Path(__file__).resolve().parent
LINK = re.compile(r"\[([^]]+)\]\((?!https?:|#)([^)]+)\)")


def long_description(text: str, source: str | None) -> str:
    """Markdown without relative links; `source` is the address of the repository's files, or None."""
    if source is None:
        pages = {link[2]: link[2].partition("#")[0] for link in LINK.finditer(text)}
        return LINK.sub(lambda link: link[1] if link[1] == link[2] else f"{link[1]} ({pages[link[2]]})", text)
    return LINK.sub(lambda link: f"[{link[1]}]({source.rstrip('/')}/blob/main/{link[2]})", text)


if __name__ == "__main__":
    project = tomllib.loads((HERE / "pyproject.toml").read_text(encoding="utf-8"))["project"]
    setup(
        long_description=long_description(
            (HERE / "README.md").read_text(encoding="utf-8"), project.get("urls", {}).get("Source")
        ),
        long_description_content_type="text/markdown",
    )
