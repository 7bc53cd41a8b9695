import pytest

from tileiras.codegen.target_machine import PTXRequirement, llvm_ptx_feature, processor, ptx_version
from tileiras.diagnostics import CompileError


def test_unknown_chip_is_a_diagnostic_listing_the_known_ones():
    with pytest.raises(CompileError) as error:
        processor("sm_52")
    assert error.value.code == 2
    assert "sm_52" in str(error.value) and "sm_90a" in str(error.value)


def test_ptx_version_is_the_lowest_sufficient_one():
    assert ptx_version(processor("sm_80")) == (7, 0)
    newer, older = PTXRequirement((7, 8), "one"), PTXRequirement((6, 0), "another")
    assert ptx_version(processor("sm_80"), [newer, older]) == (7, 8)
    assert ptx_version(processor("sm_120"), [newer]) == (8, 7)


def test_requested_ptx_version_below_the_need_is_refused():
    assert ptx_version(processor("sm_90"), [], (8, 5)) == (8, 5)
    with pytest.raises(CompileError, match="^error: PTX version 7.4 does not support sm_90, which needs 7.8 or newer$"):
        ptx_version(processor("sm_90"), [PTXRequirement((7, 0), "anything")], (7, 4))
    this, that = PTXRequirement((8, 1), "this"), PTXRequirement((9, 2), "that", "do without")
    with pytest.raises(CompileError) as error:
        ptx_version(processor("sm_90"), [this, that, this], (7, 5))
    assert error.value.code == 2
    assert error.value.render().splitlines() == [
        "error: PTX version 7.5 does not support that, which needs 9.2 or newer",
        "note: do without",
        "note: this needs PTX 8.1 or newer",
        "note: sm_90 needs PTX 7.8 or newer",
    ]


def test_llvm_feature_is_the_next_version_or_the_newest():
    assert llvm_ptx_feature((7, 8)) == "+ptx78"
    assert llvm_ptx_feature((7, 9)) == "+ptx80"
    assert llvm_ptx_feature((9, 2)) == "+ptx90"


def test_suffix_and_number():
    assert (processor("sm_90a").number, processor("sm_90a").suffix) == (90, "a")
    assert (processor("sm_103f").number, processor("sm_103f").suffix) == (103, "f")
    assert processor("sm_107").llvm_cpu == "sm_100"


def test_llvm_accepts_every_processor_from_its_lowest_version():
    from tileiras.codegen.target_machine import LLVM_PTX_VERSIONS, PROCESSORS
    from tileiras.processes import helper
    from tileiras.targets.nvptx import MODULE_HEADER

    ir = MODULE_HEADER + "define ptx_kernel void @k() {\n  ret void\n}\n"
    for row in PROCESSORS.values():
        def emit(version, chip=row.chip):
            (text, _), result = helper.call(
                "compile", ir=ir, chip=chip, features=llvm_ptx_feature(version), opt_level=0, libraries=(), bitcode=()
            )
            assert "not a recognized processor" not in result
            return text

        assert f".target {row.llvm_cpu}" in emit(row.ptx)
        below = [v for v in LLVM_PTX_VERSIONS if v < row.ptx]
        if row.chip == row.llvm_cpu and row.chip != "sm_75":
            with pytest.raises(helper.HelperDied, match="does not support target"):
                emit(below[-1])


def test_target_machines_are_created_once_per_configuration():
    from tileiras.codegen.target_machine import TRIPLES, target_machine

    one = target_machine(processor("sm_90"), "+ptx80", 3)
    assert target_machine(processor("sm_90"), "+ptx80", 3) is one
    assert target_machine(processor("sm_90a"), "+ptx80", 3) is not one
    assert target_machine(processor("sm_90"), "+ptx86", 3) is not one
    assert target_machine(processor("sm_90"), "+ptx80", 0) is not one
    assert TRIPLES == ("nvptx64-nvidia-cuda", "nvptx-nvidia-cuda")
    assert [target_machine(processor("sm_90"), "+ptx80", 3, triple).llvm.triple for triple in TRIPLES] == list(TRIPLES)


@pytest.mark.parametrize("triple", ["x86_64-unknown-linux-gnu", "no-such-machine"])
def test_triples_of_other_machines_are_refused(triple):
    from tileiras.codegen.target_machine import target_machine

    with pytest.raises(CompileError, match="failed to look up NVPTX target for requested triple") as error:
        target_machine(processor("sm_90"), "+ptx80", 3, triple).llvm
    assert error.value.code == 2


def test_sums_with_a_common_addend_cost_as_products_do():
    """A scan of 128 integers in a thread: strength reduction would take a hundred times as long for the sums."""
    import time

    import llvmlite.binding as llvm

    from tileiras.codegen.target_machine import TRIPLE, target_machine

    machine = target_machine(processor("sm_90"), "+ptx80", 3).llvm

    def cost(operation):
        lines = ["%r0 = load i32, ptr %p"]
        for i in range(1, 129):
            lines += [
                f"%a{i} = getelementptr i8, ptr %p, i32 {28 * i}",
                f"%x{i} = load i32, ptr %a{i}",
                f"%r{i} = {operation} i32 %r{i - 1}, %x{i}",
                f"%t{i} = {operation} i32 %r{i}, %shared",
                f"%b{i} = getelementptr i8, ptr %p, i32 {28 * i + 9999}",
                f"store i32 %t{i}, ptr %b{i}",
            ]
        body = "\n".join(lines)
        module = llvm.parse_assembly(
            f'target triple = "{TRIPLE}"\ndefine void @k(ptr %p, i32 %shared) {{\n{body}\nret void\n}}'
        )
        start = time.process_time()
        assert machine.emit_assembly(module).count("st.b32") == 128
        return time.process_time() - start

    sums, products = (min(cost(operation) for _ in range(3)) for operation in ("add", "mul"))
    assert sums < 10 * products
