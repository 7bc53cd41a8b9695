"""tileiras-run: run a kernel on a machine with or without a GPU.

    tileiras-run saxpy.mlir --entry saxpy --grid 3 --print 1 'f32[3000]=arange' 'f32[3000]=ones' 'f32=2' 'i32=3000'

IN is Tile IR text, bytecode, a cuTile Python file, or PTX (`--backend emulate` only).  Each ARG is one parameter of the
entry, in order:

    i32=5  f32=0.5  i1=1         a scalar
    f32[64,64]=zeros             a pointer to fresh memory: zeros, ones, full(X), arange, arange(START,STEP),
                                 random(SEED) in [0,1), normal(SEED), integers(SEED,LOW,HIGH)
    f32[64,60:64]=zeros          60 of 64 columns: an array of the sizes after the colons, cut to those before them
    @data.npy  bf16@bits.npy     a pointer to the array of a file, its bits read as another type of the same size
    &0  &0+128                   the same pointer as argument 0, or that many elements behind it
    array:f32[64,60:64]=zeros    the slots of a cuTile Python array: pointer, every size, every stride in elements

`--print N` prints the array that ARG number N (from 0) left behind, `--save N=FILE.npy` writes it.

Exit status: 0; 1 bad command line; 2 configuration; 3 the input does not parse or verify; 5 it does not compile; 6 the
kernel failed while it ran.
"""

from __future__ import annotations

import os
import re
import sys
from collections.abc import Callable
from typing import IO, TYPE_CHECKING, Any

from tileiras.cli import process
from tileiras.cli.outputs import Output, Outputs
from tileiras.cli.process import UsageError
from tileiras.diagnostics import CompileError, ExitCode
from tileiras.named_tuple import NamedTuple
from tileiras.sim.errors import SimulationError

if TYPE_CHECKING:
    import numpy as np

KERNEL_FAILED = 6
BACKENDS = ("interpret", "emulate", "cuda")


class KernelFailed(Exception):
    """The emulator, or the GPU or its driver, refused the kernel or stopped it."""


class Argument(NamedTuple):
    """One ARG: the array to look at afterwards (None for a scalar) and the parameters it fills."""

    array: np.ndarray | None
    parameters: list[Any]


# ---- the argument language ---------------------------------------------------------------------------------------


def element_dtype(name: str) -> np.dtype:
    """The NumPy type of an MLIR element type's memory: bf16 and f8 from ml_dtypes, i1 a byte."""
    import ml_dtypes
    import numpy as np

    special = {
        "i1": np.bool_,
        "bf16": ml_dtypes.bfloat16,
        "tf32": np.float32,
        "f8E4M3FN": ml_dtypes.float8_e4m3fn,
        "f8E5M2": ml_dtypes.float8_e5m2,
        "f8E8M0FNU": ml_dtypes.float8_e8m0fnu,
    }
    plain = {f"i{w}": f"int{w}" for w in (8, 16, 32, 64)} | {f"f{w}": f"float{w}" for w in (16, 32, 64)}
    if name in special:
        return np.dtype(special[name])
    if name in plain:
        return np.dtype(plain[name])
    raise UsageError(f"unknown element type '{name}'; known are {', '.join([*plain, *special])}")


def _numbers(text: str, what: str, least: int, most: int) -> list[float]:
    parts = [part.strip() for part in text.split(",") if part.strip()]
    try:
        values = [float(part) if "." in part or "e" in part.lower() else int(part, 0) for part in parts]
    except ValueError:
        raise UsageError(f"{what} takes numbers, got '{text}'") from None
    if not least <= len(values) <= most:
        raise UsageError(f"{what} takes {least if least == most else f'{least} to {most}'} numbers, got {len(values)}")
    return values


def _filled(shape: tuple[int, ...], dtype: np.dtype, how: str) -> np.ndarray:
    import numpy as np

    name, _, rest = how.partition("(")
    if rest and not rest.endswith(")"):
        raise UsageError(f"missing ')' in '{how}'")
    inner = rest[:-1]
    count = int(np.prod(shape))
    if name in ("zeros", "ones") and not rest:
        return np.full(shape, float(name == "ones")).astype(dtype)
    if name == "full":
        return np.full(shape, _numbers(inner, "full", 1, 1)[0]).astype(dtype)
    if name == "arange":
        start, step = [*_numbers(inner, "arange", 0, 2), *(0, 1)[len(_numbers(inner, "arange", 0, 2)) :]]
        return (start + step * np.arange(count)).reshape(shape).astype(dtype)
    if name in ("random", "normal"):
        generator = np.random.default_rng(int(_numbers(inner or "0", name, 1, 1)[0]))
        draw = generator.random if name == "random" else generator.standard_normal
        return draw(shape).astype(dtype)
    if name == "integers":
        seed, low, high = map(int, _numbers(inner, "integers", 3, 3))
        return np.random.default_rng(seed).integers(low, high, shape).astype(dtype)
    raise UsageError(f"unknown contents '{how}'; see --help for what an array can hold")


def _array(text: str, how: str) -> np.ndarray:
    """`f32[64,60:64]` and its contents; a size with a colon is the visible part of a larger one."""
    name, _, rest = text.partition("[")
    if not rest.endswith("]"):
        raise UsageError(f"missing ']' in '{text}'")
    visible, whole = [], []
    for size in rest[:-1].split(","):
        shown, _, full = size.partition(":")
        try:
            visible.append(int(shown))
            whole.append(int(full) if full else int(shown))
        except ValueError:
            raise UsageError(f"'{size}' is not a size in '{text}'") from None
        if not 0 <= visible[-1] <= whole[-1]:
            raise UsageError(f"size {visible[-1]} exceeds {whole[-1]} in '{text}'")
    return _filled(tuple(whole), element_dtype(name), how)[tuple(slice(size) for size in visible)]


def _load_file(type_name: str, path: str) -> np.ndarray:
    import numpy as np

    try:
        array = np.load(path)
    except (OSError, ValueError) as problem:
        raise UsageError(f"cannot read '{path}': {problem}") from None
    if not type_name:
        return array
    dtype = element_dtype(type_name)
    if dtype.itemsize != array.dtype.itemsize:
        raise UsageError(f"'{path}' holds {array.dtype}, which has not the size of {type_name}")
    return array.view(dtype)


def parse_argument(text: str, earlier: list[Argument]) -> Argument:
    """One ARG of the command line; raises UsageError."""
    import numpy as np

    if text.startswith("&"):
        number, _, distance = text[1:].partition("+")
        try:
            array, skip = earlier[int(number)].array, int(distance or 0)
        except (ValueError, IndexError):
            raise UsageError(f"'{text}' names no earlier argument") from None
        if array is None:
            raise UsageError(f"argument {number} is not an array")
        shifted = array.reshape(-1)[skip:] if skip else array
        if not np.shares_memory(shifted, array) and shifted.size:
            raise UsageError(f"argument {number} is not contiguous, so '{text}' has no meaning")
        return Argument(shifted, [shifted])
    described = text.removeprefix("array:")
    type_name, at, path = described.partition("@")
    head, equals, how = described.partition("=")
    if at and not equals:
        array = _load_file(type_name, path)
    elif not equals:
        raise UsageError(f"'{text}' is not an argument; expected TYPE=VALUE, TYPE[SIZES]=CONTENTS, @FILE.npy or &N")
    elif "[" in head:
        array = _array(head, how)
    else:
        dtype = element_dtype(head)
        value = _numbers(how, head, 1, 1)[0]
        return Argument(None, [int(value) if dtype.kind in "bi" else dtype.type(value)])
    if described == text:
        return Argument(array, [array])
    strides = [stride // array.itemsize for stride in array.strides]
    return Argument(array, [array, *array.shape, *strides])


def parse_grid(text: str) -> tuple[int, ...]:
    try:
        sizes = tuple(int(size) for size in text.split(","))
    except ValueError:
        raise UsageError(f"'{text}' is not a grid; expected X[,Y[,Z]]") from None
    if not 1 <= len(sizes) <= 3 or min(sizes) < 1:
        raise UsageError(f"a grid has one to three positive sizes, got '{text}'")
    return sizes


# ---- back ends ---------------------------------------------------------------------------------------------------


def _interpret(options: Any, arguments: list[Any]) -> None:
    import tileiras
    from tileiras.sim import interpret

    undefined = interpret(tileiras.parse(options.input), options.entry, options.grid, arguments)
    for position, where in undefined.items():
        many = f"{where.sum()} of {where.size} elements"
        print(f"warning: {many} of argument {position} are undefined by the specification", file=sys.stderr)


class Compiled(NamedTuple):
    """PTX, the name of the entry to run, and its launch description (None for PTX given as such)."""

    ptx: str
    entry: str
    metadata: dict[str, Any] | None


def _choose(entries: list[str], options: Any) -> str:
    if options.entry is None and len(entries) == 1:
        return entries[0]
    if options.entry not in entries:
        raise UsageError(f"--entry must be one of {', '.join(entries) or 'no entries'}")
    return options.entry


def compile_for(options: Any, gpu_name: str) -> Compiled:
    """The input as PTX for `--gpu-name`, `gpu_name` when that is not given; PTX itself is taken as it is."""
    if options.input.endswith(".ptx"):
        with open(options.input, encoding="utf-8") as file:
            ptx = file.read()
        entries = re.findall(r"^\s*(?:\.visible\s+)?\.entry\s+([\w$]+)", ptx, re.MULTILINE)
        return Compiled(ptx, _choose(entries, options), None)
    import json

    import tileiras

    level = options.opt_level
    gpu = options.gpu_name or gpu_name
    # Lines change no instruction, and tell where one that fails is from.
    lines = options.backend == "emulate"
    artifact = tileiras.compile(options.input, gpu_name=gpu, opt_level=level, entry=options.entry, lineinfo=lines)
    kernels = {kernel.name: kernel for kernel in artifact.kernels}
    entry = _choose(list(kernels), options)
    metadata = kernels[entry].artifacts.get(".json")
    return Compiled(artifact.text, entry, None if metadata is None else json.loads(metadata))


def _emulate(options: Any, arguments: list[Any]) -> None:
    from tileiras.sim import emulate
    from tileiras.sim.emulator.errors import EmulationError

    if not options.input.endswith(".ptx"):
        # PTX knows sizes of parameters, the module their types.
        import tileiras
        from tileiras.sim.interpreter import check_arguments

        check_arguments(tileiras.parse(options.input), options.entry, arguments)
    compiled = compile_for(options, "sm_80")
    try:
        result = emulate(compiled.ptx, compiled.entry, options.grid, arguments, metadata=compiled.metadata)
    except EmulationError as error:
        raise KernelFailed(_with_source(error, compiled.ptx, os.path.dirname(options.input))) from None
    print(result.output, end="")


def _with_source(error: Any, ptx: str, folder: str) -> str:
    """What the emulator says, at the line of the source that the PTX names, from `folder` if it is there."""
    from tileiras.diagnostics import Diagnostic, Severity
    from tileiras.ir import FileLineColLoc
    from tileiras.sim.emulator.source import source_positions

    # Columns of Python's syntax trees count from 0.
    places = [
        FileLineColLoc(file, line, column + file.endswith(".py"))
        for file, line, column in source_positions(ptx, error.line or 0)
    ]
    if not places:
        return str(error)
    _, *details = str(error).split("\n")
    notes = [Diagnostic.note(place, "called from here") for place in places[1:]]
    notes += [Diagnostic.note(None, detail.strip()) for detail in (*details, f"in line {error.line} of the PTX")]
    sources = {}
    for name in {place.filename for place in places}:
        path = os.path.join(folder, name)
        if os.path.isfile(path):
            with open(path, encoding="utf-8", errors="replace") as file:
                sources[name] = file.read()
    return Diagnostic(Severity.ERROR, places[0], error.message, notes).render(sources)


def _cuda(options: Any, arguments: list[Any]) -> None:
    from tileiras.runtime import ArgumentError, DriverError, launch
    from tileiras.runtime.driver import load_driver

    try:
        device = load_driver().compute_capability(0)
    except DriverError as error:
        message = f"{error}; use --backend interpret or emulate"
        raise CompileError.at(None, message, ExitCode.CONFIGURATION) from None
    compiled = compile_for(options, f"sm_{device}")
    try:
        launch(compiled.ptx, compiled.entry, options.grid, arguments, metadata=compiled.metadata)
    except ArgumentError as error:
        raise UsageError(str(error)) from None
    except DriverError as error:
        raise KernelFailed(str(error)) from None


_RUN = {"interpret": _interpret, "emulate": _emulate, "cuda": _cuda}


# ---- the program -------------------------------------------------------------------------------------------------


def build_parser():
    import argparse

    class Parser(argparse.ArgumentParser):
        def error(self, message):
            raise UsageError(message)

    parser = Parser(prog="tileiras-run", description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("input", metavar="IN")
    parser.add_argument("arguments", metavar="ARG", nargs="*")
    parser.add_argument("--entry", help="the kernel to run; may be left out when there is only one")
    parser.add_argument("--grid", default="1", metavar="X[,Y[,Z]]", help="number of tile blocks (default 1)")
    parser.add_argument("--backend", default="interpret", choices=BACKENDS)
    parser.add_argument("--gpu-name", help="what to compile for: emulate sm_80, cuda the GPU at hand unless given")
    parser.add_argument("-O", "--opt-level", type=int, default=3, choices=range(4))
    parser.add_argument("--print", dest="shown", type=int, action="append", default=[], metavar="N")
    parser.add_argument("--save", action="append", default=[], metavar="N=FILE")
    return parser


def _result(arguments: list[Argument], number: int) -> np.ndarray:
    if not 0 <= number < len(arguments) or arguments[number].array is None:
        raise UsageError(f"argument {number} is not an array to print or save")
    return arguments[number].array


def _file_argument(text: str) -> str | None:
    """The file that an ARG reads its array from."""
    _, at, path = text.partition("@")
    return path if at and "=" not in text else None


def _saved(outputs: Outputs, text: str) -> tuple[int, Output]:
    """The argument that `--save N=FILE` writes, and its file, which ends in `.npy` unless it is a device or a pipe."""
    number, equals, path = text.partition("=")
    if not equals or not re.fullmatch("[0-9]+", number):
        raise UsageError(f"--save takes N=FILE, got '{text}'")
    if not path.endswith(".npy") and not Output(path, "").is_stream:
        path += ".npy"
    return int(number), outputs.writes(path, f"--save {number}")


def _save(array: np.ndarray) -> Callable[[IO[bytes]], None]:
    """Writes an array in NumPy's format; not by the descriptor, as NumPy does to files, since pipes cannot seek."""
    import types

    import numpy as np

    return lambda file: np.save(types.SimpleNamespace(write=file.write), array)


def run(argv: list[str]) -> None:
    """Parse the command line, run the kernel, print and save; raises UsageError and what the back end raises."""
    import numpy as np

    options = build_parser().parse_intermixed_args(argv)
    options.grid = parse_grid(options.grid)
    outputs = Outputs()
    outputs.reads(options.input, "the input")
    for path in filter(None, map(_file_argument, options.arguments)):
        outputs.reads(path, f"the argument '@{path}'")
    saved = [_saved(outputs, text) for text in options.save]
    arguments: list[Argument] = []
    for text in options.arguments:
        arguments.append(parse_argument(text, arguments))
    shown = [(number, _result(arguments, number)) for number in options.shown]
    files = [(output, _save(_result(arguments, number))) for number, output in saved]
    if options.input.endswith(".ptx") and options.backend == "interpret":
        raise UsageError("PTX is run with --backend emulate or cuda")
    _RUN[options.backend](options, [value for argument in arguments for value in argument.parameters])
    for number, array in shown:
        # ml_dtypes' numbers print as their f32 values, which are exact.
        printable = array if array.dtype.kind in "biuf" else array.astype(np.float32)
        print(f"argument {number}: {np.array2string(printable, threshold=64, separator=', ')}")
    outputs.publish(files)


def main(argv: list[str] | None = None) -> int:
    """The program; returns its exit status."""
    argv = sys.argv[1:] if argv is None else argv
    try:
        run(argv)
    except UsageError as problem:
        print(f"tileiras-run: error: {problem}", file=sys.stderr)
        return ExitCode.USAGE
    except CompileError as problem:
        print(problem.render(), file=sys.stderr)
        return problem.code
    except OSError as problem:
        print(f"tileiras-run: error: {problem}", file=sys.stderr)
        return ExitCode.USAGE
    except (KernelFailed, SimulationError) as problem:
        text = str(problem)
        print(text if "error: " in text else f"error: {text}", file=sys.stderr)
        return KERNEL_FAILED
    return ExitCode.SUCCESS


def program() -> int:
    """`main` as a process of its own."""
    return process.run(main)


if __name__ == "__main__":
    sys.exit(program())
