"""Random programs of accesses that tokens put in order: compiled against interpreted.

Accesses go through pointers in several orders of the lanes, through views of both orders of dimensions, and by scalars;
to two parameters that are the same memory, a global and an allocation; weak, ordered and atomic; in loops and branches.
Every access waits for all earlier ones but loads for loads, so that a program has one result.
"""

from __future__ import annotations

import json
import random

import numpy as np
import pytest

import tileiras
from tileiras.sim import emulate, interpret

SIDE = 16
SIZE = SIDE * SIDE
POINTERS, VALUES, SQUARE = f"tile<{SIZE}xptr<i32>>", f"tile<{SIZE}xi32>", f"tile<{SIDE}x{SIDE}xi32>"
TENSOR = f"tensor_view<{SIDE}x{SIDE}xi32, strides=[{SIDE},1]>"
VIEWS = [f"partition_view<tile=({SIDE}x{SIDE}), {TENSOR}{order}>" for order in ("", ", dim_map=[1, 0]")]
MEMORIES = ("p", "q", "g", "m")
TARGETS = ("sm_80", "sm_90", "sm_100", "sm_120")
KINDS = ("load", "load", "store", "store", "update", "reduce", "scalar", "loop", "branch")
ORDERS = {
    "load": ("weak", "relaxed device", "acquire tl_blk"),
    "store": ("weak", "relaxed sys", "release device"),
    "update": ("relaxed device", "acquire sys", "release tl_blk", "acq_rel device"),
}


class Program:
    """Builds the text of a program; `value` names the tile that the next store writes, `token` the accesses before
    it."""

    def __init__(self, seed: int) -> None:
        self.random = random.Random(seed)
        self.lines: list[str] = []
        self.count = 0

    def name(self) -> str:
        self.count += 1
        return f"%n{self.count}"

    def add(self, text: str) -> str:
        name = self.name()
        self.lines.append(f"{name} = {text}")
        return name

    def text(self) -> str:
        self.lines += [f"%lane = iota : {VALUES}", f"%most = constant <i32: {SIZE - 1}> : {VALUES}",
                       "%zero = constant <i32: 0> : tile<i32>", "%one = constant <i32: 1> : tile<i32>",
                       "%three = constant <i32: 3> : tile<i32>", f"%nine = constant <i32: 9> : {VALUES}",
                       f"%turned = subi %most, %lane : {VALUES}", f"%few = remi %lane, %nine unsigned : {VALUES}",
                       "%g = get_global @g : tile<ptr<i32>>",
                       f"%m = alloca num_elem = {SIZE}, alignment = 16{self.random.choice(['', ' global'])}"
                       " : tile<ptr<i32>>"]  # fmt: skip
        for memory in MEMORIES:
            one = self.add(f"reshape %{memory} : tile<ptr<i32>> -> tile<1xptr<i32>>")
            all_ = self.add(f"broadcast {one} : tile<1xptr<i32>> -> {POINTERS}")
            for place in ("lane", "turned", "few"):
                self.lines.append(f"%{memory}_{place} = offset {all_}, %{place} : {POINTERS}, {VALUES} -> {POINTERS}")
            tensor = self.add(f"make_tensor_view %{memory}, shape = [{SIDE}, {SIDE}], strides = [{SIDE}, 1] : {TENSOR}")
            for number, view in enumerate(VIEWS):
                self.lines.append(f"%{memory}_v{number} = make_partition_view {tensor} : {view}")
        token, value = self.add("make_token : token"), "%lane"
        # The allocation holds nothing yet.
        token = self.add(f"store_ptr_tko weak %m_lane, %lane token={token} : {POINTERS}, {VALUES} -> token")
        token, value = self.steps(token, value, 12, 2)
        self.add(f"store_ptr_tko weak %p_lane, {value} token={token} : {POINTERS}, {VALUES} -> token")
        body = "".join(f"    {line}\n" for line in [*self.lines, "return"])
        return (f"cuda_tile.module @m {{\n  global @g <i32: 7> : {VALUES}\n"
                f"  entry @k(%p: tile<ptr<i32>>, %q: tile<ptr<i32>>) {{\n{body}  }}\n}}\n")  # fmt: skip

    def steps(self, token: str, value: str, count: int, depth: int) -> tuple[str, str]:
        """The token and the value behind some more accesses."""
        for _ in range(count):
            kind = self.random.choice(KINDS)
            if kind in ("loop", "branch"):
                if depth:
                    token, value = self.nest(kind, token, value, depth - 1)
                continue
            token, value = getattr(self, kind)(token, value, self.random.choice(MEMORIES))
        return token, value

    def load(self, token: str, value: str, memory: str) -> tuple[str, str]:
        read, after = self.name(), self.name()
        order, number = self.random.choice(ORDERS["load"]), self.random.randrange(2)
        if self.random.random() < 0.5:
            place = self.random.choice(["lane", "turned"])
            source = f"load_ptr_tko {order} %{memory}_{place} token={token} : {POINTERS} -> {VALUES}, token"
            self.lines.append(f"{read}, {after} = {source}")
        else:
            self.lines.append(f"{read}, {after} = load_view_tko {order} %{memory}_v{number}[%zero, %zero]"
                              f" token = {token} : {VIEWS[number]}, tile<i32> -> {SQUARE}, token")  # fmt: skip
            read = self.add(f"reshape {read} : {SQUARE} -> {VALUES}")
        # Another load may run at the same time, in either order.
        if self.random.random() < 0.3:
            beside, other = self.name(), self.name()
            self.lines.append(f"{beside}, {other} = load_ptr_tko weak %{memory}_turned token={token}"
                              f" : {POINTERS} -> {VALUES}, token")  # fmt: skip
            read = self.add(f"xori {read}, {beside} : {VALUES}")
            after = self.add(f"join_tokens {after}, {other} : token")
        return after, self.add(f"addi {value}, {read} : {VALUES}")

    def store(self, token: str, value: str, memory: str) -> tuple[str, str]:
        order, number = self.random.choice(ORDERS["store"]), self.random.randrange(2)
        if self.random.random() < 0.5:
            place = self.random.choice(["lane", "turned"])
            after = self.add(f"store_ptr_tko {order} %{memory}_{place}, {value} token={token}"
                             f" : {POINTERS}, {VALUES} -> token")  # fmt: skip
        else:
            square = self.add(f"reshape {value} : {VALUES} -> {SQUARE}")
            after = self.add(f"store_view_tko {order} {square}, %{memory}_v{number}[%zero, %zero] token = {token}"
                             f" : {SQUARE}, {VIEWS[number]}, tile<i32> -> token")  # fmt: skip
        return after, value

    def update(self, token: str, value: str, memory: str) -> tuple[str, str]:
        """Contending lanes, whose old values depend on their turns, or lanes with places of their own."""
        order, mode = self.random.choice(ORDERS["update"]), self.random.choice(["add", "xor", "umax", "min"])
        old, after = self.name(), self.name()
        place = self.random.choice(["few", "turned"])
        self.lines.append(f"{old}, {after} = atomic_rmw_tko {order} %{memory}_{place}, {mode}, {value} token={token}"
                          f" : {POINTERS}, {VALUES} -> {VALUES}, token")  # fmt: skip
        return after, value if place == "few" else self.add(f"subi {value}, {old} : {VALUES}")

    def reduce(self, token: str, value: str, memory: str) -> tuple[str, str]:
        number = self.random.randrange(2)
        square = self.add(f"reshape {value} : {VALUES} -> {SQUARE}")
        return self.add(f"atomic_red_view_tko relaxed device %{memory}_v{number}[%zero, %zero], add, {square}"
                        f" token = {token} : {SQUARE}, {VIEWS[number]}, tile<i32> -> token"), value  # fmt: skip

    def scalar(self, token: str, value: str, memory: str) -> tuple[str, str]:
        read, between = self.name(), self.name()
        load, store = self.random.choice(ORDERS["load"]), self.random.choice(ORDERS["store"])
        self.lines.append(f"{read}, {between} = load_ptr_tko {load} %{memory} token={token}"
                          " : tile<ptr<i32>> -> tile<i32>, token")  # fmt: skip
        more = self.add(f"addi {read}, %three : tile<i32>")
        after = self.add(f"store_ptr_tko {store} %{memory}, {more} token={between}"
                         " : tile<ptr<i32>>, tile<i32> -> token")  # fmt: skip
        return after, value

    def nest(self, kind: str, token: str, value: str, depth: int) -> tuple[str, str]:
        result, i, t, v = self.name(), self.name(), self.name(), self.name()
        if kind == "loop":
            self.lines.append(f"{result}:2 = for {i} in (%zero to %three, step %one) : tile<i32>"
                              f" iter_values({t} = {token}, {v} = {value}) -> (token, {VALUES}) {{")  # fmt: skip
            inner = self.steps(t, v, self.random.randint(1, 3), depth)
            self.lines += [f"continue {inner[0]}, {inner[1]} : token, {VALUES}", "}"]
            return f"{result}#0", f"{result}#1"
        read, between = self.name(), self.name()
        self.lines.append(f"{read}, {between} = load_ptr_tko relaxed device %q token={token}"
                          " : tile<ptr<i32>> -> tile<i32>, token")  # fmt: skip
        odd = self.add(f"trunci {read} : tile<i32> -> tile<i1>")
        self.lines.append(f"{result}:2 = if {odd} -> (token, {VALUES}) {{")
        for end in ("} else {", "}"):
            inner = self.steps(between, value, self.random.randint(0, 2), depth)
            self.lines += [f"yield {inner[0]}, {inner[1]} : token, {VALUES}", end]
        return f"{result}#0", f"{result}#1"


@pytest.mark.sampled(6)
@pytest.mark.parametrize("seed", range(12))
def test_program(seed):
    text = Program(seed).text()
    # Two parameters that overlap by all but a few elements.
    memory = np.random.default_rng(seed).integers(-99, 99, SIZE + 8).astype(np.int32)
    expected, actual = memory.copy(), memory.copy()
    interpret(text, "k", 1, [expected[8:], expected[:SIZE]])
    num_warps = random.Random(seed).choice([None, 1, 4, 8])
    artifact = tileiras.compile(text, gpu_name=TARGETS[seed % 4], source_name="kernel.mlir", num_warps=num_warps)
    metadata = json.loads(artifact.kernels[0].artifacts[".json"])
    emulate(artifact.text, "k", 1, [actual[8:], actual[:SIZE]], metadata=metadata, seed=seed)
    assert (actual == expected).all()
