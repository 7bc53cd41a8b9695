"""The options of the command `tileiras`: the vendor's of 13.5, with their names, aliases and texts, then ours.

`docs/command-line.md` lists both for users; a test compares the first part with the vendor's tool.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from tileiras import cli, options
from tileiras.cli import instrumentation
from tileiras.cli.command_line import FLAG, STOP, CommandLine, Spec
from tileiras.diagnostics.remarks import CATEGORIES, KINDS, is_code
from tileiras.options import OPTIONS, Option
from tileiras.pipeline import EMIT, EMIT_CPU, FATBIN

if TYPE_CHECKING:
    from tileiras.cli.manual import Manual

PROGRAM = "tileiras"

ALIASES = {
    "O": "opt-level", "arch": "gpu-name", "g": "device-debug", "o": "output-file", "h": "help", **options.ALIASES,
}  # fmt: skip

SERVICE = ("auto", "off")
"""Values of `--server` and TILEIRAS_SERVER; `processes.service.client` reads them before this program is loaded."""

_CATEGORIES = ("none", "all", *CATEGORIES)

VENDOR = (
    Spec("l", str, "Tile libraries or device code to link; requires the SIMT preview", "path", repeated=True),
    Spec("list-versions", FLAG, "List all supported bytecode versions and exit", stops=True),
    Spec("output-file", str, "Name of the output file, - for standard output; elf.o for a cubin", "file"),
    Spec("preview", str, "Named preview features", "feature[,feature...]", features=("simt",)),
    Spec("remark-format", ("command-line", "yaml"), "Print remarks, or write them to a YAML file"),
    Spec("remarks", _CATEGORIES, "Remarks of all kinds about a category, or with a code", accepts=is_code),
    *(
        Spec(f"remarks-{kind}", _CATEGORIES, f"Category or code of {kind} remarks", accepts=is_code)
        for kind in sorted(KINDS)
    ),
    Spec("remarks-output-file", str, "File of remarks in YAML; tileir_remarks.yaml when absent", "file"),
    Spec("Wunsupported-hints", FLAG, "Warn of optimization hints that make no sense", hidden=True),
    Spec("Werr-hints", FLAG, "With --Wunsupported-hints: they are errors", hidden=True),
    # These three have no visible effect in the vendor's tool either.
    Spec("w", FLAG, "Accepted, without effect", hidden=True),
    Spec("print-options", FLAG, "Accepted, without effect", hidden=True),
    Spec("print-all-options", FLAG, "Accepted, without effect", hidden=True),
    Spec("help", STOP, "Display available options; --help-hidden for more"),
    Spec("help-hidden", STOP, "Display all available options", hidden=True),
    Spec("help-list", STOP, "As --help", hidden=True),
    Spec("help-list-hidden", STOP, "As --help-hidden", hidden=True),
    Spec("version", STOP, "Display the version of this program"),
)
"""Options of the vendor's driver that are not options of the compiler."""

EMITS = (*{**EMIT, **EMIT_CPU}, FATBIN.name)

OWN = (
    Spec("emit", EMITS, "The product; cubin when absent, obj for a CPU", "stage", lists=True),
    Spec("entry", str, "Compile only this entry", "name"),
    Spec("depfile", str, "Write the inputs of the product as a rule for make", "file"),
    Spec("cache", str, "Folder of the artifact store for this run, or off", "folder"),
    Spec("server", SERVICE, "Whether the compile service may answer; TILEIRAS_SERVER says when absent", lists=True),
    Spec("diagnostics", ("text", "json"), "Format of diagnostics; JSON has one object per line"),
    Spec("sarif", str, "Write diagnostics and the requested remarks as SARIF 2.1.0 as well", "file"),
    Spec("save-temps", FLAG, "Write the artifacts of every stage beside the output"),
    Spec("pass-pipeline", str, "Options of the documented pipeline, as tileir{key=value ...}", "pipeline"),
    *(Spec(name, FLAG, doc) for name, doc in instrumentation.FLAGS.items()),
    *(Spec(name, str, doc, placeholder) for name, (placeholder, doc) in instrumentation.WORDS.items()),
    Spec("cmakedir", STOP, "Print the folder of the CMake package, for -Dtileiras_DIR=, and exit"),
    Spec("pkgconfigdir", STOP, "Print the folder of tileiras.pc, for PKG_CONFIG_PATH, and exit"),
    Spec("write-if-changed", FLAG, "Leave an output alone, with its times, that has the same bytes already"),
    Spec("print-pipeline", FLAG, "Print the stages, and the passes that run at this level, and exit"),
)
"""Options of our driver that are not options of the compiler."""


def _of_compiler(option: Option) -> Spec:
    kind: Any = FLAG if option.kind is bool else option.kind
    # The optimization level is checked after the input, so invalid levels are accepted here; invalid names are not.
    if option.kind is str and option.choices:
        kind = option.choices
    elif option.kind is list:
        kind = str
    accepts = _are_gpus if option.name == "gpu-name" else None
    return Spec(
        option.name, kind, option.doc, prefix=option.name == "opt-level", lists=isinstance(kind, tuple), accepts=accepts
    )


def _are_gpus(word: str) -> bool:
    """Whether a word names several targets with commas, for a fat binary."""
    return all(name in (OPTIONS["gpu-name"].choices or ()) for name in word.split(","))


COMPILER = tuple(map(_of_compiler, OPTIONS.values()))


def command_line() -> CommandLine:
    return CommandLine(PROGRAM, (*VENDOR, *OWN, *COMPILER), ALIASES)


GROUPS: dict[str, str] = {
    "Input and output": "output-file emit entry depfile write-if-changed save-temps cache server bytecode-version",
    "Target": "gpu-name opt-level ptx-version legalize-types tile-launch host-arch host-os",
    "Code": (
        "num-warps num-ctas pipeline-strategy unspecialized-pipeline-num-stages v2-opt-level max-constraint-iterations"
        " rrt-size-threshold tensor-maps deterministic index-bitwidth ftz approx"
        " parameter-ceiling pass-pipeline"
    ),
    "Debugging of kernels": "lineinfo device-debug sanitize enable-random-delay",
    "Libraries": "l preview device-libraries libdevice blob-linked-lib",
    "Tools": "assembler ptxas ptxas-options apply-controls child-timeout dump-sass-command",
    "Messages": (
        "diagnostics sarif emit-remarks remarks remarks-passed remarks-missed remarks-failed remarks-analysis"
        " remark-format remarks-output-file Wunsupported-hints Werr-hints"
    ),
    "Debugging of the compiler": " ".join((*instrumentation.FLAGS, *instrumentation.WORDS, "opt-bisect-limit")),
    "Information": (
        "help help-hidden help-list help-list-hidden version list-versions print-pipeline cmakedir pkgconfigdir"
    ),
    "Without effect": "w print-options print-all-options",
}
"""The parts of `--help` and of the man page -> the options in each, in their order."""

VERBS = {
    "doctor": "A table of installed and missing parts, and the cost of each missing one",
    "completion SHELL": "Print the completion of all commands for bash, zsh or fish",
    "man [COMMAND]": "Print the man page of a command; --all FOLDER writes those of all",
    "libtileiras FOLDER": "Build the library for hosts in C, C++ and Rust, with header, pkg-config file and manual",
    "operators FILE": "Operators of PyTorch or JAX from a declaration in TOML, as source; see `operators --help`",
    "package FILE...": "A Python package or wheel of kernels and a loader of its own; see `package --help`",
    "language-server": "The diagnostics of Tile IR text in an editor; needs pygls, the extra `editor`",
}
"""Words instead of a file (`cli.verbs`)."""

IS_VERB = frozenset(verb.split()[0] for verb in VERBS)


def manual(hidden: bool = False) -> Manual:
    """The manual of `tileiras`, with the `hidden` options on request."""
    specs = {spec.name: spec for spec in (*VENDOR, *OWN, *COMPILER)}
    rows = [
        cli.manual.row_of(specs[name], ALIASES, group)
        for group, names in GROUPS.items()
        for name in names.split()
        if hidden or not specs[name].hidden
    ]
    usage = f"{PROGRAM} [options] <bytecode, MLIR text or cuTile Python>"
    return cli.manual.Manual(PROGRAM, "open compiler for CUDA Tile IR", usage, "", tuple(rows), tuple(VERBS.items()))


def help_text(hidden: bool = False) -> str:
    return cli.manual.help_text(manual(hidden))
