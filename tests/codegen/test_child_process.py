"""ptxas and nvdisasm as child processes: where they are looked up, and every way in which they end.

The programs are shell scripts that imitate each of these ways.
"""

import os
import subprocess
import sys
import time

import pytest

from tileiras import api
from tileiras.cli import tileiras as command
from tileiras.codegen import nvdisasm, toolkit
from tileiras.codegen import ptxas as assembler
from tileiras.diagnostics import CompileError, DiagnosticEngine
from tileiras.options import CompileOptions
from tileiras.pipeline import stage
from tileiras.processes import programs

pytestmark = pytest.mark.skipif(os.name != "posix", reason="the stand-ins are shell scripts")

PTX = ".version 7.8\n.target sm_80\n.address_size 64\n.visible .entry k() {\n  ret;\n}\n"
WORKS = 'printf "\\177ELF" > kernel.cubin'


@pytest.fixture
def program(tmp_path):
    """Make an executable script at a place."""

    def make(body, path="ptxas"):
        file = tmp_path / path
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_text("#!/bin/sh\n" + body + "\n")
        file.chmod(0o755)
        return str(file)

    return make


def failure(path, **named):
    with pytest.raises(CompileError) as error:
        assembler.assemble(PTX, "sm_80", ptxas=path, **named)
    assert error.value.code == 5
    (diagnostic,) = error.value.diagnostics
    return diagnostic.message, [note.message for note in diagnostic.notes]


def test_a_failure_prints_its_output_and_a_reproducer_command(program):
    message, notes = failure(program('echo "first $1"; echo "  second" >&2; exit 3'), options=["--maxrregcount=32"])
    assert message == "ptxas failed with exit status 3\nfirst -arch\n  second"
    assert notes == [
        "reproduce with the PTX (--emit ptx, --save-temps): "
        "ptxas -arch sm_80 --opt-level 3 -v --maxrregcount=32 kernel.ptx -o kernel.cubin"
    ]


@pytest.mark.parametrize("status", [126, 127])
def test_a_shells_status_for_no_program_is_recognized(program, status):
    message, _ = failure(program(f"echo no such thing; exit {status}"))
    assert message == f"Program could not be executed: ptxas failed with exit status {status}\nno such thing"


def test_a_file_that_is_no_program_cannot_be_executed(program, tmp_path):
    path = tmp_path / "ptxas"
    path.write_bytes(b"\x00\x01")
    path.chmod(0o755)
    message, notes = failure(str(path))
    assert message == f"Program could not be executed: {path}: Exec format error" and len(notes) == 1


def test_no_process_to_be_had(program, monkeypatch):
    import resource

    if os.geteuid() == 0:
        # The limit does not hold for the superuser: the test replaces the answer of the system.
        import errno

        from tileiras.processes import programs

        def refuse(*arguments, **named):
            raise OSError(errno.EAGAIN, os.strerror(errno.EAGAIN))

        monkeypatch.setattr(programs._Child, "__init__", refuse)
        message, _ = failure(program("exit 0"))
    else:
        old = resource.getrlimit(resource.RLIMIT_NPROC)
        resource.setrlimit(resource.RLIMIT_NPROC, (0, old[1]))
        try:
            message, _ = failure(program("exit 0"))
        finally:
            resource.setrlimit(resource.RLIMIT_NPROC, old)
    assert message.startswith("Couldn't fork: ptxas: ")


def test_a_signal_is_named(program):
    message, _ = failure(program("echo before; kill -KILL $$"))
    assert message == "ptxas ended with SIGKILL\nbefore"


def test_a_core_dump_is_mentioned(program, tmp_path):
    import resource

    soft, hard = resource.getrlimit(resource.RLIMIT_CORE)
    if hard == 0:
        pytest.skip("no core dumps here")
    resource.setrlimit(resource.RLIMIT_CORE, (hard if hard > 0 else 1 << 20, hard))
    try:
        message, _ = failure(program("kill -SEGV $$"))
    finally:
        resource.setrlimit(resource.RLIMIT_CORE, (soft, hard))
    assert message in ("ptxas ended with SIGSEGV (core dumped)", "ptxas ended with SIGSEGV")


def test_a_program_that_times_out_is_killed_with_its_children(program):
    started = time.monotonic()
    message, notes = failure(program("sleep 60 & sleep 60"), timeout=0.2)
    assert message == "Child timed out: ptxas after 0.2 s" and notes
    assert time.monotonic() - started < 10


def test_no_cubin_is_a_failure(program):
    with pytest.raises(CompileError, match="ptxas did not write a cubin"):
        assembler.assemble(PTX, "sm_80", ptxas=program("exit 0"))
    with pytest.raises(CompileError, match="ptxas did not write a cubin"):
        assembler.assemble(PTX, "sm_80", ptxas=program("echo text > kernel.cubin"))


def test_warnings_are_passed_on(program):
    engine = DiagnosticEngine()
    text = "ptxas warning : 64-bit demoted"
    done = assembler.assemble(PTX, "sm_80", ptxas=program(f'{WORKS}; echo "{text}"'), engine=engine)
    assert done.messages == text and [str(d) for d in engine.diagnostics] == [f"warning: {text}"]


def test_order_in_which_a_program_is_looked_for(program, tmp_path, monkeypatch):
    places = {
        "option": program("exit 0", "own/ptxas"),
        "wheel": program("exit 0", "site/nvidia/cu13/bin/ptxas"),
        "CUDA_ROOT": program("exit 0", "root/bin/ptxas"),
        "CUDA_HOME": program("exit 0", "home/bin/ptxas"),
        "CUDA_PATH": program("exit 0", "cuda/bin/ptxas"),
        "PATH": program("exit 0", "path/ptxas"),
    }
    monkeypatch.setattr(sys, "path", [str(tmp_path / "site")])
    for variable, folder in (("CUDA_ROOT", "root"), ("CUDA_HOME", "home"), ("CUDA_PATH", "cuda"), ("PATH", "path")):
        monkeypatch.setenv(variable, str(tmp_path / folder))
    assert toolkit.find_program("ptxas", places["option"]) == places["option"]
    for place in ("wheel", "CUDA_ROOT", "CUDA_HOME", "CUDA_PATH", "PATH"):
        assert toolkit.find_program("ptxas") == places[place]
        if place == "wheel":
            monkeypatch.setattr(sys, "path", [])
        else:
            monkeypatch.delenv(place)
    assert toolkit.find_program("ptxas") is None


def test_the_command_reports_the_time_of_its_ptxas(program, tmp_path, capsys):
    source = tmp_path / "k.mlir"
    source.write_text("cuda_tile.module @m {\n  entry @k() {\n    return\n  }\n}\n")
    path = program("echo cannot; exit 2")
    output = tmp_path / "k.cubin"
    code = command.main([str(source), "--gpu-name=sm_90", f"--ptxas={path}", "-o", str(output)])
    lines = capsys.readouterr().err.splitlines()
    assert code == 5 and not output.exists()
    assert lines[0].endswith("k.mlir:2:3: error: ptxas failed with exit status 2") and lines[1] == "cannot"
    assert lines[-1] == "error: failed to compile Tile IR program"


@pytest.mark.parametrize("option, emit", [("--ptxas={}", "cubin"), ("--dump-sass-command={} -c", "sass")])
def test_a_time_limit_counts_for_the_question_of_the_release(ptxas, program, tmp_path, capsys, option, emit):
    source = tmp_path / "k.mlir"
    source.write_text("cuda_tile.module @m {\n  entry @k() {\n    return\n  }\n}\n")
    slow = program("exec sleep 60")
    words = [str(source), "--gpu-name=sm_90", f"--emit={emit}", option.format(slow), "--child-timeout=1"]
    start = time.monotonic()
    for _ in range(2):
        assert command.main([*words, "-o", str(tmp_path / "out")]) == 5
        assert "error: Child timed out: " in capsys.readouterr().err
    assert time.monotonic() - start < assembler.VERSION_SECONDS


# ---- nvdisasm --------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("text", ["", "   ", "'"])
def test_an_empty_dump_command_is_refused(text):
    with pytest.raises(CompileError) as error:
        nvdisasm.disassemble(b"\x7fELF", text)
    wanted = "Please provide a valid dumpSassCommand. For example, `nvdisasm -c`."
    assert error.value.diagnostics[0].message == wanted and error.value.code == 5


def test_the_dump_command_gets_the_cubin_last(program):
    path = program('echo "$@"; cat "$3"', "dump")
    assert nvdisasm.disassemble(b"\x7fELF text", f"{path} -c -uumn") == "-c -uumn kernel.cubin\n\x7fELF text\n"


def test_ends_of_the_disassembler_are_reported(program, tmp_path, monkeypatch):
    with pytest.raises(CompileError, match="dump ended with SIGABRT"):
        nvdisasm.disassemble(b"", program("kill -ABRT $$", "dump"))
    with pytest.raises(CompileError, match="Child timed out: dump after 0.1 s"):
        nvdisasm.disassemble(b"", program("sleep 60", "dump"), timeout=0.1)
    with pytest.raises(CompileError, match="nvdisasm is not an executable file"):
        nvdisasm.disassemble(b"", str(tmp_path / "absent"))
    monkeypatch.setattr(sys, "path", [])
    monkeypatch.setenv("PATH", "")
    for variable in toolkit.ROOT_VARIABLES:
        monkeypatch.delenv(variable, raising=False)
    with pytest.raises(CompileError, match="could not find nvdisasm") as error:
        nvdisasm.disassemble(b"")
    assert "nvidia-cuda-nvdisasm" in error.value.render()


def test_machine_code_is_a_product():
    if toolkit.find_program("nvdisasm") is None or toolkit.find_program("ptxas") is None:
        pytest.skip("needs ptxas and nvdisasm")
    text = "cuda_tile.module @m {\n  entry @k() {\n    return\n  }\n}\n"
    result = api.compile(text, gpu_name="sm_90", emit="sass")
    assert ".text.k:" in result.text and "EXIT" in result.text


def test_controls_reach_ptxas_under_a_name_of_ours(program, tmp_path):
    controls = tmp_path / "my controls"
    controls.write_text("tuned")
    assembled = assembler.assemble(
        PTX, "sm_80", controls=str(controls),
        ptxas=program(f'test "$6 $7" = "--apply-controls controls.acf" && test "$(cat "$7")" = tuned && {WORKS}'),
    )  # fmt: skip
    assert assembled.cubin == b"\x7fELF"


@pytest.mark.parametrize("name, reason", [("absent", "No such file or directory"), (".", "Is a directory")])
def test_controls_that_cannot_be_read_are_a_wrong_configuration(name, reason):
    with pytest.raises(CompileError) as error:
        assembler.assemble(PTX, "sm_80", controls=name, ptxas="/bin/true")
    assert error.value.code == 2
    assert error.value.diagnostics[0].message == f"unable to read controls file '{name}': {reason}"


def test_the_content_of_controls_is_part_of_the_key(tmp_path):
    controls = tmp_path / "controls"

    def identity():
        options = CompileOptions({"gpu-name": "sm_80", "apply-controls": str(controls)})
        return assembler.tool_identity(stage("cubin").select(options))

    known = {identity()}
    for text in ("one", "other"):
        controls.write_text(text)
        known.add(identity())
    assert len(known) == 3 and str(tmp_path) not in "".join(known)


def test_ptxas_judges_controls(ptxas, tmp_path):
    (tmp_path / "controls").write_text("not a file of controls\n")
    with pytest.raises(CompileError, match="Invalid compiler controls file") as error:
        assembler.assemble(PTX, "sm_80", ptxas=ptxas, controls=str(tmp_path / "controls"))
    assert error.value.code == 5


WATCHED = """\
import os, sys
seen = []
sys.addaudithook(lambda event, given: seen.append(str(given[0])) if event in ("open", "os.mkdir") else None)
from tileiras.processes import programs
with programs.working_folder() as folder:
    print(folder)
    assert os.path.isdir(folder)
assert not os.path.exists(folder)
print(*(path for path in seen if path.startswith(sys.argv[1])), sep="\\n")
"""


@pytest.mark.parametrize("variables", [("TMPDIR",), ("TEMP",), ("TMP",)])
def test_folders_follow_the_environment_without_being_probed(tmp_path, variables):
    """A process killed during a trial would leave the file."""
    result = {name: value for name, value in os.environ.items() if name not in ("TMPDIR", "TEMP", "TMP")}
    named = {"TMPDIR": str(tmp_path / "absent"), **{name: str(tmp_path) for name in variables}}
    command = [sys.executable, "-c", WATCHED, str(tmp_path)]
    done = subprocess.run(command, env={**result, **named}, capture_output=True, text=True, check=True)
    folder, *touched = done.stdout.split()
    assert os.path.dirname(folder) == str(tmp_path)
    assert {path for path in touched if os.path.dirname(path) == str(tmp_path)} == {folder}
    assert os.listdir(tmp_path) == []


@pytest.mark.parametrize("own", [None, "glibc.malloc.check=0"])
def test_programs_use_large_memory_blocks_unless_overridden(program, monkeypatch, own):
    if own is None:
        monkeypatch.delenv("GLIBC_TUNABLES", raising=False)
    else:
        monkeypatch.setenv("GLIBC_TUNABLES", own)
    message, _ = failure(program('echo "$GLIBC_TUNABLES"; exit 3'))
    assert message.splitlines()[1] == (own or programs.ALLOCATOR)
