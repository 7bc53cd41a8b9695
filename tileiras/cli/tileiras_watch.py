"""tileiras-watch [DIR...] [sm=sm_90] [opt=3] [emit=ptx] [OPTION=VALUE]: builds kernels whenever they are saved.

Without an SConstruct; in a project that has one, `scons watch` knows its options.  Artifacts are those that
`env.TileTree(DIR)` makes.  Exit codes: 0 when it was interrupted, 1 for a command line that cannot be read, 2 for
options that are refused.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Sequence
from typing import TYPE_CHECKING

import tileiras
from tileiras import cli
from tileiras.cli import process
from tileiras.cli.process import UsageError
from tileiras.diagnostics import CompileError, ExitCode

if TYPE_CHECKING:
    import argparse


PROGRAM = "tileiras-watch"


def build_parser() -> argparse.ArgumentParser:
    parser = cli.parsers.Parser(PROGRAM, "Builds kernels whenever they are saved.")
    parser.epilog = "NAME=VALUE are the variables of scons: sm, opt, emit and every option of the compiler."
    parser.add_argument("arguments", nargs="*", metavar="DIR|NAME=VALUE", help="folders of kernels; default: this one")
    parser.add_argument("--build", metavar="DIR", default="build", help="folder of artifacts; default build")
    parser.add_argument("-j", "--jobs", type=int, default=os.cpu_count() or 1, help="worker processes")
    parser.add_argument("--poll", action="store_true", help="poll the files; for network drives")
    return parser


def main(arguments: Sequence[str] | None = None) -> int:
    """The program; returns the exit code."""
    try:
        options = build_parser().parse_intermixed_args(arguments)
    except SystemExit as stopped:
        return ExitCode.USAGE if stopped.code else ExitCode.SUCCESS
    except UsageError as error:
        process.tell(f"{PROGRAM}: error", error)
        return ExitCode.USAGE
    settings = dict(word.split("=", 1) for word in options.arguments if "=" in word)
    folders = [word for word in options.arguments if "=" not in word] or ["."]
    for folder in folders:
        if not os.path.isdir(folder):
            process.complain(f"error: {folder} is no folder")
            return ExitCode.USAGE
        if os.path.exists(options.build) and os.path.samefile(folder, options.build):
            process.complain(f"error: artifacts would be sources: --build is the folder of kernels {folder}")
            return ExitCode.USAGE
    if os.path.exists(options.build) and not os.path.isdir(options.build):
        process.complain(f"error: --build {options.build} is no folder")
        return ExitCode.USAGE
    try:
        variables = tileiras.build.scons.variables.construction_variables(settings)
        if variables["TILE_OVERRIDES"]:
            raise tileiras.build.scons.variables.BadVariable("overrides: a watch takes none: they are for builds")
        watch = _watch(folders, variables, options.build, options.jobs)
    except (tileiras.build.scons.variables.BadVariable, ImportError, ValueError) as error:
        process.complain(f"error: {error}")
        return ExitCode.CONFIGURATION
    except CompileError as error:
        process.complain(error.render())
        return error.code
    command = [sys.executable, *sys.orig_argv[1:]]
    return tileiras.build.watch.loop.forever(watch, os.getcwd(), command, options.poll)


def _watch(folders: Sequence[str], variables: dict, build: str, jobs: int):
    variants = []
    for sm in variables["TILE_SM"].split(","):
        options = tileiras.options.CompileOptions(
            {**variables["TILE_OPTIONS"], "gpu-name": sm, "opt-level": variables["TILE_OPT"]}
        )
        products = variables["TILE_EMIT"] or tileiras.pipeline.TIERS[options["opt-level"]]
        variants += [(options, product) for product in products.split(",")]
    trees = []
    for folder in folders:
        prefix = os.path.relpath(folder)
        prefix = "" if prefix == os.curdir else os.path.basename(prefix) if prefix.startswith("..") else prefix
        trees.append(tileiras.build.watch.loop.Tree(os.path.abspath(folder), prefix, variants, build))
    store = tileiras.build.store.local.ArtifactStore(
        tileiras.build.store.local.directory_for(os.getcwd()),
        tileiras.build.step.warn_on_stderr,
        tileiras.build.store.local.default_mode(),
        tileiras.build.store.local.size_limit(),
    )
    session = tileiras.build.run.execute.Session(store, history=tileiras.build.ledger.history.History(build))
    if variables["TILE_EXECUTOR"]:
        session.cluster = tileiras.build.run.cluster.Cluster(
            variables["TILE_EXECUTOR"], tileiras.build.step.warn_on_stderr
        )
    return tileiras.build.watch.loop.Watch(trees, session, jobs=jobs)


def program() -> int:
    """`main` as a process of its own."""
    return process.run(main)


if __name__ == "__main__":
    sys.exit(program())
