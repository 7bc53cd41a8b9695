"""Random cuTile Python kernels that read random inputs in random ways while they are imported.

An input is a file, variable, module or folder of a small project.  Each can be read in several ways, and an edit of it
changes the result of all of them; after that edit a kernel that reads it has to be rebuilt, and no other kernel.
"""

from __future__ import annotations

import os
import random
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import NamedTuple

FIRST = "import os, sys, json, pathlib, threading\nHERE = pathlib.Path(__file__).parent\nTOP = HERE.parent.parent\n"

KERNEL = """\
import cuda.tile as ct

@ct.kernel
def k(a, b, T: ct.Constant[int]):
    ct.store(b, index=(ct.bid(0),), tile=ct.load(a, index=(ct.bid(0),), shape=(T,)) + float(SUM))

TILEIRAS_EXPORT = {"k": (k, "f32[?]", "f32[?]", 128)}
"""


class Thing(NamedTuple):
    ways: Sequence[str]
    """Statements that assign a number to `v`."""
    number: str = ""
    """The file, from the top of the project, that holds the number."""
    form: str = "{}"
    """The rest of that file."""
    variable: str = ""
    """The variable that holds the number."""
    comes: str = ""
    """The file that exists for odd numbers only."""


THINGS: Mapping[str, Thing] = {
    "json": Thing(
        (
            "v = json.load(open(HERE / 'tiles.json'))['tile']",
            "v = json.loads((HERE / 'tiles.json').read_text())['tile']",
            "v = json.loads(pathlib.Path(os.path.realpath(__file__)).with_name('tiles.json').read_bytes())['tile']",
            "with os.fdopen(os.open(HERE / 'tiles.json', os.O_RDONLY)) as f: v = json.load(f)['tile']",
            "exec(\"v = json.load(open(HERE / 'tiles.json'))['tile']\")",
            "found = []\nt = threading.Thread(target=lambda: found.append((HERE / 'tiles.json').read_text()))\n"
            "t.start(); t.join(); v = json.loads(found[0])['tile']",
            "import configured; v = configured.number(HERE / 'tiles.json')",
        ),
        number="app/kernels/tiles.json", form='{{"tile": {}}}',
    ),
    "table": Thing(
        ("import numpy; v = int(numpy.loadtxt(TOP / 'data' / 'table.txt'))",
         "import numpy; v = int(numpy.genfromtxt(TOP / 'data' / 'table.txt'))",
         "from concurrent.futures import ThreadPoolExecutor as P\n"
         "v = int(list(P(1).map(pathlib.Path.read_text, [TOP / 'data' / 'table.txt']))[0])"),
        number="data/table.txt",
    ),
    "variable": Thing(
        ("v = int(os.environ['NUMBER_OF_TILES'])", "v = int(os.getenv('NUMBER_OF_TILES', '0'))",
         "v = int(os.environ.get('NUMBER_OF_TILES'))", "v = int(os.environb[b'NUMBER_OF_TILES'])",
         "from os import environ as e; v = int(e['NUMBER_OF_TILES'])", "import configured; v = configured.tiles()"),
        variable="NUMBER_OF_TILES",
    ),
    "sibling": Thing(
        ("sys.path.insert(0, str(TOP / 'common')); import shared; v = shared.N",
         "sys.path.append(str(TOP / 'common')); from shared import N as v",
         "import importlib.util as u; s = u.spec_from_file_location('other', TOP / 'common' / 'shared.py')\n"
         "m = u.module_from_spec(s); s.loader.exec_module(m); v = m.N",
         "import runpy; v = runpy.run_path(str(TOP / 'common' / 'shared.py'))['N']"),
        number="common/shared.py", form="N = {}\n",
    ),
    "path": Thing(
        ("import elsewhere; v = elsewhere.N", "v = __import__('elsewhere').N", "from elsewhere import N as v",
         "import importlib; v = importlib.import_module('elsewhere').N"),
        number="lib/elsewhere.py", form="N = {}\n",
    ),
    "package": Thing(
        ("from parts.numbers import N as v", "import parts.numbers; v = parts.numbers.N",
         "import importlib; v = importlib.import_module('.numbers', 'parts').N"),
        number="app/kernels/parts/numbers.py", form="N = {}\n",
    ),
    "absent": Thing(
        ("v = os.path.exists(HERE / 'extra.txt')", "v = (HERE / 'extra.txt').is_file()",
         "try: open(HERE / 'extra.txt'); v = 1\nexcept FileNotFoundError: v = 0",
         "v = os.access(HERE / 'extra.txt', os.R_OK)"),
        comes="app/kernels/extra.txt",
    ),
    "plugin": Thing(
        ("try: import plugin; v = 1\nexcept ImportError: v = 0",
         "import importlib.util; v = importlib.util.find_spec('plugin') is not None"),
        comes="app/kernels/plugin.py",
    ),
    "folder": Thing(
        ("v = len(os.listdir(TOP / 'shapes'))", "v = len(list((TOP / 'shapes').glob('*.txt')))",
         "v = sum(1 for _ in (TOP / 'shapes').iterdir())", "v = len(next(os.walk(TOP / 'shapes'))[2])",
         "import glob; v = len(glob.glob(str(TOP / 'shapes' / '*')))"),
        comes="shapes/one.txt",
    ),
}  # fmt: skip

HELPER = """\
import json, os

def number(path):
    with open(path) as file:
        return json.load(file)["tile"]

def tiles():
    return int(os.environ["NUMBER_OF_TILES"])
"""


class World:
    """A project with every input; `env` are its variables."""

    def __init__(self, top: Path) -> None:
        self.top = top
        self.numbers = dict.fromkeys(THINGS, 0)
        self.env = {"PYTHONPATH": str(top / "lib")}
        self.kernels = top / "app" / "kernels"
        for folder in ("app/kernels/parts", "data", "common", "lib", "shapes"):
            (top / folder).mkdir(parents=True)
        (top / "pyproject.toml").write_text("")  # marks the top of a source tree, to which a server's rows are confined
        (self.kernels / "parts" / "__init__.py").write_text("")
        (self.kernels / "configured.py").write_text(HELPER)
        for name in THINGS:
            self.edit(name)

    def edit(self, name: str) -> None:
        """Edit an input, so that readers see another number."""
        thing = THINGS[name]
        number = self.numbers[name] = self.numbers[name] + 1
        if thing.number:
            (self.top / thing.number).write_text(thing.form.format(number))
        elif thing.variable:
            self.env[thing.variable] = str(number)
        elif number % 2:
            (self.top / thing.comes).write_text("")
        else:
            (self.top / thing.comes).unlink()

    def write_kernel(self, name: str, choice: random.Random, count: int = 3) -> set[str]:
        """Write a kernel that reads some inputs; their names."""
        read = choice.sample(sorted(THINGS), count)
        lines = [FIRST, "SUM = 0\n"]
        for each in read:
            lines.append(f"{choice.choice(THINGS[each].ways)}\nSUM = 3 * SUM + v\n")
        (self.kernels / f"{name}.py").write_text("".join(lines) + KERNEL)
        return set(read)

    def environment(self, compiler: str) -> dict[str, str]:
        """The environment of a command."""
        path = os.pathsep.join((self.env["PYTHONPATH"], compiler))
        return {**os.environ, **self.env, "PYTHONPATH": path}
