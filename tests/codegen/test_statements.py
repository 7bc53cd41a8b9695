"""The line on which a statement of PTX begins, as the emulator's parser counts it."""

import pytest

import tileiras
from tileiras.codegen.machine_code.statements import first_lines
from tileiras.sim.emulator.ptx import parser

TEXT = """.version 8.8
.target sm_90a
.address_size 64
.global .align 4 .b8 table[3] = {1, 2,
    3};
.visible .entry k(
    .param .u64 p
)
.reqntid 32
{
    .reg .b32 %r<9>; /* a comment
    of two lines; */ .reg .b64 %rd<2>;
    .loc 1 10 0
    { // operands of an asm
    mov.b32 {%r0,
        %r1}, // ; not the end
        %rd0;
    }
label:
    @%p0
    bra label;
    fence.proxy.async.shared::cta;
    cp.async.bulk.shared::cluster.global
        [%r0], [%rd0];
    ret;
}
"""


def test_a_statement_begins_where_its_first_word_stands():
    lines = first_lines(TEXT)
    assert len(lines) == TEXT.count("\n") + 2 and lines[0] == 0
    elsewhere = {line: start for line, start in enumerate(lines) if line != start}
    assert elsewhere == {5: 4, 7: 6, 8: 6, 9: 6, 10: 6, 16: 15, 17: 15, 21: 20, 24: 23}


@pytest.mark.parametrize("target", ["sm_80", "sm_90", "sm_120"])
@pytest.mark.parametrize("name", ["matmul_f16.py", "layer_norm.py"])
def test_statements_begin_at_the_emulators_instructions(name, target):
    text = tileiras.compile(f"examples/{name}", gpu_name=target, lineinfo=True).text
    lines = first_lines(text)
    (function,) = parser.parse(text).functions.values()
    begins = [instruction.line for instruction in function.body]
    assert [lines[line] for line in begins] == begins
    source = text.split("\n")
    ends = [next(n for n in range(line, len(lines)) if ";" in source[n - 1]) for line in begins]
    assert [lines[line] for line in ends] == begins
    assert ends != begins or "mma.sync" not in text  # whose operands have lines of their own
