"""Imports point one way: support, diagnostics, options <- ir <- dialects <- bytecode, analysis, targets, layout
<- resources <- order, slicing, assignment, schedule, tile_blocks, operands, tensor_maps, registers, synchronization,
lowering, codegen <- passes <- stages <- pipeline, driver <- api <- runtime <- check <- cli, build, report, mlir,
operators <- processes.service.
A function that names a file of a lazy package imports it.
`sim.interpreter` imports ir, dialects and bytecode, `sim.emulator` nothing of the compiler, `sim.estimate` targets and
codegen as well."""

import ast
import collections
import functools
import importlib
import os
from pathlib import Path

from tileiras.build.store.fingerprint import CodeBase, named_files

LAYERS = [
    {
        "support", "diagnostics", "inputs",
        "processes", "options", "reasons", "",
    },
    {"ir"},
    {"dialects"},
    {"bytecode", "analysis", "targets", "layout"},
    {"resources"},
    {
        "order", "slicing", "assignment", "schedule", "tile_blocks", "operands", "tensor_maps", "registers",
        "synchronization", "lowering", "codegen",
        "stages_interface",
    },
    {"passes"},
    {"stages"},
    {"driver", "pipeline"},
    {"api"},
    {"runtime"},
    {"check"},
    {"cli", "build", "report", "mlir", "operators"},
    {"processes.service"},
    {"__main__"},
]  # fmt: skip

LEVEL = {name: level for level, names in enumerate(LAYERS) for name in names}

# The command-line driver of the simulator reads arguments for both of its back ends; it is a program.
SIM_SHARED = ("", "sim", "sim.memory", "sim.errors", "sim.blas")
SIM_ALLOWED = {
    "interpreter": {"diagnostics", "ir", "dialects", "bytecode", "sim.interpreter", *SIM_SHARED},
    "emulator": {"sim.emulator", *SIM_SHARED},
    # The timing model sits above the emulator, targets and machine code; only images compile.
    "estimate": {
        "sim.estimate", "sim.emulator", "targets", "codegen", "diagnostics", "support", "options", "ir",
        "dialects", *SIM_SHARED,
    },
}


def part_of(module: str) -> str:
    """`tileiras.ir.core` -> `ir`."""
    parts = module.split(".")[1:]
    if parts == ["stages"]:
        return "stages_interface"
    if parts[:1] == ["sim"] or parts[:2] == ["processes", "service"]:
        return ".".join(parts[:2])
    return parts[0] if parts else ""


def modules(code: CodeBase) -> list[str]:
    result = []
    for folder, _, files in os.walk(os.path.join(code.root, "tileiras")):
        base = os.path.relpath(folder, code.root).replace(os.sep, ".")
        for file in files:
            if file.endswith(".py"):
                result.append(base if file == "__init__.py" else f"{base}.{file[:-3]}")
    return sorted(result)


def imports(code: CodeBase, module: str) -> set[str]:
    """The parts of the package that a module itself imports."""
    file = code._file(module)
    result = set()
    for base, name in file.imports:
        if base.partition(".")[0] == "tileiras":
            result.update(part_of(m) for m in code._reached(base, name) or [base])
    return result


def test_imports_point_one_way():
    code = CodeBase()
    wrong = []
    for module in modules(code):
        part = part_of(module)
        if part.startswith("sim") or part == "":
            continue
        for imported in sorted(imports(code, module) - {part, ""}):
            if imported.startswith("sim"):
                if part not in ("check", "cli", "report"):
                    wrong.append(f"{module} imports {imported}")
            elif LEVEL[imported] > LEVEL[part]:
                wrong.append(f"{module} imports {imported}")
    assert wrong == []


def test_parts_of_one_level_do_not_import_each_other_in_a_circle():
    code = CodeBase()
    follows: dict[str, set[str]] = {}
    for module in modules(code):
        part = part_of(module)
        beside = {name for name in imports(code, module) if LEVEL.get(name) == LEVEL.get(part) and name != part}
        follows.setdefault(part, set()).update(beside)
    while True:
        done = {part for part, beside in follows.items() if not beside & follows.keys()}
        if not done:
            break
        follows = {part: beside for part, beside in follows.items() if part not in done}
    assert follows == {}


def test_the_simulators_are_independent_of_the_compiler():
    code = CodeBase()
    wrong = []
    for module in modules(code):
        for package, allowed in SIM_ALLOWED.items():
            if module.startswith(f"tileiras.sim.{package}"):
                wrong += [f"{module} imports {name}" for name in sorted(imports(code, module) - allowed)]
    assert wrong == []


@functools.cache
def imports_of_tests():
    """Path of each module of the tests -> the modules that it imports; relative ones begin with a dot."""
    tests = Path(CodeBase().root) / "tests"
    names = {}
    for path in tests.rglob("*.py"):
        nodes = list(ast.walk(ast.parse(path.read_text(encoding="utf-8"))))
        names[path.relative_to(tests)] = {
            *("." * node.level + (node.module or "") for node in nodes if isinstance(node, ast.ImportFrom)),
            *(alias.name for node in nodes if isinstance(node, ast.Import) for alias in node.names),
        }
    return names


def test_no_test_imports_another_one():
    """Modules that tests share hold no tests; shared kernels are in `tests/kernels`."""
    wrong = [f"{path} imports {name}"
             for path, names in imports_of_tests().items() for name in names if ".test_" in f".{name}"]  # fmt: skip
    assert wrong == []


def test_modules_that_tests_import_by_bare_name_are_one_each():
    """With two folders of one name in a run, tests of the second would import modules of the first."""
    places = collections.defaultdict(list)
    for path in imports_of_tests():
        places[path.stem].append(str(path.parent))
    imported = set().union(*imports_of_tests().values())
    # pytest imports each module of tests by its bare name as well.
    imported |= {name for name in places if name.startswith("test_")}
    assert {name: places[name] for name in imported if len(places[name]) > 1} == {}


KNOWN_CYCLES = (
    # Operations and attributes print and verify themselves; the printer and the verifier are loaded when one does.
    "tileiras.ir.",
    # The helper process dispatches to functions that llvm_pipeline registers; llvm_pipeline calls the helper process.
    "tileiras.codegen.",
    # A package imports its parts when one of its functions is called, and they take constants from it.
    "tileiras.build",
    # Instructions are decoded by the file of their family, which is loaded with the first one.
    "tileiras.sim.emulator.",
)
"""Packages in which modules import each other within functions."""


def cycles(follows: dict[str, set[str]]) -> set[str]:
    """The modules that reach themselves."""
    reached = {module: set(beside) for module, beside in follows.items()}
    grew = True
    while grew:
        grew = False
        for module, result in reached.items():
            more = set().union(*(follows.get(other, set()) for other in result)) - result
            if more:
                result |= more
                grew = True
    return {module for module, value in reached.items() if module in value}


def test_the_measure_of_cycles():
    assert cycles({"a": {"b"}, "b": {"c"}, "c": {"b"}, "d": {"a"}}) == {"b", "c"}


def test_import_cycles_are_documented():
    """Imports within functions count: they can hide a cycle of modules."""
    code = CodeBase()
    known = set(modules(code))
    follows = {}
    for module in known:
        named = [f"{base}.{name}" if f"{base}.{name}" in known else base for base, name in code._file(module).imports]
        follows[module] = {name for name in named if name in known and name != module}
    assert [module for module in sorted(cycles(follows)) if not module.startswith(KNOWN_CYCLES)] == []


def loaded_with(module: str, text: str, known: set[str]) -> set[str]:
    """The modules that a module's own statements import when it is loaded."""
    package = module if any(name.startswith(f"{module}.") for name in known) else module.rpartition(".")[0]
    statements: list[ast.AST] = [*ast.parse(text).body]
    result = set()
    while statements:
        node = statements.pop()
        if isinstance(node, ast.If) and isinstance(node.test, ast.Name) and node.test.id == "TYPE_CHECKING":
            statements += node.orelse
        elif isinstance(node, ast.Import):
            result.update(alias.name for alias in node.names)
        elif isinstance(node, ast.ImportFrom):
            around = package.split(".")[: len(package.split(".")) - node.level + 1] if node.level else []
            base = ".".join([*around, *([node.module] if node.module else [])])
            result.update(f"{base}.{alias.name}" if f"{base}.{alias.name}" in known else base for alias in node.names)
        elif not isinstance(node, (ast.FunctionDef, ast.AsyncFunctionDef)):
            statements += ast.iter_child_nodes(node)
    return {name for name in result if name in known and name != module}


def test_the_measure_of_loading():
    known = {"tileiras", "tileiras.a", "tileiras.a.b", "tileiras.a.c", "tileiras.d"}
    text = "try:\n    from . import c\nexcept ImportError:\n    import tileiras.d\ndef f():\n    import tileiras.a\n"
    assert loaded_with("tileiras.a.b", text, known) == {"tileiras.a.c", "tileiras.d"}
    assert loaded_with("tileiras.a", "from .b import x\nfrom .. import d", known) == {"tileiras.a.b", "tileiras.d"}


def test_no_modules_load_each_other_in_a_circle():
    code = CodeBase()
    known = set(modules(code))
    follows = {}
    for module in known:
        path = code.path(module)
        assert path is not None
        follows[module] = loaded_with(module, Path(path).read_text(encoding="utf-8"), known)
    assert sum(map(len, follows.values())) > 3000 and sorted(cycles(follows)) == []


def test_files_of_lazy_packages_that_are_named_exist():
    """A name that is not a file of its lazy package would otherwise be reported only when a function is evaluated."""
    code = CodeBase()
    known = set(modules(code))
    named = {
        (module, base, name)
        for module in known
        for base, name in named_files(ast.parse(Path(code.path(module) or "").read_text(encoding="utf-8")), "")
    }
    lacking = [
        f"{module}: {base}.{name}"
        for module, base, name in sorted(named)
        if base in known
        if f"{base}.{name}" in known and "__getattr__" not in vars(importlib.import_module(base))
        or not hasattr(importlib.import_module(base), name)
    ]
    assert len(named) > 300 and lacking == []
