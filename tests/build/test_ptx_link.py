import pytest

from tileiras.codegen.ptx.link import link, statements
from tileiras.diagnostics import CompileError

SHARED = ".extern .shared .align 16 .b8 arena[];\n"
TABLE = ".global .align 4 .b8 table[8] = {1, 2, 3, 4,\n 5, 6, 7, 8};\n"


def text(entry: str, declarations: str, target: str = "sm_90", version: str = "7.8") -> str:
    return (
        f"//\n// comment\n//\n\n.version {version}\n.target {target}\n.address_size 64\n\n{declarations}\n"
        f".visible .entry {entry}(\n\t.param .u64 {entry}_param_0\n)\n{{\n\tret;\n}}\n"
    )


def test_shared_declarations_are_kept_once_and_entries_in_order():
    linked = link([text("a", SHARED + TABLE), text("b", SHARED, version="8.0")])
    assert linked.count("arena[]") == linked.count("table[8]") == linked.count(".target") == 1
    assert linked.index(".entry a") < linked.index(".entry b")
    assert ".version 8.0\n" in linked


def test_names_with_two_meanings_are_refused():
    with pytest.raises(CompileError, match="two kernels define 'table' differently"):
        link([text("a", TABLE), text("b", TABLE.replace("8}", "9}"))])


def test_targets_do_not_mix():
    with pytest.raises(CompileError, match="sm_90 and sm_80"):
        link([text("a", ""), text("b", "", target="sm_80")])


def test_the_least_portable_form_of_a_target_wins():
    linked = link([text("a", ""), text("b", "", target="sm_90a", version="8.0"), text("c", "")])
    assert ".target sm_90a\n" in linked and linked.count(".entry") == 3


def test_functions_are_one_statement():
    function = ".func (.param .b32 r) helper(\n\t.param .b32 x\n)\n{\n\t{\n\tret;\n\t}\n}\n"
    assert statements(SHARED + "\n// note\n" + function) == [SHARED.strip(), function.strip()]


def test_local_functions_of_one_name_are_distinguished():
    """A declaration and a definition of one module share a name; equal functions of several modules are kept once."""

    def module(entry: str, constant: int) -> str:
        declared = ".func helper(\n\t.param .b32 x\n)\n;\n"
        defined = f".func helper(\n\t.param .b32 x\n)\n{{\n\tmov.b32 \t%r1, {constant};\n\tret;\n}}\n"
        return text(entry, declared).replace("\tret;\n}\n", "\tcall.uni helper, (x);\n\tret;\n}\n", 1) + defined

    linked = link([module("a", 1), module("b", 2), module("c", 1), module("d", 2)])
    calls = [line.split()[1] for line in linked.split("\n") if "call.uni" in line]
    assert calls[0] == calls[2] and calls[1] == calls[3] and calls[0] != calls[1]
    assert linked.count("mov.b32 \t%r1, 1;") == linked.count("mov.b32 \t%r1, 2;") == 1
