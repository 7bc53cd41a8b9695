"""Output files of commands: they never replace an input or each other, and are written completely or not at all."""

import itertools
import json
import os
import resource
import socket
import stat
import subprocess
import sys
import threading

import both_ways
import numpy as np
import pytest
from invocations import KERNEL

import tileiras
from tileiras.cli import tileiras as driver
from tileiras.cli import tileiras_opt, tileiras_run, tileiras_translate
from tileiras.cli.outputs import Outputs
from tileiras.cli.process import UsageError
from tileiras.diagnostics import CompileError

F32 = KERNEL.replace("TYPE", "f32")
COMMANDS = {"tileiras": driver, "opt": tileiras_opt, "run": tileiras_run, "translate": tileiras_translate}
PACKAGE = os.path.dirname(os.path.dirname(tileiras.__file__))

COMPILE = "tileiras k.mlir --gpu-name=sm_90 --emit=tileaa"
OUTPUTS = {
    "-o": "-o {}",
    "--depfile": "--depfile={}",
    "--remarks-output-file": "--remarks=all --remark-format=yaml --remarks-output-file={}",
    "schedule-trace-file": "--pass-pipeline=tileir{schedule-trace-file={}}",
    "--mlir-pass-pipeline-crash-reproducer": "--mlir-pass-pipeline-crash-reproducer={}",
}
"""Every option of `tileiras` that names a file to write."""


@pytest.fixture
def folder(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "k.mlir").write_text(F32)
    return tmp_path


def run(line: str) -> int:
    name, *words = line.split(" ")
    return int(COMMANDS[name].main(words))


def process(line: str, **how) -> subprocess.CompletedProcess:
    """A command as a process of its own."""
    name, *words = line.split(" ")
    program = COMMANDS[name].__name__.rpartition(".")[2].replace("_", "-")
    environment = {**os.environ, "PYTHONPATH": PACKAGE, "TILEIRAS_CACHE_DIR": "off"}
    return subprocess.run([*both_ways.command(program), *words], check=False, env=environment, **how)


def contents(folder) -> dict[str, bytes]:
    return {name: (folder / name).read_bytes() for name in sorted(os.listdir(folder)) if (folder / name).is_file()}


# ---- outputs never replace inputs ------------------------------------------------------------------------------------

SPELLINGS = ("in", "./in", "sub/../in", "{folder}/in", "link", "hard", "far/in")


def spelled(spelling: str, name: str, folder) -> str:
    """Another name of a file: its folder has links to it, and a folder that leads back to it."""
    (folder / "sub").mkdir()
    (folder / "far").symlink_to(".")
    (folder / "link").symlink_to(name)
    os.link(folder / name, folder / "hard")
    return spelling.format(folder=folder).replace("in", name) if spelling.endswith("in") else spelling


@pytest.mark.parametrize("spelling", SPELLINGS)
@pytest.mark.parametrize(
    "line",
    [
        *(f"{COMPILE} -o out {option}" for option in OUTPUTS.values()),
        "opt k.mlir -o {}",
        "opt k.mlir --tileir=schedule-trace-file={}",
        "opt k.mlir --cse --mlir-pass-pipeline-crash-reproducer={}",
        "translate --mlir-to-cudatilebc k.mlir -o {}",
        "translate --cudatilebc-to-mlir k.mlir -o={}",
    ],
)  # fmt: skip
def test_the_source_is_no_output(folder, capsys, line, spelling):
    (folder / "k.mlir").write_text("no module: whoever read it would say so, with another code")
    line = line.replace("{}", spelled(spelling, "k.mlir", folder))
    before = contents(folder)
    assert run(line) == 1
    lines = capsys.readouterr().err.splitlines()
    assert len(lines) == 1 and "are one file" in lines[0] and "the input" in lines[0]
    assert contents(folder) == before


@pytest.mark.parametrize("spelling", SPELLINGS[:-2])
def test_an_array_that_a_kernel_is_given_is_not_saved_over(folder, capsys, spelling):
    np.save(folder / "a.npy", np.ones(16, np.float32))
    name = spelled(spelling, "a.npy", folder)
    if name == "link":
        name = "link.npy"
        (folder / name).symlink_to("a.npy")
    before = contents(folder)
    assert run(f"run k.mlir @a.npy --save 0={name}") == 1
    assert "the argument '@a.npy' and --save 0 are one file" in capsys.readouterr().err
    assert contents(folder) == before


@pytest.mark.parametrize("option, what", [
    ("@words", "the file of options"), ("-l words", "the tile library"), ("--apply-controls words", "--apply-controls"),
    ("--ptxas ./words", "--ptxas"), ("--libdevice=words", "--libdevice"),
    ("--blob-linked-lib=words", "--blob-linked-lib"),
])  # fmt: skip
def test_other_inputs_are_no_output(folder, capsys, option, what):
    (folder / "words").write_text("--lineinfo")
    assert run(f"{COMPILE} {option} -o ./words") == 1
    assert f"tileiras: {what} and the output are one file: " in capsys.readouterr().err
    assert (folder / "words").read_text() == "--lineinfo"


def test_a_module_that_the_source_imports_is_no_output(folder, capsys):
    pytest.importorskip("cuda.tile", reason="needs cuTile Python")
    (folder / "sizes.py").write_text("TILE = 128\n")
    (folder / "k.py").write_text(
        "import cuda.tile as ct\nfrom sizes import TILE\n\n@ct.kernel\ndef twice(x):\n"
        "    ct.store(x, (0,), ct.load(x, (0,), (TILE,)) * 2.0)\n\n"
        'TILEIRAS_EXPORT = {"twice": (twice, "f32[?]")}\n'
    )
    done = process("tileiras k.py --gpu-name=sm_90 --emit=cuda_tile -o sizes.py", capture_output=True, text=True)
    assert done.returncode == 1
    assert done.stderr.startswith("tileiras: a file that the input imports and the output are one file: ")
    assert (folder / "sizes.py").read_text() == "TILE = 128\n"


@pytest.mark.parametrize("line", [
    "tileiras - --gpu-name=sm_90 -o k.mlir", "opt -o k.mlir", "translate --mlir-to-cudatilebc - -o k.mlir",
])  # fmt: skip
def test_standard_input_is_a_file_too(folder, line):
    with open("k.mlir", "rb") as file:
        done = process(line, stdin=file, capture_output=True, text=True)
    assert (done.returncode, done.stdout) == (1, "") and "are one file: k.mlir" in done.stderr
    assert (folder / "k.mlir").read_text() == F32


@pytest.mark.parametrize("name", ["-", "/dev/stdout", "/dev/fd/1", "/proc/self/fd/1"])
def test_so_is_standard_output(folder, name):
    with open("k.mlir", "ab") as file:
        done = process(f"opt k.mlir -o {name}", stdout=file, stderr=subprocess.PIPE, text=True)
    assert done.returncode == 1 and "the input and the output are one file: k.mlir" in done.stderr
    assert (folder / "k.mlir").read_text() == F32


def test_bytecode_is_not_replaced_either(folder, capsys):
    assert run("tileiras k.mlir --emit=bytecode -o k.tileirbc") == 0
    data = (folder / "k.tileirbc").read_bytes()
    assert run("tileiras k.tileirbc --gpu-name=sm_90 --emit=ptx -o k.tileirbc") == 1
    assert run("tileiras k.tileirbc --emit=bytecode") == 1, "the default name is the input's"
    assert (folder / "k.tileirbc").read_bytes() == data


# ---- two outputs are two files ---------------------------------------------------------------------------------------


@pytest.mark.parametrize("there", [False, True])
@pytest.mark.parametrize("first, second", list(itertools.combinations(OUTPUTS, 2)))
def test_two_outputs_are_two_files(folder, capsys, first, second, there):
    (folder / "far").symlink_to(".")
    if there:
        (folder / "out").write_text("old")
        os.link("out", "other")
    product = "" if first == "-o" else " -o product"
    line = f"{COMPILE}{product} {OUTPUTS[first]}".replace("{}", "out")
    assert run(f"{line} {OUTPUTS[second]}".replace("{}", "other" if there else "far/out")) == 1
    assert "are one file: " in capsys.readouterr().err
    assert not (folder / "product").exists() and (not there or (folder / "out").read_text() == "old")


def test_two_arrays_are_saved_to_two_files(folder, capsys):
    assert run("run k.mlir f32[16]=ones --save 0=a --save 0=./a.npy") == 1
    assert "--save 0 and --save 0 are one file" in capsys.readouterr().err
    assert os.listdir() == ["k.mlir"]


def test_a_dangling_link_names_the_file_that_is_created(folder, capsys):
    (folder / "link").symlink_to("out")
    assert run(f"{COMPILE} -o out --depfile=link") == 1
    (folder / "round").symlink_to("round")
    capsys.readouterr()
    assert run(f"{COMPILE} -o round") == 2
    assert capsys.readouterr().err == (
        "error: unable to open output file 'round': Too many levels of symbolic links\n"
    )


def test_streams_may_be_named_twice(folder, capfd):
    for name in ("/dev/null", "/dev/stdout"):
        line = f"{COMPILE} -o {name} --depfile={name} --remarks=all --remark-format=yaml --remarks-output-file={name}"
        assert run(line) == 0
    result = capfd.readouterr().out
    assert "nv_tileaa.func @k" in result and result.endswith("/dev/stdout: k.mlir\n")
    os.mkfifo("pipe")
    items = []
    reader = threading.Thread(target=lambda: items.append(open("pipe").read()))
    reader.start()
    keep = os.open("pipe", os.O_WRONLY)
    assert run(f"{COMPILE} -o pipe --depfile=pipe") == 0
    os.close(keep)
    reader.join()
    assert "nv_tileaa.func @k" in items[0] and items[0].endswith("pipe: k.mlir\n")
    assert sorted(os.listdir()) == ["k.mlir", "pipe"] and stat.S_ISFIFO(os.stat("pipe").st_mode)


def test_a_socket_is_written_to(folder):
    with socket.socket(socket.AF_UNIX) as server:
        server.bind("socket")
        server.listen()
        assert run("opt k.mlir -o socket") == 0
        connection, _ = server.accept()
        with connection, connection.makefile() as file:
            assert file.read().startswith("cuda_tile.module @m")
    assert stat.S_ISSOCK(os.stat("socket").st_mode)


def test_output_to_a_descriptor_follows_existing_output(folder):
    with open("log", "wb") as file:
        file.write(b"before\n")
        file.flush()
        done = process("opt k.mlir -o /dev/stdout", stdout=file)
    assert done.returncode == 0
    assert (folder / "log").read_text().startswith("before\ncuda_tile.module @m")
    done = process("opt k.mlir -o /dev/fd/77", capture_output=True, text=True)
    assert done.returncode == 2
    assert done.stderr == "error: unable to open output file '/dev/fd/77': Bad file descriptor\n"


# ---- whole or not at all ---------------------------------------------------------------------------------------------


def test_a_file_is_replaced_and_keeps_its_permissions(folder):
    for name, mode in (("private", 0o600), ("program", 0o755)):
        (folder / name).write_text("old")
        (folder / name).chmod(mode)
        with open(name) as old:
            assert run(f"opt k.mlir -o {name}") == 0
            assert old.read() == "old", "who reads the old file goes on reading it"
        assert stat.S_IMODE(os.stat(name).st_mode) == mode
        assert (folder / name).read_text().startswith("cuda_tile.module @m")
    old_mask = os.umask(0o027)
    try:
        assert run("opt k.mlir -o new") == 0
    finally:
        os.umask(old_mask)
    assert stat.S_IMODE(os.stat("new").st_mode) == 0o640


def test_a_file_behind_links_is_replaced_where_it_is(folder):
    (folder / "sub").mkdir()
    (folder / "sub" / "target").write_text("old")
    (folder / "first").symlink_to("second")
    (folder / "second").symlink_to("sub/target")
    assert run("opt k.mlir -o first") == 0
    assert (folder / "first").is_symlink() and (folder / "second").is_symlink()
    assert (folder / "sub" / "target").read_text().startswith("cuda_tile.module @m")
    assert os.listdir("sub") == ["target"]


def test_where_one_output_cannot_be_written_none_is(folder, capsys):
    (folder / "out").write_text("old")
    assert run(f"{COMPILE} -o out --depfile=nowhere/d") == 2
    assert run(f"{COMPILE} -o out --depfile=/dev/full") == 1
    assert capsys.readouterr().err.splitlines() == [
        "error: unable to open output file 'nowhere/d': No such file or directory",
        "error: IO failure on output stream: No space left on device",
    ]
    assert (folder / "out").read_text() == "old" and sorted(os.listdir()) == ["k.mlir", "out"]


def test_a_disk_that_fills_up_leaves_the_old_file(folder):
    (folder / "out").write_text("old")
    done = process(
        "opt k.mlir -o out", capture_output=True, text=True,
        preexec_fn=lambda: resource.setrlimit(resource.RLIMIT_FSIZE, (100, 100)),
    )  # fmt: skip
    assert (done.returncode, done.stderr) == (1, "error: IO failure on output stream: File too large\n")
    assert (folder / "out").read_text() == "old" and sorted(os.listdir()) == ["k.mlir", "out"]


@pytest.mark.parametrize("place, reason", [
    ("dir", "Is a directory"), ("dir/", "Is a directory"), ("k.mlir/out.npy", "Not a directory"),
    ("nowhere/out.npy", "No such file or directory"), ("nowhere/", "No such file or directory"),
])  # fmt: skip
@pytest.mark.parametrize("line", [
    f"{COMPILE} -o {{}}", f"{COMPILE} -o out --depfile={{}}", "opt k.mlir -o={}",
    "translate --mlir-to-cudatilebc k.mlir -o {}", "run k.mlir f32[16]=ones --save 0={}",
])  # fmt: skip
def test_an_invalid_location_is_one_diagnostic(folder, capsys, line, place, reason):
    (folder / "dir").mkdir()
    (folder / ".npy").mkdir()
    if line.startswith("run") and not place.endswith(".npy"):
        (folder / "dir.npy").mkdir()
        place, reason = "dir.npy", "Is a directory"
    assert run(line.format(place)) == 2
    assert capsys.readouterr().err == f"error: unable to open output file '{place}': {reason}\n"
    assert not (folder / "out").exists()


@pytest.mark.in_process
def test_protected_files_stay_unchanged(folder):
    """Neither a file that may not be written nor one in a folder that may not; the superuser may do both."""
    (folder / "closed").mkdir()
    (folder / "closed" / "old").write_text("old")
    (folder / "protected").write_text("old")
    (folder / "protected").chmod(0o444)
    (folder / "closed").chmod(0o555)
    script = (
        "import os, sys\n"
        f"sys.path[:0] = [{PACKAGE!r}]\n"
        "from tileiras.cli.tileiras_opt import main\n"
        "import tileiras.cli.outputs, tileiras.ir, tileiras.dialects.cuda_tile\n"
        "if os.geteuid() == 0:\n"
        "    os.setgroups([]), os.setgid(65534), os.setuid(65534)\n"
        "for place in 'protected', 'closed/new', 'closed/old':\n"
        "    print(main(['k.mlir', '-o', place]))\n"
    )
    for path in (folder, *folder.parents[:3]):
        if os.stat(path).st_uid == os.geteuid():
            os.chmod(path, os.stat(path).st_mode | 0o055)
    done = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, check=False)
    (folder / "closed").chmod(0o755)
    assert done.stdout == "2\n2\n2\n", done.stderr
    assert done.stderr.splitlines() == [
        f"error: unable to open output file '{place}': Permission denied"
        for place in ("protected", "closed/new", "closed/old")
    ]
    assert {path.read_text() for path in (folder / "protected", folder / "closed" / "old")} == {"old"}
    assert os.listdir("closed") == ["old"]


# ---- files besides the output ----------------------------------------------------------------------------------------


def test_intermediate_artifacts_stand_beside_files_only(folder):
    before = set(os.listdir("/dev"))
    assert run(f"{COMPILE} --save-temps -o /dev/null") == 0
    assert set(os.listdir("/dev")) == before
    assert sorted(os.listdir()) == ["k.cuda_tile.mlir", "k.mlir", "k.tileaa.mlir"]


def test_an_intermediate_artifact_is_the_only_allowed_overlap(folder, capsys):
    assert run("tileiras k.mlir --gpu-name=sm_90 --emit=ptx --save-temps") == 0
    assert (folder / "k.ptx").read_text().count(".entry k") == 1
    two = F32.replace("  entry @k(", "  entry @other() {\n    return\n  }\n  entry @k(")
    (folder / "k.mlir").write_text(two)
    before = (folder / "k.ptx").read_bytes()
    assert run("tileiras k.mlir --gpu-name=sm_90 --emit=ptx --save-temps") == 1
    assert "the files of --save-temps for 'k' and the output are one file: k.ptx" in capsys.readouterr().err
    assert (folder / "k.ptx").read_bytes() == before
    assert run("tileiras k.mlir --gpu-name=sm_90 --emit=ptx --save-temps -o k.tileas.mlir") == 1
    assert "the files of --save-temps for 'k' and the output are one file: k.tileas.mlir" in capsys.readouterr().err
    (folder / "k.tileaa.mlir").unlink()
    (folder / "k.tileaa.mlir").symlink_to("k.mlir")
    assert run("tileiras k.mlir --gpu-name=sm_90 --emit=ptx --save-temps -o out") == 1
    assert "the input and the files of --save-temps for 'k' are one file: k.mlir" in capsys.readouterr().err
    assert (folder / "k.mlir").read_text() == two


@pytest.fixture
def no_dce(monkeypatch):
    """The pass `dce` fails."""
    from tileiras.passes.dce import DeadCodeElimination

    def fail(self, op, context):
        context.engine.error(op.location, "nothing is dead here")

    monkeypatch.setattr(DeadCodeElimination, "run", fail)


@pytest.mark.in_process
def test_the_trace_has_all_parts_and_the_reproducer_the_failure(folder, capsys, no_dce):
    (folder / "parts.mlir").write_text("\n// -----\n".join(F32.replace("@m", name) for name in ("@a", "@b")))
    options = "--split-input-file --mlir-pass-pipeline-crash-reproducer=r.mlir"
    assert run(f"opt parts.mlir {options} --tileir=compute-capability=sm_90,schedule-trace-file=trace -o out") == 5
    events = json.loads((folder / "trace").read_text())["traceEvents"]
    assert [event["name"] for event in events].count("dce") == 2
    err = capsys.readouterr().err
    assert err.count("error: nothing is dead here") == 2
    assert err.count("note: reproducer generated at `r.mlir`") == 1
    assert err.count("note: no reproducer generated: `r.mlir` has that of an earlier failure") == 1
    assert "parts.mlir\":2" in (folder / "r.mlir").read_text()


@pytest.mark.parametrize("form", ["text", "json"])
@pytest.mark.parametrize("place, reason", [("nowhere/r", "No such file or directory"), ("/dev/full", "No space left")])
@pytest.mark.in_process
def test_a_reproducer_that_cannot_be_written_hides_no_failure(folder, capsys, no_dce, place, reason, form):
    option = f"--mlir-pass-pipeline-crash-reproducer={place} --diagnostics={form}"
    for line in (f"tileiras k.mlir --gpu-name=sm_80 -o out {option}", f"opt k.mlir --dce -o out {option}"):
        assert run(line) == 5
        err = capsys.readouterr().err
        assert "nothing is dead here" in err and "no reproducer generated: " in err and reason in err
        for text in err.splitlines() if form == "json" else ():
            assert json.loads(text)["severity"] == "error"


# ---- the module itself -----------------------------------------------------------------------------------------------


@pytest.mark.in_process
def test_inputs_are_compared_in_either_order(folder):
    outputs = Outputs()
    output = outputs.writes("k.mlir", "the output")
    with pytest.raises(UsageError, match="^the input and the output are one file: k.mlir$"):
        outputs.reads("k.mlir", "the input")
    for path in ("absent", "/dev/null"):
        outputs.reads(path, "no file")
        outputs.writes(path, "nothing that was read")
    assert output.problem() is None and not output.is_stream


@pytest.mark.in_process
def test_outputs_of_functions_are_written_whole_or_not_at_all(folder):
    outputs = Outputs()
    first, second = outputs.writes("first", "first"), outputs.writes("second", "second")
    outputs.publish([(first, b"data"), (second, lambda file: file.write(b"more"))])
    assert contents(folder) == {"first": b"data", "k.mlir": F32.encode(), "second": b"more"}

    def fail(file):
        file.write(b"half")
        raise OSError(28, "No space left on device")

    with pytest.raises(CompileError, match="No space left") as caught:
        outputs.publish([(first, b"other"), (second, fail)])
    assert caught.value.code == 1
    assert contents(folder) == {"first": b"data", "k.mlir": F32.encode(), "second": b"more"}


@pytest.mark.in_process
def test_remarks_that_cannot_be_written_hide_no_failure(folder, capsys, no_dce, monkeypatch):
    """The disk is full when the failure is reported."""
    from tileiras.cli import messages

    monkeypatch.setattr(messages, "to_yaml", lambda remarks: "some text")
    line = "tileiras k.mlir --gpu-name=sm_90 -o out --verify-each --remarks=all --remark-format=yaml"
    assert run(f"{line} --remarks-output-file=/dev/full") == 5
    err = capsys.readouterr().err
    assert "nothing is dead here" in err and "IO failure on output stream: No space left on device" in err
