"""Which of wgmma, TMA and tcgen05 each target has, and which of them the compiler uses today: the table of README.md
and docs/targets.md, which python docs/targets_table.py writes anew.

Used is what stands in the PTX of an example: products, reductions and copies of tiles are compiled for every target.
"""

from __future__ import annotations

import re
from pathlib import Path

from tileiras import api
from tileiras.options import GPU_NAMES
from tileiras.targets import target

ROOT = Path(__file__).parents[1]
PAGES = (ROOT / "README.md", ROOT / "docs" / "targets.md")

KERNELS = ("bytecode/matmul_f16.tileirbc", "bytecode/layer_norm.tileirbc", "matmul_f32.mlir", "relu_add_2d.mlir")

INSTRUCTIONS = {
    "`wgmma`": ("wgmma", r"\bwgmma\.mma_async\b"),
    "TMA": ("tma", r"\bcp\.async\.bulk\.tensor\b|\bcp\.reduce\.async\.bulk\.tensor\b"),
    "`tcgen05`": ("tcgen05", r"\btcgen05\.mma\b"),
}
"""Column -> the feature of `tileiras.targets.sm` that a target has, and the PTX that shows its use."""


ELSE = {"`mma.sync`": r"\bmma\.sync\b", "`cp.async`": r"\bcp\.async\.c[ag]\b", "`ldmatrix`": r"\bldmatrix\b"}
"""What else multiplies tiles, and moves them in the background or into fragments."""


def rows() -> list[str]:
    """The lines of the table."""
    found = [f"| GPU | {' | '.join(INSTRUCTIONS)} | besides |", "|---" * (len(INSTRUCTIONS) + 2) + "|"]
    for name in GPU_NAMES:
        ptx = "".join(api.compile(ROOT / "examples" / kernel, gpu_name=name).text for kernel in KERNELS)
        cells = []
        for feature, pattern in INSTRUCTIONS.values():
            has = target(name).has(feature)
            cells.append("used" if re.search(pattern, ptx) else "not yet" if has else "no")
        besides = [word for word, pattern in ELSE.items() if re.search(pattern, ptx)]
        found.append(f"| {name} | {' | '.join(cells)} | {', '.join(besides)} |")
    return found


def page(text: str, table: list[str]) -> str:
    """The text with the table, between `<!-- instructions -->` and `<!-- end -->`."""
    lines = "\n".join(table)
    return re.sub(r"(<!-- instructions -->\n).*?(<!-- end -->)", rf"\g<1>\n{lines}\n\n\2", text, flags=re.DOTALL)


if __name__ == "__main__":
    table = rows()
    for path in PAGES:
        path.write_text(page(path.read_text(encoding="utf-8"), table), encoding="utf-8")
