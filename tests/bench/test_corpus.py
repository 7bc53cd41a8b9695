"""`bench corpus` on a library of one file: it is captured without its dependencies, compiled and judged."""

import hashlib
import sys

import pytest

pytest.importorskip("cuda.tile")

from bench import corpus  # noqa: E402
from bench.corpus_table import KERNELS, Kernel  # noqa: E402

LIBRARY = """\
import absent_package as other
import cuda.tile as ct
import torch
from absent_package.deeper import register
from torch.nn import Module

from .helpers import doubled


class Layer(Module):
    dtype = torch.float32


@register("twice", backend=other.backend)
def host(x: torch.Tensor | None):
    return x


@ct.kernel
def twice(x, y, TILE: ct.Constant[int]):
    ct.store(y, (ct.bid(0),), doubled(ct.load(x, (ct.bid(0),), (TILE,))).astype(torch.float16))
"""

HELPERS = "def doubled(tile):\n    return tile + tile\n"


@pytest.fixture
def sources(tmp_path, monkeypatch):
    folder = tmp_path / "library" / "src" / "one_library" / "ops"
    folder.mkdir(parents=True)
    (folder.parent / "__init__.py").write_text("raise ImportError('packages are not executed')\n")
    (folder / "file.py").write_text(LIBRARY)
    (folder / "helpers.py").write_text(HELPERS)
    digest = hashlib.sha256(LIBRARY.encode()).hexdigest()[:16]
    row = Kernel("owner/library", "0" * 40, "src/one_library/ops/file.py", digest, "twice", ("f16[?]", "f16[?]", 256))
    monkeypatch.setattr(corpus, "KERNELS", (row, row._replace(digest="0" * 16, name="absent")))
    before = set(sys.modules)
    yield tmp_path
    for name in set(sys.modules) - before:
        if name.partition(".")[0] in ("absent_package", "one_library", "torch"):
            del sys.modules[name]


def test_a_kernel_is_captured_compiled_and_judged(sources, ptxas, capsys):
    words = ["--sources", str(sources), "--targets", "sm_80,sm_90", "--budget", "2"]
    assert corpus.main(words) == 1  # the second kernel does not exist
    lines = capsys.readouterr().out.splitlines()[2:]
    cells = [[cell.strip() for cell in line.strip("|").split("|")] for line in lines]
    assert [(row[0], row[1]) for row in cells] == [
        ("library: twice", "sm_80"), ("library: twice", "sm_90"), ("library: absent (another version)", ""),
    ]  # fmt: skip
    assert all(" s" in row[2] for row in cells[:2]) and cells[1][4] == "right"
    assert cells[2][2].startswith("not captured: AttributeError")


def test_rows_name_commits_digests_and_files():
    for kernel in KERNELS:
        assert len(kernel.commit) == 40 and len(kernel.digest) == 16 and kernel.path.endswith(".py")
        assert kernel.repository.count("/") == 1
