"""The pages as a site: every link and anchor leads somewhere, and nothing is loaded from the network."""

from __future__ import annotations

import re
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

pytest.importorskip("mkdocs", reason="needs the extra docs")

ROOT = Path(__file__).parents[1]
LOADED = re.compile(r"<(?:script|link|img|iframe)\b[^>]*\b(?:src|href)=[\"']?(?:https?:)?//[^>]*>")


def build(folder: Path, source: Path = ROOT) -> subprocess.CompletedProcess[str]:
    """`scons docs` into another folder."""
    command = [sys.executable, "-m", "mkdocs", "build", "--site-dir", str(folder)]
    return subprocess.run(command, cwd=source, capture_output=True, text=True)


def test_the_site_is_built_and_loads_nothing_from_elsewhere(tmp_path):
    run = build(tmp_path / "site")
    assert run.returncode == 0, run.stderr
    pages = {page.relative_to(tmp_path / "site").as_posix(): page.read_text() for page in tmp_path.rglob("*.html")}
    sources = [path.relative_to(ROOT / "docs").with_suffix(".html") for path in (ROOT / "docs").rglob("*.md")]
    assert {path.as_posix() for path in sources} <= set(pages)
    assert "An open compiler for" in pages["index.html"] and "<table" in pages["index.html"]
    assert [match for text in pages.values() for match in LOADED.findall(text)] == []


@pytest.mark.parametrize("link", ["no-such-page.md", "glossary.md#no-such-heading"])
def test_a_link_that_leads_nowhere_fails_the_build(tmp_path, link):
    (tmp_path / "docs").mkdir()
    shutil.copy(ROOT / "docs/site_hook.py", tmp_path / "docs")
    config = (ROOT / "mkdocs.yml").read_text(encoding="utf-8").partition("\nnav:")[0]
    (tmp_path / "mkdocs.yml").write_text(config, encoding="utf-8")
    for name in ("README.md", "CHANGELOG.md", "CONTRIBUTING.md", "docs/glossary.md"):
        (tmp_path / name).write_text("# Terms\n\n[up](#terms)\n", encoding="utf-8")
    assert build(tmp_path / "site", tmp_path).returncode == 0
    (tmp_path / "docs/glossary.md").write_text(f"# Terms\n\n[a page]({link})\n", encoding="utf-8")
    run = build(tmp_path / "site", tmp_path)
    assert run.returncode != 0 and link.partition("#")[2] in run.stderr
