"""Every row of the atom tables is well formed, and names an instruction that ptxas accepts on the targets of the
row."""

from __future__ import annotations

import subprocess
from pathlib import Path

import pytest

from tileiras.layout import LinearLayout
from tileiras.targets import TARGETS
from tileiras.targets.atoms.bulk_copies import BULK_COPY_ATOMS
from tileiras.targets.atoms.described import ATOM_TABLES
from tileiras.targets.atoms.rows import CopyAtom, Fragment, MmaAtom, Operand, ScaledMmaAtom, SharedTile, TensorTile
from tileiras.targets.atoms.tcgen05 import COLUMNS, LANES, SCALED_TCGEN05_ATOMS, TCGEN05_ATOMS
from tileiras.targets.atoms.wgmma import WGMMA_ATOMS
from tileiras.targets.requirements import admits

DOTS = [name for name in ATOM_TABLES if "copies" not in name]
WARPS = {"warp": 1, "warpgroup": 4}


def test_names_are_names_of_one_row():
    assert sum(map(len, ATOM_TABLES.values())) == len({name for table in ATOM_TABLES.values() for name in table})


def well_formed(atom: MmaAtom | ScaledMmaAtom, operand: Operand) -> None:
    if isinstance(operand, Fragment):
        layout = LinearLayout.from_coordinates(operand.bases, operand.shape)
        threads = WARPS[atom.executor] * 32
        assert layout.is_surjective and layout.count("lane") * layout.count("warp") == threads
        assert operand.elements % operand.packing == 0
    elif isinstance(operand, SharedTile):
        assert set(operand.majors) == set(operand.atomicity) and operand.bytes >= 16
    else:
        assert operand.columns <= COLUMNS and operand.lanes <= LANES
        ctas = 2 if atom.executor == "elected thread of a CTA pair" else 1
        assert operand.shape[0] * operand.shape[1] * operand.element_bits <= 32 * operand.columns * operand.lanes * ctas


@pytest.mark.parametrize("table", DOTS)
def test_dot_operands_are_in_memory_that_the_executor_reads(table):
    for atom in ATOM_TABLES[table].values():
        check_product(atom)


def check_product(atom: MmaAtom | ScaledMmaAtom) -> None:
    m, n, k = atom.shape
    assert (atom.a.shape, atom.b.shape, atom.c.shape) == ((m, k), (k, n), (m, n))
    for operand in (atom.a, atom.b, atom.c):
        well_formed(atom, operand)
    if isinstance(atom, ScaledMmaAtom):
        assert (atom.scale_a.shape, atom.scale_b.shape) == ((m, k // atom.block), (k // atom.block, n))
    if isinstance(atom.c, Fragment):
        assert LinearLayout.from_coordinates(atom.c.bases, atom.c.shape).is_injective
    assert isinstance(atom.c, TensorTile) == (atom.queue == "tcgen05 commit")


@pytest.mark.parametrize("table", ATOM_TABLES)
def test_rows_state_their_order_and_its_source(table):
    for atom in ATOM_TABLES[table].values():
        check_ordering(atom)


def check_ordering(atom: MmaAtom | ScaledMmaAtom | CopyAtom) -> None:
    assert atom.source.startswith("PTX ISA, ")
    assert any(admits(atom.requires, name) for name in TARGETS)
    if atom.queue is not None:
        assert atom.after, "nothing says when its result is there"
    for ordering in (*atom.before, *atom.after):
        assert ordering.instruction and ordering.when
    if isinstance(atom, CopyAtom) and atom.queue in ("cp.async group", "bulk group"):
        assert atom.commit and atom.wait
    if isinstance(atom, CopyAtom) and atom.queue == "mbarrier transaction":
        assert atom.box is not None and atom.executor == "elected thread"


# ---- messages of ptxas -----------------------------------------------------------------------------------------------


def registers(prefix: str, count: int) -> str:
    return "{" + ", ".join(f"%{prefix}{i}" for i in range(count)) + "}"


def wgmma_line(atom: MmaAtom) -> str:
    in_registers = isinstance(atom.a, Fragment)
    kind = "f" if atom.c.operand_type == "float" else "r"
    line = f"{atom.instruction} {atom.syntax};"
    return line.format(
        d=registers(kind, atom.c.operands), a=registers("a", 4) if in_registers else "%rd0", b="%rd1", scale_d="%p0",
        trans_a=0, trans_b=0,
    )  # fmt: skip


def tcgen05_line(atom: MmaAtom) -> str:
    in_tensor = isinstance(atom.a, TensorTile)
    line = f"{atom.instruction} {atom.syntax};"
    return line.format(d="%r0", a="%r1" if in_tensor else "%rd0", b="%rd1", descriptor="%r2", scale_d="%p0")


def scaled_line(atom: ScaledMmaAtom) -> str:
    a = "[%r1]" if isinstance(atom.a, TensorTile) else "%rd0"
    return f"{atom.instruction} [%r0], {a}, %rd1, %r2, [%r3], [%r4], %p0;"


def copy_line(atom: CopyAtom) -> str:
    words = {
        "rank": 2, "map": "%rd0", "at": "{%r1, %r2}", "rows": "{%r1, %r2, %r3, %r4, %r5}", "barrier": "%r6",
        "bytes": "%r7", "ctas": "%h0", "descriptor": "%rd1", "registers": registers("r", 4), "columns": 4,
        "operation": "add",
    }  # fmt: skip
    place = {"shared": "%r8", "global": "%rd2", "tensor": "%r9", "register": ""}
    words |= {"from": place[atom.origin], "to": place[atom.destination]}
    return f"{atom.instruction}{atom.syntax};".replace("{bytes}", "%r7").format(**words)


def asked_for(requires: str) -> str:
    """The least target of a requirement, in its own form."""
    return f"sm_{requires.lstrip('=').split(',')[0]}"


def lines() -> dict[tuple[str, int], set[str]]:
    """(target, CTAs) -> the instructions of the rows that it must have.  ptxas refuses a function that uses tcgen05
    with one CTA and with a pair."""
    result: dict[tuple[str, int], set[str]] = {}
    rows = [(atom, wgmma_line(atom)) for atom in WGMMA_ATOMS.values()]
    rows += [(atom, tcgen05_line(atom)) for atom in TCGEN05_ATOMS.values()]
    rows += [(atom, scaled_line(atom)) for atom in SCALED_TCGEN05_ATOMS.values()]
    rows += [(atom, copy_line(atom)) for atom in BULK_COPY_ATOMS.values()]
    for atom, line in rows:
        ctas = 2 if atom.executor == "elected thread of a CTA pair" else 1
        result.setdefault((asked_for(atom.requires), ctas), set()).add(line)
    return result


def module(target: str, body: list[str]) -> str:
    return f""".version 8.8
.target {target}
.address_size 64
.visible .entry k() .reqntid 128
{{
.reg .pred %p<1>; .reg .b16 %h<1>; .reg .b32 %r<128>; .reg .b32 %a<4>; .reg .f32 %f<128>; .reg .b64 %rd<3>;
setp.eq.u32 %p0, %r0, %r0;
{chr(10).join(body)}
ret;
}}
"""


def assemble(ptxas: str, tmp_path: Path, target: str, body: list[str]) -> subprocess.CompletedProcess[str]:
    (tmp_path / "k.ptx").write_text(module(target, body))
    command = [ptxas, f"-arch={target}", str(tmp_path / "k.ptx"), "-o", str(tmp_path / "k.cubin")]
    return subprocess.run(command, capture_output=True, text=True)


@pytest.mark.parametrize(("target", "ctas"), sorted(lines()))
def test_ptxas_takes_every_instruction_of_a_target(ptxas, tmp_path, target, ctas):
    done = assemble(ptxas, tmp_path, target, sorted(lines()[target, ctas]))
    assert done.returncode == 0, done.stderr[:2000]


@pytest.mark.parametrize(
    ("line", "target"),
    [
        (wgmma_line(WGMMA_ATOMS["wgmma_m64n64k16_f32_f16_f16_ss"]), "sm_90"),
        (wgmma_line(WGMMA_ATOMS["wgmma_m64n64k16_f32_f16_f16_ss"]), "sm_100a"),
        (tcgen05_line(TCGEN05_ATOMS["tcgen05_m128n64k16_f32_f16_f16_ss"]), "sm_120a"),
        (tcgen05_line(TCGEN05_ATOMS["tcgen05_m128n64k32_i32_s8_s8_ss"]), "sm_103a"),
        (copy_line(BULK_COPY_ATOMS["tma_gather4"]), "sm_90a"),
        (copy_line(BULK_COPY_ATOMS["tma_load"]), "sm_80"),
    ],
)
def test_and_refuses_them_where_the_row_does_not_admit_them(ptxas, tmp_path, line, target):
    assert assemble(ptxas, tmp_path, target, [line]).returncode != 0
