"""Lines of the source from the directives of PTX."""

from tileiras.sim.emulator.source import source_positions

PTX = """\
.entry k()
{
	ret;
	.loc	1 5 3
	mov.u32 	%r1, 1;
	.loc	2 7 1, function_name $L__info_string0, inlined_at 1 5 3
	.loc	2 9 4, function_name $L__info_string1, inlined_at 2 7 1
	mov.u32 	%r2, 2;
	mov.u32 	%r3, 2;
}
.entry other()
{
	ret;
}
	.file	1 "k.py"
	.file	2 "lib/helper.py"
"""


def test_a_line_has_the_position_before_it():
    assert source_positions(PTX, 5) == [("k.py", 5, 3)]


def test_inlined_code_leads_to_its_calls():
    assert source_positions(PTX, 9) == [("lib/helper.py", 9, 4), ("lib/helper.py", 7, 1), ("k.py", 5, 3)]


def test_nothing_is_taken_from_another_function():
    assert source_positions(PTX, 3) == [] and source_positions(PTX, 13) == []
