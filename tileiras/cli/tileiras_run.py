"""tileiras-run: run a kernel on a machine with or without a GPU, or estimate how long one would take.

    tileiras-run saxpy.mlir --entry saxpy --grid 3 --print 1 'f32[3000]=arange' 'f32[3000]=ones' 'f32=2' 'i32=3000'
    tileiras-run saxpy.mlir --entry saxpy --grid 3 --backend estimate --gpu H200 'f32[3000]=ones' ...

IN is Tile IR text, bytecode, a cuTile Python file, PTX (not interpreted), or a cubin with its PTX (estimated only).
Each ARG is one parameter of the entry, in order:

    i32=5  f32=0.5  i1=1         a scalar
    f32[64,64]=zeros             a pointer to fresh memory: zeros, ones, full(X), arange, arange(START,STEP),
                                 random(SEED) in [0,1), normal(SEED), integers(SEED,LOW,HIGH)
    f32[64,60:64]=zeros          60 of 64 columns: an array of the sizes after the colons, cut to those before them
    @data.npy  bf16@bits.npy     a pointer to the array of a file, its bits read as another type of the same size
    &0  &0+128                   the same pointer as argument 0, or that many elements behind it
    array:f32[64,60:64]=zeros    the slots of a cuTile Python array: pointer, every size, every stride in elements

`--print N` prints the array that ARG number N (from 0, as in messages) left behind, `--save N=FILE.npy` writes it.

`--backend estimate` prints the time of the launch on `--gpu NAME`, what bounds it, and the lines at which warps wait;
`--trace FILE.json` writes the simulated time for Perfetto or Chrome, `--json FILE.json` all that is known but that.

`--profile` prints a table by line of the source: instructions, accesses with their widths, sectors and wavefronts (and
the least that they could be), and with the estimate, which it implies unless `--backend emulate` is given, how long
warps wait; `--json` writes it as data.

Exit status: 0; 1 bad command line, or arguments that do not fit the entry; 2 configuration, or a file that cannot be
written; 3 the input does not parse or verify; 5 it does not compile; 6 the kernel failed while it ran.
"""

from __future__ import annotations

import os
import re
import sys
from collections.abc import Callable
from typing import IO, TYPE_CHECKING, Any

import tileiras
from tileiras import cli, report
from tileiras.cli import process
from tileiras.cli.kernel_failures import KernelFailed, with_source
from tileiras.cli.outputs import Output, Outputs
from tileiras.cli.process import UsageError
from tileiras.cli.run_arguments import Argument, file_of, parse_argument
from tileiras.diagnostics import CompileError, ExitCode
from tileiras.options import lookup
from tileiras.sim.errors import ArgumentMismatch, SimulationError
from tileiras.stages.units import Source, entries_of, entry_name
from tileiras.support.named_tuple import NamedTuple

if TYPE_CHECKING:
    import argparse

    import numpy as np

    from tileiras.sim import Memory
    from tileiras.sim.estimate.result import Estimate

BACKENDS = ("interpret", "cpu", "emulate", "estimate", "cuda")
PTX, CUBIN = ".ptx", ".cubin"
DEFAULT_GPU = "H200"
STALLED_LINES = 8
"""Lines of the source that an estimate names."""


def parse_grid(text: str) -> tuple[int, ...]:
    try:
        sizes = tuple(int(size) for size in text.split(","))
    except ValueError:
        raise UsageError(f"'{text}' is not a grid; expected X[,Y[,Z]]") from None
    if not 1 <= len(sizes) <= 3 or min(sizes) < 1:
        raise UsageError(f"a grid has one to three positive sizes, got '{text}'")
    return sizes


# ---- back ends ---------------------------------------------------------------------------------------------------


class KernelRun(NamedTuple):
    """A request to run a kernel: the command line's options, the entry and its arguments.  `module` is None for PTX;
    `advice` is the last line of the message for arguments that do not fit, or empty."""

    options: Any
    module: Any
    entry: str
    arguments: list[Argument]
    advice: str

    @property
    def parameters(self) -> list[Any]:
        return [value for argument in self.arguments for value in argument.parameters]

    @property
    def names(self) -> list[str]:
        return [name for number, argument in enumerate(self.arguments) for name in argument.names(number)]

    def memory(self) -> Memory:
        """Memory with the arrays, by the names of their arguments, for lookups while it lives."""
        from tileiras.sim import Memory

        memory = Memory()
        for number, argument in enumerate(self.arguments):
            if argument.array is not None:
                memory.allocate(argument.array, name=f"argument {number}")
        return memory


def _interpret(kernel: KernelRun) -> None:
    from tileiras.sim import interpret

    memory = kernel.memory()
    undefined = interpret(
        kernel.module, kernel.entry, kernel.options.grid, kernel.parameters, memory=memory, names=kernel.names
    )
    for position, where in undefined.items():
        many = f"{where.sum()} of {where.size} elements"
        process.complain(f"warning: {many} of {kernel.names[position]} are undefined by the specification")


class Compiled(NamedTuple):
    """PTX, the name of the entry to run, and its launch description (None for PTX given as such)."""

    ptx: str
    entry: str
    metadata: dict[str, Any] | None


def _choose(entries: list[str], entry: str | None) -> str:
    """The entry to run; raises UsageError if the choice is ambiguous or names no entry."""
    names = ", ".join(entries) or "none"
    if entry is None and len(entries) == 1:
        return entries[0]
    if entry is None and entries:
        raise UsageError(f"--entry must be one of {names}")
    if entry not in entries:
        raise UsageError(f"no entry{f' {entry!r}' if entry is not None else ''}; the module has {names}")
    return entry


def _missing(count: int, arguments: list[Argument]) -> str:
    """If arguments are missing for `count` parameters: a line on the syntax of cuTile Python arrays."""
    total = sum(len(argument.parameters) for argument in arguments)
    if total >= count or all(each.array is None or len(each.parameters) > 1 for each in arguments):
        return ""
    described = sum(1 if each.array is None else 1 + 2 * each.array.ndim for each in arguments)
    advice = "prefix each with array:, as in" if described == count else "such an argument is"
    return f"\nnote: an array of cuTile Python fills a pointer, its sizes and its strides: {advice} array:f32[64]=zeros"


def compile_for(kernel: KernelRun, gpu_name: str) -> Compiled:
    """The input as PTX for `--gpu-name`, by default `gpu_name`; PTX is returned unchanged."""
    options = kernel.options
    if kernel.module is None:
        return Compiled(Source.read(options.input).text, kernel.entry, None)
    import json

    artifact = tileiras.compile(
        options.input, gpu_name=options.gpu_name or gpu_name, opt_level=options.opt_level, entry=kernel.entry,
        tensor_maps=options.tensor_maps,
        # Line information changes no instruction, and locates one that fails.
        lineinfo=options.backend in ("emulate", "estimate"),
    )  # fmt: skip
    (compiled,) = artifact.kernels
    metadata = compiled.artifacts.get(".json")
    return Compiled(artifact.text, kernel.entry, None if metadata is None else json.loads(metadata))


def _check_arguments(kernel: KernelRun) -> None:
    """Raise ArgumentMismatch: PTX knows sizes of parameters, the module their types."""
    if kernel.module is not None:
        from tileiras.sim.interpreter import check_arguments

        check_arguments(kernel.module, kernel.entry, kernel.parameters, kernel.names)


def _emulate(kernel: KernelRun) -> None:
    from tileiras.sim import emulate
    from tileiras.sim.emulator.errors import EmulationError

    options = kernel.options
    _check_arguments(kernel)
    compiled = compile_for(kernel, "sm_80")
    if options.profile:
        options.outputs.publish(_profile(kernel, compiled, None))
    memory = kernel.memory()
    try:
        result = emulate(compiled.ptx, compiled.entry, options.grid, kernel.parameters, metadata=compiled.metadata)
    except EmulationError as error:
        raise KernelFailed(with_source(error, compiled.ptx, os.path.dirname(options.input))) from None
    finally:
        del memory  # the emulator finds arrays in it
    print(result.output, end="")


def _estimate(kernel: KernelRun) -> None:
    from tileiras.sim import estimate
    from tileiras.sim.emulator.errors import EmulationError
    options = kernel.options
    gpu = tileiras.targets.rates.gpu(options.gpu)
    _check_arguments(kernel)
    tileiras.build.library.default_session()  # its store has outputs of ptxas and nvdisasm
    ptx, image, metadata = "", options.input, None
    compiled = None
    if kernel.module is not None or options.input.endswith(PTX):
        compiled = compile_for(kernel, gpu.target.name)
        ptx, image, metadata = compiled.ptx, compiled.ptx, compiled.metadata
    memory = kernel.memory()
    try:
        with tileiras.support.progress.Progress(f"estimate of {kernel.entry} on {gpu.name}") as line:
            line.say("")  # a launch of real size takes minutes
            result = estimate(image, kernel.entry, options.grid, kernel.parameters, gpu=gpu.name, metadata=metadata)
    except EmulationError as error:
        raise KernelFailed(with_source(error, ptx, os.path.dirname(options.input))) from None
    finally:
        del memory  # the emulator finds arrays in it
    print(result)
    if options.profile:
        options.outputs.publish(_estimated(options, result) + _profile(kernel, compiled, result))
        return
    for place in result.by_source()[:STALLED_LINES]:
        reasons = ", ".join(f"{name} {share:.1%}" for name, share in place.reasons.items())
        print(f"  {place.file}:{place.line}: {place.share:.1%} of the warps' time: {reasons}")
    options.outputs.publish(_estimated(options, result))


def _estimated(options: Any, estimate: Any) -> list[tuple[Output, Callable[[IO[bytes]], None]]]:
    """The requested files, each with the function that writes it."""
    import json

    requests = [(options.trace, lambda: estimate.trace), (None if options.profile else options.json, estimate.to_json)]
    return [
        (output, lambda file, make=make: file.write(json.dumps(make()).encode() + b"\n"))
        for output, make in requests
        if output is not None
    ]


def _profile(
    kernel: KernelRun, compiled: Compiled, estimate: Estimate | None
) -> list[tuple[Output, Callable[[IO[bytes]], None]]]:
    """Print the profile of the launch; return the file to write it to, with the function that writes it."""
    import json
    import shutil

    from tileiras.sim.emulator.errors import EmulationError

    options = kernel.options
    folder = os.path.dirname(options.input)
    try:
        entry, grid = compiled.entry, options.grid
        profile = report.profile.profile(compiled.ptx, entry, grid, kernel.parameters, compiled.metadata, estimate)
    except EmulationError as error:
        raise KernelFailed(with_source(error, compiled.ptx, folder)) from None
    sources: dict[str, list[str]] = {}
    for name in {line.file for line in profile.lines}:
        paths = [options.input] if name == options.input else []
        for path in (*paths, os.path.join(folder, name)):
            if os.path.isfile(path) and name not in sources:
                with open(path, encoding="utf-8", errors="replace") as file:
                    sources[name] = file.read().split("\n")
    columns = shutil.get_terminal_size((120, 24)).columns
    print(report.profile.table(profile, columns, sources))
    if options.json is None:
        return []
    data = {**profile.to_json(), "estimate": None if estimate is None else estimate.to_json()}
    return [(options.json, lambda file: file.write(json.dumps(data).encode() + b"\n"))]


def _cuda(kernel: KernelRun) -> None:
    from tileiras.runtime import ArgumentError, DriverError, launch
    from tileiras.runtime.driver import load_driver

    try:
        device = load_driver().compute_capability(0)
    except DriverError as error:
        message = f"{error}; use --backend interpret or emulate"
        raise CompileError.at(None, message, ExitCode.CONFIGURATION) from None
    compiled = compile_for(kernel, f"sm_{device}")
    try:
        grid = kernel.options.grid
        launch(compiled.ptx, compiled.entry, grid, kernel.parameters, metadata=compiled.metadata)
    except ArgumentError as error:
        raise UsageError(f"{error}{kernel.advice}") from None
    except DriverError as error:
        raise KernelFailed(str(error)) from None


def _cpu(kernel: KernelRun) -> None:
    options, runtime, name = kernel.options, tileiras.runtime, kernel.options.gpu_name or "cpu"
    _check_arguments(kernel)
    if reason := tileiras.targets.cpu.refusal(name):
        raise CompileError.at(None, f"{reason}; use --backend interpret", ExitCode.CONFIGURATION)
    artifact = tileiras.compile(options.input, gpu_name=name, opt_level=options.opt_level, entry=kernel.entry)
    try:
        runtime.launch(artifact, kernel.entry, options.grid, kernel.parameters, threads=options.threads)
    except runtime.ArgumentError as error:
        raise UsageError(f"{error}{kernel.advice}") from None
    except runtime.cpu.KernelFailure as error:
        raise KernelFailed(str(error)) from None


_RUN = {"interpret": _interpret, "cpu": _cpu, "emulate": _emulate, "estimate": _estimate, "cuda": _cuda}


# ---- the program -------------------------------------------------------------------------------------------------


def build_parser() -> argparse.ArgumentParser:
    parser = cli.parsers.Parser("tileiras-run", __doc__)
    parser.add_argument("input", metavar="IN")
    parser.add_argument("arguments", metavar="ARG", nargs="*")
    parser.add_argument("--entry", help="the kernel to run; optional if there is only one")
    parser.add_argument("--grid", default="1", metavar="X[,Y[,Z]]", help="number of tile blocks (default 1)")
    parser.add_argument("--backend", choices=BACKENDS, help="default interpret, estimate with --profile")
    parser.add_argument("--threads", type=int, metavar="N", help="of a launch on the cpu (default the processors)")
    parser.add_argument("--gpu-name", help="target of the compilation; default: sm_80 to emulate, else the GPU's")
    parser.add_argument("--gpu", default=None, metavar="NAME", help="GPU of the estimate (default H200)")
    parser.add_argument("-O", "--opt-level", type=int, default=3, choices=range(4), help="optimization level")
    parser.add_argument(
        "--tensor-maps", choices=lookup("tensor-maps").choices, default=lookup("tensor-maps").default,
        help="creator of the tensor maps of copies; host: created for the launch; auto, the default as in every "
        "command: the device for kernels with dots into tensor memory",
    )
    parser.add_argument("--print", dest="shown", type=int, action="append", default=[], metavar="N",
                        help="print argument N, from 0, after the launch")  # fmt: skip
    parser.add_argument("--save", action="append", default=[], metavar="N=FILE", help="write it to FILE.npy")
    parser.add_argument("--trace", metavar="FILE", help="write an estimate's trace")
    parser.add_argument("--json", metavar="FILE", help="write an estimate, or a profile, as data")
    parser.add_argument("--profile", action="store_true", help="print a profile of the launch by source line")
    return parser


def _result(arguments: list[Argument], number: int) -> np.ndarray:
    if not 0 <= number < len(arguments) or arguments[number].array is None:
        raise UsageError(f"argument {number} is not an array to print or save")
    return arguments[number].array


def _saved(outputs: Outputs, text: str) -> tuple[int, Output]:
    """The argument that `--save N=FILE` writes, and its file, which ends in `.npy` unless it is a device or a pipe."""
    number, equals, path = text.partition("=")
    if not equals or not re.fullmatch("[0-9]+", number):
        raise UsageError(f"--save takes N=FILE, got '{text}'")
    if not path.endswith(".npy") and not Output(path, "").is_stream:
        path += ".npy"
    return int(number), outputs.writes(path, f"--save {number}")


def _save(array: np.ndarray) -> Callable[[IO[bytes]], None]:
    """Write an array in NumPy's format; not by the descriptor, as NumPy does to files, since pipes cannot seek."""
    import types

    import numpy as np

    return lambda file: np.save(types.SimpleNamespace(write=file.write), array)


def _kernel(options: Any, arguments: list[Argument]) -> KernelRun:
    """The entry to run, from a verified source, and its arguments.

    Raises UsageError if no entry is chosen, and CompileError.
    """
    if options.input.endswith(PTX):
        text = Source.read(options.input).text
        names = re.findall(r"^\s*(?:\.visible\s+)?\.entry\s+([\w$]+)", text, re.MULTILINE)
        return KernelRun(options, None, _choose(names, options.entry), arguments, "")
    if options.input.endswith(CUBIN):
        return KernelRun(options, None, _choose(_entries_of(options.input), options.entry), arguments, "")
    module = tileiras.parse(options.input)
    entries = {entry_name(op): op for op in entries_of(module)}
    name = _choose(list(entries), options.entry)
    count = len(entries[name].regions[0].block.arguments)
    return KernelRun(options, module, name, arguments, _missing(count, arguments))


def _entries_of(path: str) -> list[str]:
    """The entries of a cubin; raises CompileError if the file is not a cubin."""
    with open(path, "rb") as file:
        data = file.read()
    try:
        return tileiras.codegen.object_file.Cubin(data).entries()
    except ValueError as error:
        raise CompileError.at(None, f"{path} is not a cubin: {error}", ExitCode.INVALID_INPUT) from None


def _check_backend(options: Any) -> None:
    """Raise UsageError for an input or an option that the back end does not take."""
    if options.input.endswith(PTX) and options.backend in ("interpret", "cpu"):
        raise UsageError("PTX is run with --backend emulate, estimate or cuda")
    if options.input.endswith(CUBIN) and options.backend != "estimate":
        raise UsageError("a cubin is estimated only: --backend estimate")
    if options.profile and options.input.endswith(CUBIN):
        raise UsageError("--profile takes a source or PTX")
    if options.profile and options.backend not in ("estimate", "emulate"):
        raise UsageError("--profile is for --backend emulate and estimate")
    if options.threads is not None and options.backend != "cpu":
        raise UsageError("--threads is for --backend cpu")
    if options.backend == "estimate":
        if options.shown or options.save:
            raise UsageError("--backend estimate leaves arrays as they are: nothing to print or save")
        options.gpu = options.gpu or DEFAULT_GPU
    else:
        for name in ("gpu", "trace", "json"):
            if getattr(options, name) is not None and not (name == "json" and options.profile):
                raise UsageError(f"--{name} is for --backend estimate")


def run(argv: list[str]) -> None:
    """Parse the command line, run the kernel, print and save; raises UsageError and the back end's exceptions."""
    import numpy as np

    options = build_parser().parse_intermixed_args(argv)
    options.grid = parse_grid(options.grid)
    options.backend = options.backend or ("estimate" if options.profile else "interpret")
    _check_backend(options)
    outputs = options.outputs = Outputs()
    outputs.reads(options.input, "the input")
    for path in filter(None, map(file_of, options.arguments)):
        outputs.reads(path, f"the argument '@{path}'")
    saved = [_saved(outputs, text) for text in options.save]
    for name in ("trace", "json"):
        if getattr(options, name) is not None:
            setattr(options, name, outputs.writes(getattr(options, name), f"--{name}"))
    arguments: list[Argument] = []
    for text in options.arguments:
        arguments.append(parse_argument(text, arguments))
    results = [(number, _result(arguments, number)) for number in options.shown]
    files = [(output, _save(_result(arguments, number))) for number, output in saved]
    kernel = _kernel(options, arguments)
    try:
        _RUN[options.backend](kernel)
    except ArgumentMismatch as problem:
        raise UsageError(f"{problem}{kernel.advice}") from None
    for number, array in results:
        # ml_dtypes' numbers print as their f32 values, which are exact.
        printable = array if array.dtype.kind in "biuf" else array.astype(np.float32)
        print(f"argument {number}: {np.array2string(printable, threshold=64, separator=', ')}")
    outputs.publish(files)


def main(argv: list[str] | None = None) -> int:
    """The program; returns its exit status."""
    argv = sys.argv[1:] if argv is None else argv
    try:
        run(argv)
    except SystemExit as stopped:  # --help, --version
        return ExitCode.USAGE if stopped.code else ExitCode.SUCCESS
    except UsageError as problem:
        process.tell("tileiras-run: error", problem)
        return ExitCode.USAGE
    except CompileError as problem:
        process.complain(problem.render())
        return problem.code
    except BrokenPipeError:
        raise
    except OSError as problem:
        process.tell("tileiras-run: error", UsageError(problem.strerror or str(problem)))
        return ExitCode.USAGE
    except MemoryError:
        process.tell("tileiras-run: error", UsageError("not enough memory"))
        return ExitCode.USAGE
    except (KernelFailed, SimulationError) as problem:
        text = str(problem)
        process.complain(text if "error: " in text else f"error: {text}")
        return process.KERNEL_FAILED
    return ExitCode.SUCCESS


def program() -> int:
    """`main` as a process of its own."""
    return process.run(main)


if __name__ == "__main__":
    sys.exit(program())
