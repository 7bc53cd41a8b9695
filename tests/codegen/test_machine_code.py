"""Machine code read back from cubins: control words, blocks, lines, and resources of an entry."""

import re

import pytest

import tileiras
from tests.machine_code import needs_tools
from tileiras.codegen import nvdisasm, output_store, ptxas
from tileiras.codegen.machine_code import INSTRUCTION_BYTES, listing, read
from tileiras.codegen.object_file import Cubin, ObjectFile
from tileiras.diagnostics import CompileError

pytestmark = needs_tools

DOTS = ("HMMA", "HGMMA", "UTCHMMA")
TARGETS = ("sm_75", "sm_80", "sm_89", "sm_90", "sm_100", "sm_103", "sm_120")

HEADER = ".version 8.8\n.target {target}\n.address_size 64\n"

CHAIN = """
.visible .entry chain(.param .u64 p, .param .u32 n)
.reqntid 32
{
    .reg .pred %q;
    .reg .b32 %r<4>;
    .reg .f32 %f<4>;
    .reg .b64 %rd<2>;
    ld.param.u64 %rd0, [p];
    ld.param.u32 %r1, [n];
    mov.b32 %r0, 0;
    ld.global.f32 %f1, [%rd0];
loop:
    .pragma "nounroll";
    ex2.approx.ftz.f32 %f1, %f1;
    fma.rn.f32 %f1, %f1, %f1, %f1;
    add.u32 %r0, %r0, 1;
    setp.lt.u32 %q, %r0, %r1;
    @%q bra loop;
    st.global.f32 [%rd0], %f1;
    ret;
}
"""

SWITCH = """
.visible .entry switch(.param .u64 p, .param .u32 n)
{
    .reg .b32 %r<2>;
    .reg .b64 %rd<2>;
    ld.param.u64 %rd0, [p];
    ld.param.u32 %r0, [n];
table: .branchtargets zero, one, two, three;
    brx.idx %r0, table;
zero:
    st.global.u32 [%rd0], 7;
    ret;
one:
    st.global.u32 [%rd0+4], 8;
    bar.sync 0;
    ret;
two:
    st.global.v2.u32 [%rd0+8], {%r0, %r0};
    ret;
three:
    atom.global.add.u32 %r1, [%rd0], 1;
    st.global.u32 [%rd0+16], %r1;
    ret;
}
"""


def assembled(text: str, target: str = "sm_90", lines: bool = True):
    return ptxas.assemble(text, target, options=["--generate-line-info"] if lines else []).cubin


def machine_code(text: str, entry: str, target: str = "sm_90"):
    return read(assembled(HEADER.format(target=target) + text, target), entry)


def product(target: str) -> str:
    return tileiras.compile("examples/matmul_f16.py", gpu_name=target, lineinfo=True).text


@pytest.mark.parametrize("target", TARGETS)
def test_line_information_changes_no_instruction(target):
    text = product(target)
    plain = tileiras.compile("examples/matmul_f16.py", gpu_name=target).text
    codes = {Cubin(assembled(*case)).section(".text.matmul_f16") for case in (
        (text, target, True), (text, target, False), (plain, target, True), (plain, target, False),
    )}  # fmt: skip
    assert len(codes) == 1 and codes != {b""}


@pytest.mark.sampled(4)
@pytest.mark.parametrize("target", TARGETS)
def test_instructions_name_the_lines_that_they_come_from(target):
    text = product(target)
    cubin = assembled(text, target)
    lines = text.split("\n")
    # ptxas keeps lines where they are, without some of their blanks, comments and directives on lines of the source.
    embedded = ["".join(line.split()) for line in Cubin(cubin).embedded_ptx().split("\n")]
    result = ["".join(re.sub(r"//.*|\s\.(loc|file)\s.*", "", line).split()) for line in lines]
    assert Cubin(cubin).has_ptx_lines and embedded[:-1] == result[: len(embedded) - 1] and "ret;" in embedded
    code = read(cubin, "matmul_f16")
    assert [n.address for n in code.instructions] == [INSTRUCTION_BYTES * n for n in range(len(code.instructions))]
    assert sum(len(item) for item in code.by_ptx_line.values()) == len(code.instructions)
    dot = re.compile(r"^\s*mma\.sync|wgmma\.mma_async|tcgen05\.mma")
    products = {n + 1 for n, line in enumerate(lines) if dot.search(line)}
    value = {each.ptx_line for each in code.instructions if each.opcode in DOTS}
    assert products and value == products
    threads = {each.ptx_line for each in code.instructions if "SR_TID.X" in each.operands}
    assert threads and all("%tid.x" in lines[line - 1] for line in threads)
    files = {each.source[0] for each in code.instructions if each.source is not None}
    source = open("examples/matmul_f16.py").read().split("\n")
    dots = {each.source[1] for each in code.instructions if each.opcode in DOTS}
    assert files == {"examples/matmul_f16.py"} and all("ct.mma" in source[line - 1] for line in dots)


@pytest.mark.parametrize("target", TARGETS)
def test_control_words_order_dependent_instructions(target):
    code = machine_code(CHAIN, "chain", target)
    by_name = {each.opcode: each for each in code.instructions}
    exponential, product = by_name["MUFU"], by_name["FFMA"]
    # A unit of variable latency announces its result by a scoreboard, for which the consumer waits.
    assert exponential.name == "MUFU.EX2" and exponential.write_scoreboard in range(6)
    assert product.wait_mask >> exponential.write_scoreboard & 1
    # One of fixed latency stalls its warp, by 4 cycles or more where the next instruction reads the result.
    assert product.write_scoreboard is None and product.read_scoreboard is None
    assert all(0 <= each.stall <= 15 for each in code.instructions)
    load = next(each for each in code.instructions if each.opcode == "LDG")
    assert load.write_scoreboard is not None and exponential.wait_mask >> load.write_scoreboard & 1
    store = next(each for each in code.instructions if each.opcode == "STG")
    assert "[" in store.operands[0] and store.write_scoreboard is None


def test_operands_and_guards_are_taken_apart():
    code = machine_code(CHAIN, "chain")
    back = next(each for each in code.instructions if each.opcode == "BRA" and each.predicate)
    assert back.target is not None and back.target < back.address
    assert back.predicate.lstrip("!") in ("P0", "UP0", "P1")
    fma = next(each for each in code.instructions if each.opcode == "FFMA")
    assert len(fma.operands) == 4 and fma.modifiers == ()
    assert code.at(fma.address) is fma
    with pytest.raises(KeyError):
        code.at(fma.address + 8)


@pytest.mark.parametrize("target", TARGETS)
def test_blocks_follow_branches(target):
    code = machine_code(CHAIN, "chain", target)
    starts = {block.start: block for block in code.blocks}
    assert all(next_one in starts for block in code.blocks for next_one in block.successors)
    ends = [block.end for block in code.blocks]
    assert [block.start for block in code.blocks] == [0, *ends[:-1]]
    loop = next(block for block in code.blocks if block.start in block.successors and len(block.successors) == 2)
    inside = [each.opcode for each in code.instructions if loop.start <= each.address < loop.end]
    assert "MUFU" in inside and "FFMA" in inside and "STG" not in inside
    final = next(block for block in code.blocks if code.at(block.end - INSTRUCTION_BYTES).opcode == "EXIT")
    assert final.successors == ()


@pytest.mark.parametrize("target", ["sm_80", "sm_90", "sm_120"])
def test_an_indirect_branch_goes_to_each_of_its_targets(target):
    code = machine_code(SWITCH, "switch", target)
    ends = {block: code.at(block.end - INSTRUCTION_BYTES) for block in code.blocks}
    (switch,) = [block for block, last in ends.items() if last.opcode in ("BRX", "BRXU")]
    assert len(switch.successors) == 4 and set(switch.successors) <= {block.start for block in code.blocks}


@pytest.mark.parametrize("target", ["sm_80", "sm_90"])
def test_resources_of_an_entry_equal_ptxas_report(target):
    text = product(target)
    done = ptxas.assemble(text, target)
    code, used = read(done.cubin, "matmul_f16"), done.resources["matmul_f16"]
    assert (code.registers, code.local) == (used.registers, used.stack) and code.target.startswith(target)
    assert code.shared == used.shared


STATIC = """
.shared .align 16 .b8 buffer[4000];
.visible .entry static(.param .u64 p)
{
    .reg .b32 %r<2>;
    .reg .b64 %rd;
    ld.param.u64 %rd, [p];
    mov.u32 %r0, %tid.x;
    st.shared.u32 [buffer+400], %r0;
    ld.volatile.shared.u32 %r1, [buffer+400];
    st.global.u32 [%rd], %r1;
    ret;
}
"""


@pytest.mark.parametrize("target", TARGETS)
def test_shared_memory_is_that_of_the_entry(target):
    assert machine_code(STATIC, "static", target).shared == 4000


def test_several_entries_in_one_cubin_are_read_apart():
    cubin = assembled(HEADER.format(target="sm_90") + CHAIN + SWITCH)
    assert set(Cubin(cubin).entries()) == {"chain", "switch"}
    chain, switch = read(cubin, "chain"), read(cubin, "switch")
    assert "MUFU" in {each.opcode for each in chain.instructions}
    assert "MUFU" not in {each.opcode for each in switch.instructions}
    assert chain.registers != switch.registers or chain.instructions != switch.instructions


@pytest.mark.parametrize("known", [True, False], ids=["by code", "by text"])
@pytest.mark.parametrize("target", ["sm_75", "sm_90", "sm_120"])
@pytest.mark.parametrize("code", [CHAIN, SWITCH], ids=["chain", "switch"])
def test_the_listing_has_targets_of_indirect_branches(code, target, known, monkeypatch):
    """The faster listing, without dataflow analysis, serves code without such branches only."""
    cubin = assembled(HEADER.format(target=target) + code, target)
    whole = nvdisasm.disassemble(cubin, listing.COMMAND)
    assert (nvdisasm.disassemble(cubin, listing.WITHOUT_DATAFLOW) == whole) == (code is CHAIN)
    disassemble, commands = nvdisasm.disassemble, []
    monkeypatch.setattr(output_store, "provider", lambda: None)
    monkeypatch.setattr(nvdisasm, "disassemble", lambda data, command: commands.append(command) or
                        disassemble(data, command))  # fmt: skip
    if not known:
        monkeypatch.setattr(listing, "_INDIRECT_CODES", frozenset())
    listing._listing.cache_clear()
    assert listing._listing(cubin) == whole
    quick = [] if code is SWITCH and known else [listing.WITHOUT_DATAFLOW]
    assert commands == [*quick, *([listing.COMMAND] if code is SWITCH else [])]


def test_unknown_entries_and_invalid_cubins_are_reported():
    with pytest.raises(CompileError, match="no entry 'other' in the cubin; it has chain"):
        read(assembled(HEADER.format(target="sm_90") + CHAIN), "other")
    for data in (b"", b"text", b"\x7fELF" + bytes(60), b"\x7fELF\2\1" + bytes(20)):
        with pytest.raises(CompileError, match="not a cubin"):
            read(data, "chain")


def test_a_truncated_elf_file_is_invalid():
    cubin = assembled(HEADER.format(target="sm_90") + CHAIN)
    for length in (7, 63, 64, len(cubin) // 2):
        with pytest.raises(ValueError, match="ELF"):
            ObjectFile(cubin[:length])


def test_without_line_information_nothing_is_embedded():
    cubin = Cubin(assembled(HEADER.format(target="sm_90") + CHAIN, lines=False))
    assert cubin.embedded_ptx() is None and not cubin.has_ptx_lines
    code = read(cubin.data, "chain")
    assert set(code.by_ptx_line) == {0} and code.instructions[0].source is None


def warpgroup_kernel(count: int) -> str:
    """Chained products of a warpgroup whose descriptors are made on lines of their own."""
    registers = ", ".join(f"%f{n}" for n in range(4))
    steps = "".join(
        f"    add.u64 %rd{step + 1}, %rd{step}, 2;\n"
        "    wgmma.mma_async.sync.aligned.m64n8k16.f32.f16.f16 "
        f"{{{registers}}}, %rd{step}, %rd{step + 1}, 1, 1, 1, 0, 0;\n"
        for step in range(1, count)
    )
    return (
        ".visible .entry products(.param .u64 p)\n.reqntid 128\n{\n    .reg .b64 %rd<40>;\n    .reg .f32 %f<4>;\n"
        "    ld.param.u64 %rd0, [p];\n    ld.global.u64 %rd1, [%rd0];\n"
        + "".join(f"    mov.f32 %f{n}, 0f00000000;\n" for n in range(4))
        + "    wgmma.fence.sync.aligned;\n" + steps
        + "    wgmma.commit_group.sync.aligned;\n    wgmma.wait_group.sync.aligned 0;\n"
        "    st.global.v4.f32 [%rd0], {%f0, %f1, %f2, %f3};\n    ret;\n}\n"
    )  # fmt: skip


def test_products_of_warpgroups_name_their_own_statements():
    text = HEADER.format(target="sm_90a") + warpgroup_kernel(9)
    lines = text.split("\n")
    statements = [n for n, line in enumerate(lines, 1) if "wgmma.mma_async" in line]
    code = read(assembled(text), "products")
    assert code.target == "sm_90a"
    assert [each.ptx_line for each in code.instructions if each.opcode == "HGMMA"] == statements
