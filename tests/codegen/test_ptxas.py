import pytest

from tileiras.codegen import ptxas as assembler
from tileiras.codegen import toolkit
from tileiras.diagnostics import CompileError, DiagnosticEngine

GOOD = ".version 7.8\n.target sm_80\n.address_size 64\n.visible .entry k() {\n  ret;\n}\n"
REPORT = """\
ptxas info    : 0 bytes gmem
ptxas info    : Compiling entry function 'first' for 'sm_90'
ptxas info    : Function properties for first
    40 bytes stack frame, 8 bytes spill stores, 12 bytes spill loads
ptxas info    : Used 32 registers, used 1 barriers, 4096 bytes smem, 528 bytes cmem[0], 8 bytes cmem[2]
ptxas info    : Compile time = 3.1 ms
ptxas info    : Compiling entry function 'second' for 'sm_90'
ptxas info    : Function properties for second
    0 bytes stack frame, 0 bytes spill stores, 0 bytes spill loads
ptxas info    : Used 4 registers, used 0 barriers
"""


def test_report_is_read_entry_by_entry():
    resources = assembler.parse_resources(REPORT)
    assert list(resources) == ["first", "second"]
    assert resources["first"] == assembler.Resources(32, 40, 8, 12, 1, 4096, 536)
    assert resources["second"] == assembler.Resources(4, 0, 0, 0, 0, 0, 0)


@pytest.mark.parametrize("chip", ["sm_80", "sm_90", "sm_100", "sm_120"])
def test_cubin_and_resources(ptxas, chip):
    done = assembler.assemble(GOOD, chip, ptxas=ptxas)
    assert done.cubin.startswith(b"\x7fELF") and done.messages == ""
    assert done.resources["k"].spill_stores == 0
    assert assembler.assemble(GOOD, chip, ptxas=ptxas).cubin == done.cubin


def test_failure_carries_ptxas_words_and_a_command(ptxas):
    with pytest.raises(CompileError) as error:
        assembler.assemble(GOOD.replace("ret;", "foo.b32 %r1;"), "sm_80", ptxas=ptxas)
    text = error.value.render()
    assert error.value.code == 5
    assert "kernel.ptx, line 5" in text and "Not a name of any known instruction" in text
    assert "ptxas -arch sm_80 --opt-level 3 -v kernel.ptx -o kernel.cubin" in text


def test_warnings_of_ptxas_reach_the_engine(ptxas):
    engine = DiagnosticEngine()
    unused = GOOD.replace(".visible .entry k() {", ".visible .entry k() .maxntid 64 .pragma \"nosuchpragma\"; {")
    done = assembler.assemble(unused, "sm_80", ptxas=ptxas, engine=engine)
    assert [d.message for d in engine.diagnostics] == ([done.messages] if done.messages else [])


def test_missing_assembler_names_the_package(monkeypatch):
    monkeypatch.setattr(toolkit, "wheel_roots", list)
    monkeypatch.setenv("PATH", "")
    for variable in toolkit.ROOT_VARIABLES:
        monkeypatch.delenv(variable, raising=False)
    with pytest.raises(CompileError) as error:
        assembler.assemble(GOOD, "sm_80")
    assert error.value.diagnostics[0].message == "could not find ptxas"
    assert "nvidia-cuda-nvcc" in error.value.render()


def test_program_that_is_not_one_is_a_configuration_error(tmp_path):
    with pytest.raises(CompileError, match="ptxas is not an executable file") as error:
        assembler.find(str(tmp_path))
    assert error.value.code == 2


def test_a_version_is_queried_once_per_state_of_the_program(tmp_path, monkeypatch):
    from tileiras.codegen import toolkit

    monkeypatch.setenv("TILEIRAS_CACHE_DIR", str(tmp_path / "cache"))
    program = tmp_path / "ptxas"
    program.write_text("one")
    paths = []

    def ask(path):
        paths.append(path)
        return f"version {len(paths)}"

    assert [toolkit.remembered(str(program), ask) for _ in range(3)] == ["version 1"] * 3
    program.write_text("another")
    assert toolkit.remembered(str(program), ask) == "version 2"
    (tmp_path / "cache" / "tools.json").write_text('["nonsense"]')
    assert [toolkit.remembered(str(program), ask) for _ in range(2)] == ["version 3"] * 2
    monkeypatch.setenv("TILEIRAS_CACHE_DIR", "off")
    assert toolkit.remembered(str(program), ask) == "version 4"
    assert toolkit.remembered(str(tmp_path / "absent"), ask) == "version 5"


def test_a_truncated_cubin_is_distinguished_from_a_whole_one(ptxas):
    cubin = assembler.assemble(GOOD, "sm_80", ptxas=ptxas).cubin
    assert assembler._is_whole(cubin)
    assert not any(assembler._is_whole(cubin[:size]) for size in (0, 4, 63, 64, len(cubin) // 2, len(cubin) - 1))
