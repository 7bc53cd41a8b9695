"""The tables of targets, written by python docs/targets_table.py: limits and drivers in docs/targets.md, and there and
in README.md which of wgmma, TMA and tcgen05 each family of targets has, and which of them the compiler uses today.

Used is what stands in the PTX of an example: products, reductions and copies of tiles are compiled for every target,
by default and with tensor maps, which launchers have to fill.
"""

from __future__ import annotations

import re
from pathlib import Path

from tileiras import api
from tileiras.options import GPU_NAMES
from tileiras.targets import TARGETS, target
from tileiras.targets.drivers import DRIVERS
from tileiras.targets.sm import TYPES

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


MAPS = "with `tensor-maps=host`"


def rows() -> list[str]:
    """The lines of the table, one for each family of GPUs with the same instructions."""
    families: dict[str, list[str]] = {}
    for name in GPU_NAMES:
        default, maps = ptx(name, "auto"), ptx(name, "host")
        cells = []
        for feature, pattern in INSTRUCTIONS.values():
            used = "used" if re.search(pattern, default) else MAPS if re.search(pattern, maps) else "not yet"
            cells.append(used if target(name).has(feature) else "no")
        besides = [word for word, pattern in ELSE.items() if re.search(pattern, default)]
        families.setdefault(f"{' | '.join(cells)} | {', '.join(besides)}", []).append(name)
    head = [f"| GPU | {' | '.join(INSTRUCTIONS)} | besides |", "|---" * (len(INSTRUCTIONS) + 2) + "|"]
    return head + [f"| {', '.join(names)} | {cells} |" for cells, names in families.items()]


def ptx(gpu_name: str, tensor_maps: str) -> str:
    """The PTX of all examples."""
    compiled = (
        api.compile(ROOT / "examples" / kernel, gpu_name=gpu_name, tensor_maps=tensor_maps) for kernel in KERNELS
    )
    return "".join(artifact.text for artifact in compiled)


def limits() -> list[str]:
    """The lines of the table of limits."""
    result = [
        "| GPU | lowest PTX | shared memory of a CTA, of an SM | threads, CTAs of an SM | cluster | narrow types |",
        "|---|---|---|---|---|---|",
    ]
    for name in GPU_NAMES:
        row = target(name)
        forms = {letter: TARGETS[name + letter].ptx for letter in "af" if name + letter in TARGETS}
        versions = ["{}.{}".format(*row.ptx)]
        versions += ["`{}` {}.{}".format(letter, *ptx) for letter, ptx in forms.items() if ptx != row.ptx]
        types = " ".join(f"`{type}`" for type, requirement in TYPES.items() if row.meets(requirement))
        shared = f"{row.shared_per_cta // 1024}, {row.shared_per_sm // 1024} KB"
        cluster = str(row.max_cluster) if row.max_cluster > 1 else ""
        cells = (name, ", ".join(versions), shared, f"{row.threads}, {row.ctas}", cluster, types)
        result.append(f"| {' | '.join(cells)} |".replace("|  |", "| |").replace("|  |", "| |"))
    return result


def drivers() -> list[str]:
    """The lines of the table of drivers: CUDA releases, of PTX versions that a target of the compiler may need."""
    result = ["| PTX | first driver | branch |", "|---|---|---|"]
    for row in DRIVERS:
        branch = "" if row.branch is None else f" r{row.branch} "
        result.append("| {}.{} | CUDA {}.{} |{}|".format(*row.ptx, *row.cuda, branch or " "))
    return result


def page(text: str, tables: dict[str, list[str]]) -> str:
    """The text with the tables that it has, each between `<!-- NAME -->` and `<!-- end -->`."""
    for name, table in tables.items():
        lines = "\n".join(table)
        text = re.sub(rf"(<!-- {name} -->\n).*?(<!-- end -->)", rf"\g<1>\n{lines}\n\n\2", text, flags=re.DOTALL)
    return text


if __name__ == "__main__":
    tables = {"limits": limits(), "instructions": rows(), "drivers": drivers()}
    for path in PAGES:
        path.write_text(page(path.read_text(encoding="utf-8"), tables), encoding="utf-8")
