"""The program handle: its checks in order, its states, its codes."""

import pytest

import tileiras
from tileiras.diagnostics import CompileError, ExitCode
from tileiras.driver.program import Configuration, Program

TEXT = b"""\
cuda_tile.module @m {
  entry @k(%p: tile<ptr<i32>>) {
    %one = constant <i32: 1> : tile<i32>
    %t = store_ptr_tko weak %p, %one : tile<ptr<i32>>, tile<i32> -> token
    return
  }
}
"""
NARROW = TEXT.replace(b"i32", b"f8E4M3FN").replace(b": 1>", b": 1.0>")
BYTECODE = tileiras.compile(TEXT, gpu_name="sm_90", emit="bytecode", bytecode_version="13.1").data
DEBUG = (
    "optimized debugging is currently not supported, change the optimization level to 0 or disable full debug info"
)

# All mistakes in a configuration, in the order in which they are reported.
MISTAKES = [
    ({"input": None}, 2, "input buffer is null"),
    ({"input": b"\x7fTileIS\0" + BYTECODE[8:]}, 3, "input does not correspond to Tile IR bytecode"),
    ({"input": BYTECODE[:8] + b"\x0d\x09" + BYTECODE[10:]}, 3, "unsupported Tile IR bytecode version: 13.9"),
    ({"gpu": 0}, 2, "GPU architecture sm_0 is not supported by this version of tileiras."),
    ({"opt_level": 4}, 2, "invalid optimization level: 4"),
    ({"opt_level": -1}, 2, "invalid optimization level: -1"),
    ({"device_debug": True}, 2, DEBUG),
    ({"host_arch": 3}, 2, "unsupported host architecture"),
    ({"host_os": 2}, 2, "unsupported host operating system"),
    ({"sanitize": 2}, 2, "unsupported sanitizer"),
    ({"cuda_root": "/nowhere"}, 2, "cuda_root is no folder: '/nowhere'"),
    ({"cuda_root": 13}, 2, "cuda_root is no folder: 13"),
]


def refused(call) -> tuple[int, str]:
    with pytest.raises(CompileError) as caught:
        call()
    return caught.value.code, caught.value.diagnostics[0].message


def test_a_program_is_created_compiled_asked_and_released(ptxas):
    program = Program.create(BYTECODE, gpu_name="sm_90")
    assert refused(program.get_output) == (4, "program has not been compiled")
    program.compile()
    cubin = program.get_output()
    assert cubin.startswith(b"\x7fELF")
    program.compile()
    assert program.get_output() == cubin
    program.release()
    for call in (program.compile, program.get_output, program.release):
        assert refused(call) == (4, "program is null")


def test_the_output_is_that_of_the_command(ptxas, tmp_path):
    from tileiras.cli.tileiras import main

    (tmp_path / "k.bc").write_bytes(BYTECODE)
    assert main([str(tmp_path / "k.bc"), "--gpu-name", "sm_80", "-O1", "-o", str(tmp_path / "k")]) == 0
    program = Program.create(BYTECODE, gpu_name="sm_80", opt_level=1)
    program.compile()
    assert program.get_output() == (tmp_path / "k").read_bytes()


@pytest.mark.parametrize("changes, code, message", MISTAKES, ids=lambda value: str(value)[:40])
def test_a_configuration_that_is_refused(changes, code, message):
    entry = Configuration(BYTECODE, gpu=90)._replace(**changes)
    found_code, result = refused(lambda: Program.create(entry))
    assert found_code == code and result.startswith(message)


def test_the_first_of_several_mistakes_is_reported():
    value = Configuration(BYTECODE, gpu=90)
    for number, (changes, code, message) in reversed(list(enumerate(MISTAKES))):
        if number in (1, 4):  # each takes the place of the one after it
            continue
        value = value._replace(**changes)
        found_code, result = refused(lambda: Program.create(value))
        assert found_code == code and result.startswith(message)


@pytest.mark.parametrize("name", [90, "90", "sm_-1", "sm_090", "sm_90 ", ["sm_90"], "gfx90"])
def test_an_unknown_gpu_is_refused_by_its_given_name(name):
    code, message = refused(lambda: Program.create(BYTECODE, gpu_name=name))
    shown = name if isinstance(name, str) else repr(name)
    assert code == 2 and message.startswith(f"GPU architecture {shown} is not supported by this version of tileiras.")


def test_no_configuration_at_all_is_refused():
    assert refused(lambda: Program.create(None)) == (2, "configuration is null")


def test_fields_by_name_go_over_those_of_a_configuration():
    configuration = Configuration(BYTECODE, gpu=91, opt_level=2)
    assert Program.create(configuration, gpu_name="sm_90", lineinfo=True).configuration == configuration._replace(
        gpu=90, lineinfo=True
    )
    assert refused(lambda: Program.create(None, gpu_name="sm_90")) == (2, "input buffer is null")
    assert refused(lambda: Program.create(BYTECODE, gpu_name="gfx90"))[0] == 2


def test_a_kernel_that_cannot_be_compiled_leaves_no_output():
    program = Program.create(NARROW, gpu_name="sm_80")
    with pytest.raises(CompileError) as caught:
        program.compile()
    assert caught.value.code == ExitCode.COMPILE_FAILURE
    assert [d.message for d in caught.value.diagnostics] == [
        "Incompatibility with architecture 'sm_80': unsupported type 'f8E4M3FN'",
        "failed to compile Tile IR program",
    ]
    assert refused(program.get_output) == (4, "program has not been compiled")


def test_damage_behind_the_header_is_found_by_the_compilation():
    program = Program.create(BYTECODE[:-1], gpu_name="sm_90")
    assert refused(program.compile) == (3, "unexpected end of data while reading section header")


def test_further_options_of_the_compilation_can_be_given(ptxas):
    program = Program.create(TEXT, gpu_name="sm_90", options={"tile-launch": False})
    program.compile()
    assert b"META_DATA" not in program.get_output()
    assert refused(lambda: Program.create(TEXT, gpu_name="sm_90", options={"tile-lunch": False}))[0] == 2


def test_text_may_be_a_string(ptxas):
    text = "cuda_tile.module @m {\n  entry @k() {\n    return\n  }\n}\n"
    result = [Program.create(item, gpu_name="sm_90") for item in (text, text.encode())]
    for program in result:
        program.compile()
    assert result[0].get_output() == result[1].get_output()
