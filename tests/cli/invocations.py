"""Command lines for the compiler's command, and how a tool answers them.

    python tests/cli/invocations.py TOOL > tests/cli/invocations.json

records the answers of the vendor's tool: exit code, standard error, output files.  `OURS` has the rows in which we
differ by choice, each with the reason; `docs/command-line.md` documents them for users.
"""

from __future__ import annotations

import json
import os
import re
import shlex
import struct
import subprocess
import sys
from pathlib import Path

RELEASE = "13.5"
"""The vendor's release that was recorded."""

RECORDED = Path(__file__).with_name("invocations.json")

KERNEL = """\
cuda_tile.module @m {
  entry @k(%p: tile<ptr<TYPE>>) {
    %i = iota : tile<16xi32>
    %b = reshape %p : tile<ptr<TYPE>> -> tile<1xptr<TYPE>>
    %q = broadcast %b : tile<1xptr<TYPE>> -> tile<16xptr<TYPE>>
    %a = offset %q, %i : tile<16xptr<TYPE>>, tile<16xi32> -> tile<16xptr<TYPE>>
    %v, %t = load_ptr_tko weak %a : tile<16xptr<TYPE>> -> tile<16xTYPE>, token
    %t2 = store_ptr_tko weak %a, %v : tile<16xptr<TYPE>>, tile<16xTYPE> -> token
    return
  }
}
"""

HINTS = """\
cuda_tile.module @m {
  entry @k() optimization_hints=<sm_90 = {allow_tma = true}> {
    return
  }
}
"""

INVOCATIONS = r"""

''
good.bc
good.bc --gpu-name sm_90
good.bc --gpu-name sm_90 -o out.cubin
good.bc --gpu-name=sm_90 -o=out.cubin
good.bc -gpu-name=sm_90 -oout.cubin
good.bc -arch=sm_90 --output-file out.cubin
good.bc --arch sm_90 --output-file=out.cubin
good.bc --gpu-name sm_75
good.bc --gpu-name sm_90a
good.bc --gpu-name SM_90
good.bc --gpu-name
good.bc --gpu-name=
good.bc --gpu-name sm_90 --arch sm_80 -o o
good.bc --gpu-name sm_90 --gpu-name sm_75
good.bc --gpu-name sm_90 -O0 -o o
good.bc --gpu-name sm_90 --O2 -o o
good.bc --gpu-name sm_90 -O0x2 -o o
good.bc --gpu-name sm_90 -O 2 -o o
good.bc --gpu-name sm_90 -O=1 -o o
good.bc --gpu-name sm_90 -O5
good.bc --gpu-name sm_90 -O-1
good.bc --gpu-name sm_90 -Ofast
good.bc --gpu-name sm_90 -O3x
good.bc --gpu-name sm_90 -O99999999999
good.bc --gpu-name sm_90 -O
good.bc --gpu-name sm_90 --opt-level
good.bc --gpu-name sm_90 --opt-level=4
good.bc --gpu-name sm_90 --opt-level 2 -O3 -o o
good.bc --gpu-name sm_90 -g
good.bc --gpu-name sm_90 --device-debug --lineinfo -O3
good.bc --gpu-name sm_90 -g=false -o o
good.bc --gpu-name sm_90 -g=maybe
good.bc --gpu-name sm_90 --lineinfo -o o
good.bc --gpu-name sm_90 -lineinfo=0 -o o
good.bc --gpu-name sm_90 --lineinfo=TRUE --lineinfo= -o o
good.bc --gpu-name sm_90 --lineinfo=yes
good.bc --gpu-name sm_90 --lineinfo true
good.bc --gpu-name sm_90 ---lineinfo
good.bc --gpu-name sm_90 -go -o o
good.bc --gpu-name sm_90 -gx
good.bc --gpu-name sm_90 -lO
good.bc --gpu-name sm_90 -w -o o
good.bc --gpu-name sm_90 --host-arch x86_64 --host-os linux -o o
good.bc --gpu-name sm_90 --host-arch aarch64 --host-os windows -o o
good.bc --gpu-name sm_90 --host-arch arm64ec
good.bc --gpu-name sm_90 --host-os darwin
good.bc --gpu-name sm_90 --sanitize=memcheck -o o
good.bc --gpu-name sm_90 --sanitize=racecheck
good.bc --gpu-name sm_90 --sanitize
good.bc --gpu-name sm_90 --apply-controls=none.acf
good.bc --gpu-name sm_90 --apply-controls
good.bc --gpu-name sm_90 --preview=simt -o o
good.bc --gpu-name sm_90 --preview=nothing
good.bc --gpu-name sm_90 --preview=simt,nothing
good.bc --gpu-name sm_90 --preview -o o
good.bc --gpu-name sm_90 -l lib.bc
good.bc --gpu-name sm_90 --preview=simt -l lib.bc
good.bc --gpu-name sm_90 --preview=simt -l good.bc
good.bc --gpu-name sm_90 -llib.bc
good.bc --gpu-name sm_90 -l
missing.bc
missing.bc --gpu-name sm_90 -O5 -g
missing.bc --gpu-name sm_91
missing.bc --apply-controls=x
dir --gpu-name sm_90
zero.bc --gpu-name sm_90
short.bc --gpu-name sm_90
header.bc --gpu-name sm_90
magic.bc
magic.bc --gpu-name sm_90 -O5
magic.bc --gpu-name sm_90 -l x --apply-controls=x
mlir.bc --gpu-name sm_90
text.mlir --gpu-name sm_90
version.bc
major.bc --gpu-name sm_90
cut.bc
cut.bc --gpu-name sm_90
cut.bc --gpu-name sm_90 -O5
cut.bc --gpu-name sm_90 -g
cut.bc --gpu-name sm_90 -l x
end.bc --gpu-name sm_90
more.bc --gpu-name sm_90
empty13.1.bc --gpu-name sm_120 -o o
empty13.4.bc --gpu-name sm_120 -o o
empty13.4.bc
empty13.1.bc --gpu-name sm_80 -g -O0 -o o
f8.bc --gpu-name sm_80
f8.bc --gpu-name sm_80 -o nowhere/o
f8.bc --gpu-name sm_80 -O5
f8.bc --gpu-name sm_89 -o o
hints.bc --gpu-name sm_90 -o o
hints.bc --gpu-name sm_90 --Wunsupported-hints -o o
hints.bc --gpu-name sm_90 --Wunsupported-hints --Werr-hints
good.bc -O7 -g
good.bc --gpu-name sm_90 -O7 -g
good.bc --apply-controls=x
good.bc --gpu-name sm_90 -O5 --apply-controls=x
good.bc --gpu-name sm_90 -l x --apply-controls=x
good.bc --gpu-name sm_90 -o dir
good.bc --gpu-name sm_90 -o nowhere/o
good.bc --gpu-name sm_90 -o ''
good.bc --gpu-name sm_90 -o /dev/full
good.bc --gpu-name sm_90 -o
good.bc --gpu-name sm_90 -o a -o b
good.bc good.bc --gpu-name sm_90
good.bc missing.bc
--gpu-name sm_90 -- good.bc
--gpu-name sm_90 -- -o
@words
@absent --gpu-name sm_90
--bogus
good.bc --gpu-name sm_90 --bogus=3
good.bc --gpu-nam sm_90
good.bc --gpu-name sm_91 --bogus
good.bc --bogus --gpu-name sm_91
--bogus --worse
good.bc good.bc --bogus
-x
--version --bogus
--bogus --version
--version=1
-h
-help --bogus
--help=1
--list-versions
--list-versions missing.bc --gpu-name sm_91
--list-versions=0 good.bc
--list-versions=maybe
--bogus --list-versions
good.bc --gpu-name sm_90 --remarks=tensorcore -o o
good.bc --gpu-name sm_90 --remarks=some
good.bc --gpu-name sm_90 --remarks=none --remark-format=yaml -o o
good.bc --gpu-name sm_90 --remarks=all --remark-format=json
good.bc --gpu-name sm_90 --remarks=all --remark-format=yaml -o o
good.bc --gpu-name sm_90 --remarks-passed=memory --remark-format yaml --remarks-output-file=r -o o
good.bc --gpu-name sm_90 --remarks=all --remarks=none --remark-format=yaml -o o
good.bc --gpu-name sm_90 --remarks=all --remark-format=yaml --remarks-output-file=nowhere/r
good.bc --gpu-name sm_90 --remarks=all --remark-format=yaml --remarks-output-file=nowhere/r -O5
good.bc --gpu-name sm_90 --remarks=all --remark-format=yaml --remarks-output-file=nowhere/r -l x
cut.bc --gpu-name sm_90 --remarks=all --remark-format=yaml
f8.bc --gpu-name sm_80 --remarks=all --remark-format=yaml --remarks-output-file=r -o o
good.bc --gpu-name sm_90 --print-options --print-all-options -o o
good.bc --gpu-name sm_90 --remarks-analysis=all --remark-format=yaml --remarks-output-file=r -o o
good.bc --gpu-name sm_90 --remark-format=yaml --remarks-output-file=r -o o
good.bc --gpu-name sm_90 --remarks-output-file=r -o o
good.bc --gpu-name sm_90 --remarks=all --remark-format=yaml --remarks-output-file= -o o
good.bc --gpu-name sm_90 --remarks=all --remark-format=yaml --remarks-output-file=dir -o o
good.bc --gpu-name sm_90 --remarks=all --remark-format=yaml --remarks-output-file=- -o o
good.bc --gpu-name sm_90 --remarks=all --remark-format=yaml --remarks-output-file=o -o o
good.bc --gpu-name sm_90 --remarks=all --remark-format=yaml --remarks-output-file=/dev/null -o o
good.bc --gpu-name sm_90 --remarks=all,memory -o o
good.bc --gpu-name sm_90 --remarks -o o
good.bc --gpu-name sm_90 --remarks=
good.bc --gpu-name sm_90 --remarks-passed
good.bc --gpu-name sm_90 --remark-format=
good.bc --gpu-name sm_90 --remarks=none --remarks-passed=all --remark-format=yaml --remarks-output-file=r -o o
good.bc --gpu-name sm_90 --remarks-passed=all --remarks=none --remark-format=yaml --remarks-output-file=r -o o
f8.bc --gpu-name sm_80 --remarks=all --remark-format=yaml --remarks-output-file=nowhere/r
magic.bc --gpu-name sm_90 --remarks=all --remark-format=yaml --remarks-output-file=nowhere/r
good.bc --remarks=all --remark-format=yaml --remarks-output-file=nowhere/r
good.bc --gpu-name sm_90 --remarks=all --remark-format=yaml --remarks-output-file=r -o nowhere/o
good.bc --gpu-name sm_90 --remarks=all --remark-format=yaml --remarks-output-file=r -l x -o o
good.bc --gpu-name sm_90 --preview=simt -l missing -l alsomissing
good.bc --gpu-name sm_90 --preview=simt -l dir
good.bc --gpu-name sm_90 --preview=simt -l zero.bc
good.bc --gpu-name sm_90 --preview=simt -l ''
good.bc --gpu-name sm_90 --preview=simt -l short.o
good.bc --gpu-name sm_90 --preview=simt -l cut.o
good.bc --gpu-name sm_90 --preview=simt -l other.o
good.bc --gpu-name sm_90 --preview=simt -l tile.o -o o
good.bc --gpu-name sm_90 --preview=simt -l tile.o -l code.o -o o
good.bc --gpu-name sm_90 --preview=simt -l tile.o -l missing
good.bc --gpu-name sm_90 --preview=simt -l three.o
good.bc --gpu-name sm_90 --preview=simt -l two.o
good.bc --gpu-name sm_90 --preview=simt -l damaged.o
good.bc --gpu-name sm_90 --preview=simt -l text.o
good.bc --gpu-name sm_90 -l tile.o
cut.bc --gpu-name sm_90 --preview=simt -l short.o
good.bc --gpu-name sm_90 --preview=SIMT
good.bc --gpu-name sm_90 --preview=
good.bc --gpu-name sm_90 --preview=simt,
good.bc --gpu-name sm_90 --preview=simt,simt -o o
good.bc --gpu-name sm_90 --preview=simt --preview=x
previews.bc
previews.bc --gpu-name sm_90
previews.bc --gpu-name sm_90 -O5
previews.bc --gpu-name sm_90 --preview=simt -o o
previews13.4.bc --gpu-name sm_90 --preview=simt
good.bc --gpu-name sm_90 -o o -- extra
-- good.bc --gpu-name sm_90
--
good.bc - --gpu-name sm_90
-o o --gpu-name=sm_90 -O1 --lineinfo good.bc
good.bc -gpu-name sm_90 -opt-level 1 -output-file o
good.bc --gpu-name sm_90 -O1 -O2 --opt-level=0 -o o
good.bc --gpu-name sm_90 -g -O0 -o o
good.bc --gpu-name sm_90 --device-debug=true -O0 --lineinfo -o o
good.bc --gpu-name sm_90 -gO0 -o o
good.bc --gpu-name sm_90 -O0g
good.bc --gpu-name sm_90 -O+1
good.bc --gpu-name sm_90 '-O 1'
good.bc --gpu-name sm_90 --opt-level= -o o
good.bc --gpu-name sm_90 --O 1 -o o
good.bc --gpu-name sm_90 -o -
good.bc --gpu-name sm_90 -o /dev/null
good.bc --gpu-name sm_90 -o o/
good.bc --gpu-name sm_90 -o o -o ''
good.bc --gpu-name ' sm_90'
good.bc --gpu-name sm_100f
good.bc --gpu-name=sm_90,sm_100
good.bc --gpu-name sm_70
cut.bc --gpu-name sm_75 -O9
dir/
nowhere/good.bc --gpu-name sm_90
good.bc/ --gpu-name sm_90
missing.bc --bogus
mlir.bc --gpu-name sm_90 -O5
version.bc --gpu-name sm_90 -O5
empty13.1.bc --gpu-name sm_90 --remarks=all --remark-format=yaml --remarks-output-file=r -o o
good.bc --gpu-name sm_90 --sanitize memcheck -g -O0 -o o
good.bc --gpu-name sm_90 --sanitize=
good.bc --gpu-name sm_90 --host-arch=
@words -O1 -o o
@quoted -o o
@nested
@open -o o
@loop --gpu-name sm_90
@dir --gpu-name sm_90
--print-options
good.bc --print-all-options --gpu-name sm_90 -o o
good.bc --w --gpu-name sm_90 -o o
good.bc -w=maybe --gpu-name sm_90
hints.bc --gpu-name sm_90 --Werr-hints -o o
hints.bc --gpu-name sm_80 --Wunsupported-hints -o o
f8.bc --gpu-name sm_90 -O0 -g -o o
f8.bc --gpu-name sm_80 --lineinfo
f8.bc --gpu-name sm_80 --apply-controls=x
good.bc --gpu-name sm_90 --apply-controls text.mlir
good.bc -O3 -p sm_90
good.bc --gpu-name sm_90 -Dx=1
good.bc --gpu-name sm_90 --opt_level=3
good.bc text.mlir --gpu-name sm_90
good.bc good.bc good.bc
""".split("\n")[1:-1]

UNNAMED_DAMAGE = "we tell the damage once, not again for each part of the reader that met it"
NO_WORD = "the vendor's tool says nothing"

OURS: dict[str, dict] = {
    "good.bc --gpu-name sm_75": {"code": 0, "error": "", "files": ["elf.o"], "why": "sm_75 is a target"},
    "good.bc --gpu-name sm_90 --gpu-name sm_75": {
        "code": 0, "error": "", "files": ["elf.o"], "why": "sm_75 is a target",
    },
    "text.mlir --gpu-name sm_90": {"code": 0, "error": "", "files": ["elf.o"], "why": "text is read"},
    "header.bc --gpu-name sm_90": {
        "error": "error: input does not correspond to Tile IR bytecode",
        "why": "the vendor's tool reads a version behind the end of the file",
    },
    "cut.bc --gpu-name sm_90": {
        "error": "error: error at offset 66: section length 100 exceeds remaining data size 25\n"
        "error: input does not correspond to Tile IR bytecode",
        "why": UNNAMED_DAMAGE,
    },
    "end.bc --gpu-name sm_90": {
        "error": "error: error at offset 181: unexpected end of data while reading section header\n"
        "error: input does not correspond to Tile IR bytecode",
        "why": UNNAMED_DAMAGE,
    },
    **{
        line: {
            "error": f"error: unable to read controls file '{name}': No such file or directory",
            "why": "ptxas gets the file, where there is one",
        }
        for line, name in (
            ("good.bc --gpu-name sm_90 --apply-controls=none.acf", "none.acf"),
            ("good.bc --gpu-name sm_90 -l x --apply-controls=x", "x"),
            ("f8.bc --gpu-name sm_80 --apply-controls=x", "x"),
        )
    },
    "good.bc --gpu-name sm_90 --apply-controls text.mlir": {
        "code": 5,
        "error": "error: ptxas failed with exit status 255\nptxas fatal   : Invalid compiler controls file\n"
        "error: failed to compile Tile IR program",
        "why": "ptxas gets the file, and judges it",
    },
    "good.bc --gpu-name sm_90 --preview=simt -l other.o": {
        "error": "error: failed to load linkage provider: other.o",
        "why": "the vendor's tool adds what the system's loader says",
    },
    "good.bc --gpu-name sm_90 --preview=simt -l damaged.o": {
        "error": "error: error at offset 66: section length 100 exceeds remaining data size 25\n"
        "error: failed to read interface and splice it into the module",
        "why": UNNAMED_DAMAGE,
    },
    "cut.bc --gpu-name sm_75 -O9": {
        "code": 2, "error": "error: invalid optimization level: 9", "why": "sm_75 is a target",
    },
    "good.bc --gpu-name sm_90 -o dir": {
        "error": "error: unable to open output file 'dir': Is a directory", "why": NO_WORD,
    },
    "good.bc --gpu-name sm_90 -o nowhere/o": {
        "error": "error: unable to open output file 'nowhere/o': No such file or directory", "why": NO_WORD,
    },
    "good.bc --gpu-name sm_90 -o ''": {
        "error": "error: unable to open output file '': No such file or directory", "why": NO_WORD,
    },
    "good.bc --gpu-name sm_90 -o /dev/full": {
        "error": "error: IO failure on output stream: No space left on device",
        "why": "the vendor's tool ends in LLVM's handler of fatal errors",
    },
}  # fmt: skip
for _line, _same in (
    ("cut.bc --gpu-name sm_90 -l x", "cut.bc --gpu-name sm_90"),
    ("cut.bc --gpu-name sm_90 --remarks=all --remark-format=yaml", "cut.bc --gpu-name sm_90"),
    ("cut.bc --gpu-name sm_90 --preview=simt -l short.o", "cut.bc --gpu-name sm_90"),
    ("good.bc --gpu-name sm_90 -o o -o ''", "good.bc --gpu-name sm_90 -o ''"),
    (
        "good.bc --gpu-name sm_90 --remarks=all --remark-format=yaml --remarks-output-file=r -o nowhere/o",
        "good.bc --gpu-name sm_90 -o nowhere/o",
    ),
):
    OURS[_line] = OURS[_same]
OURS["good.bc --gpu-name sm_90 --remarks=all --remark-format=yaml --remarks-output-file=o -o o"] = {
    "code": 1, "error": "tileiras: --remarks-output-file and the output are one file: o", "files": [],
    "why": "the vendor's tool replaces the remarks by the cubin",
}  # fmt: skip
OURS["good.bc --gpu-name sm_90 -o o/"] = {
    "error": "error: unable to open output file 'o/': No such file or directory", "why": NO_WORD,
}  # fmt: skip


def make_inputs(folder: Path) -> None:
    """The files that command lines name."""
    from tileiras import api

    def bytecode(text: str, version: str = "13.1") -> bytes:
        return api.compile(text, gpu_name="sm_90", emit="bytecode", bytecode_version=version).data

    text = KERNEL.replace("TYPE", "f32")
    good = bytecode(text)
    files = {
        "good.bc": good,
        "text.mlir": text.encode(),
        "zero.bc": b"",
        "short.bc": good[:4],
        "header.bc": good[:8],
        "magic.bc": b"\x7fTileIS\0" + good[8:],
        "mlir.bc": b"ML\xefR\x0dMLIR bytecode" + bytes(10),
        "version.bc": good[:8] + b"\x0d\x09" + good[10:],
        "major.bc": good[:8] + b"\x0e\x01" + good[10:],
        "cut.bc": good[: len(good) // 2],
        "end.bc": good[:-1],
        "more.bc": good + b"xyz",
        "empty13.1.bc": bytecode("cuda_tile.module @m {\n}\n"),
        "empty13.4.bc": bytecode("cuda_tile.module @m {\n}\n", "13.4"),
        "f8.bc": bytecode(KERNEL.replace("TYPE", "f8E4M3FN")),
        "hints.bc": bytecode(HINTS),
        "words": b"good.bc --gpu-name sm_90 -O5",
        "quoted": b"'good.bc'\n--gpu-name\t\"sm_90\"",
        "nested": b"@quoted -o o",
        "open": b"good.bc --gpu-name 'sm_90",
        "loop": b"good.bc @loop",
    }
    empty = files["empty13.4.bc"]
    files["previews13.4.bc"] = empty[:10] + b"\1" + empty[11:]
    files["previews.bc"] = empty[:9] + b"\5\1" + empty[11:]
    tile = object_file({".nvtlifc": empty, ".nvtl.0": empty})
    files |= {
        "tile.o": tile,
        "code.o": object_file({".nvtlifc": empty, ".nvtl.0": empty, ".nvtl.1": b"code"}),
        "two.o": object_file({".nvtlifc": empty, ".nvtl.0": empty, ".nvtl.1": empty}),
        "three.o": object_file({".nvtlifc": empty, ".nvtl.0": empty, ".nvtl.1": b"code", ".nvtl.2": b"code"}),
        "damaged.o": object_file({".nvtlifc": files["cut.bc"], ".nvtl.0": empty}),
        "text.o": object_file({".nvtlifc": b"text", ".nvtl.0": empty}),
        "other.o": object_file({".data": b"data"}),
        "short.o": tile[:20],
        "cut.o": tile[:100],
    }
    for name, data in files.items():
        (folder / name).write_bytes(data)
    (folder / "dir").mkdir()


def object_file(sections: dict[str, bytes]) -> bytes:
    """An ELF file for x86-64 that has these sections, as tile libraries are (System V gABI, chapter 4)."""
    names = b"".join(b"\0" + name.encode() for name in (*sections, ".shstrtab")) + b"\0"
    rows, data = [bytes(64)], b""
    for name, content in {**sections, ".shstrtab": names}.items():
        kind = 3 if name == ".shstrtab" else 1  # SHT_STRTAB, SHT_PROGBITS
        at = names.index(b"\0" + name.encode() + b"\0") + 1
        rows.append(struct.pack("<IIQQQQIIQQ", at, kind, 0, 0, 64 + len(data), len(content), 0, 0, 1, 0))
        data += content
    data += bytes(-len(data) % 8)
    header = struct.pack("<HHIQQQIHHHHHH", 1, 62, 1, 0, 0, 64 + len(data), 0, 64, 0, 0, 64, len(rows), len(rows) - 1)
    return b"\x7fELF\2\1\1".ljust(16, b"\0") + header + data + b"".join(rows)


def normalized(error: str) -> str:
    """Standard error without the parts that differ by choice or machine: folders, suggestions, blank lines, notes."""
    error = re.sub(r"[^\s']*/(?=tileiras --help)", "", error)
    error = re.sub(r"'/[^']*/(?=[^/']+')", "'", error)
    lines = error.split("\n")
    lines = [line for line in lines if line.strip() and "Did you mean" not in line and not line.startswith("note: ")]
    return "\n".join(lines)


def answer(tool: str, line: str, folder: Path) -> dict:
    """The answer of a tool to one command line in a folder with the inputs; its output files are removed."""
    before = set(os.listdir(folder))
    done = subprocess.run(
        [tool, *shlex.split(line)], cwd=folder, stdin=subprocess.DEVNULL, capture_output=True, check=False
    )
    return {
        "code": done.returncode,
        "error": normalized(done.stderr.decode(errors="replace")),
        "files": leave(folder, before),
    }


def leave(folder: Path, before: set[str]) -> list[str]:
    """The new files of a folder, which are removed."""
    new = sorted(set(os.listdir(folder)) - before)
    for name in new:
        os.unlink(folder / name)
    return new


def main(tool: str) -> None:
    import tempfile

    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        make_inputs(folder)
        recorded = {line: answer(tool, line, folder) for line in INVOCATIONS}
    print(json.dumps(recorded, indent=1))


if __name__ == "__main__":
    main(os.path.abspath(sys.argv[1]))
