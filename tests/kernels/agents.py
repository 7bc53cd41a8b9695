"""Hand-written kernels of nv_tileas with agents.

Each copies rows of `TILE` elements from %a through a pipe; they differ in the operations of the consumers.
"""

from __future__ import annotations

from tests.kernels.tileaa import encoding
from tileiras.layout import LinearLayout

TILE = 256

MEMREF = "!nv_tileaa.memref<?xf32, strides = [1]>"
VIEW = f"!nv_tileaa.tiled_view<[{TILE}], {MEMREF}>"
POINTER = "!nv_tileaa.ptr<f32>"
TOKEN = "!nv_tileaa.mem_token"
SHARED = f"#nv_tileas.shared<offset = [{', '.join(f'[{1 << bit}]' for bit in range(8))}]>"
LD, ST, CP = (f"#nv_tileas.copy_atom<{name}, 4>" for name in ("ld_global", "st_global", "cp_async"))
INSIDE = "nv_tileaa.inbounds = array<i1: true>"
PIPE = "nv_tileas.async.pipeline"


def layout(warps: int) -> LinearLayout:
    """Vectors of four adjacent elements, distributed over the threads of `warps` warps."""
    names = {"register": 2, "lane": 5, "warp": warps.bit_length() - 1}
    bases: dict[str, list[int]] = {}
    bit = 0
    for name, count in names.items():
        bases[name] = [1 << place if place < TILE.bit_length() - 1 else 0 for place in range(bit, bit + count)]
        bit += count
    bases["register"] += [1 << place for place in range(bit, TILE.bit_length() - 1)]
    return LinearLayout(bases, (TILE,))


def tile(warps: int) -> str:
    return f"tensor<{TILE}xf32, {encoding(layout(warps))}>"


def buffer(depth: int) -> str:
    return f"!nv_tileas.buffer<{depth}, tensor<{TILE}xf32, {SHARED}>>"


def load(row: str, warps: int, name: str = "%x", view: str = "%va") -> str:
    return (
        f"{name}, %t_{name[1:]} = nv_tileas.tiled_load {view}[{row}] {{atom = {LD}, {INSIDE}}}"
        f" : {VIEW}, (i32) -> {tile(warps)}, {TOKEN}"
    )


def store(value: str, row: str, warps: int, view: str = "%vb", token: str = "") -> str:
    behind = f" token = {token}" if token else ""
    return (
        f"%s_{value[1:]} = nv_tileas.tiled_store {value}, {view}[{row}]{behind} {{atom = {ST}, {INSIDE}}}"
        f" : {tile(warps)}, {VIEW}, (i32) -> {TOKEN}"
    )


def filled(kind: str, row: str, warps: int, depth: int) -> str:
    """Fill the acquired stage of %q, at iterator %i, with a row of %a."""
    if kind == "cp_async":
        attributes = f"atom = {CP}, layout = {encoding(layout(warps))}, {INSIDE}"
        return f"""
        %stage = {PIPE}.get_stage %i : i32
        nv_tileas.async.tiled_load %va[{row}] into %ring[%stage : i32] {{{attributes}}}
          : {VIEW}, (i32), {buffer(depth)}"""
    if kind == "bulk_load":
        return f"""
        nv_tileas.async.bulk_load %va[{row}] into %q {{{INSIDE}}} : {VIEW}, (i32)"""
    return f"""
        {load(row, warps)}
        {PIPE}.producer_write %x into %q : {tile(warps)}"""


def drained(kind: str, row: str, warps: int, view: str = "%vb") -> str:
    """Stores twice the tile in the stage of %q to a row of a view, or the tile itself by a bulk copy."""
    if kind == "bulk_store":
        return f"""
        nv_tileas.async.bulk_store %q to {view}[{row}] {{{INSIDE}}} : {VIEW}, (i32)"""
    return f"""
        %y = {PIPE}.consumer_read %q : {tile(warps)}
        %z = nv_tileas.addf %y, %y : {tile(warps)}
        {store("%z", row, warps, view)}"""


def rounds(end: str, first: str, middle: str, last: str, rows: str = "%zero to %n step %one") -> str:
    """A loop over rows on one end of the pipe: the wait, the operations on a stage, and the signal."""
    kind = "producer" if end == "%p" else "consumer"
    return f"""
      %i0 = {PIPE}.create_iterator {end} : !nv_tileas.{kind}_token
      %last = scf.for %row = {rows} iter_args(%i = %i0) -> (!nv_tileas.pipeline_iterator) : i32 {{
        %q = {PIPE}.{first} {end}, %i
        {middle}
        %r = {PIPE}.{last} %q
        %j = {PIPE}.inc_iter %i
        scf.yield %j : !nv_tileas.pipeline_iterator
      }}
      {PIPE}.yield"""


def producer(kind: str, warps: int, depth: int) -> str:
    return rounds("%p", "producer_acquire", filled(kind, "%row", warps, depth), "producer_commit")


def consumer(kind: str, warps: int, view: str = "%vb") -> str:
    return rounds("%c", "consumer_wait", drained(kind, "%row", warps, view), "consumer_release")


def kernel(
    agents: list[tuple[int, str]],
    depth: int = 2,
    kinds: tuple[str, str] = ("st_shared", "ld_shared"),
    gpu: str = "sm_90",
    registers: list[int] | None = None,
    block_warps: int = 0,
    before: str = "",
    after: str = "",
    warps: int = 4,
) -> str:
    """A kernel with one pipe, %p and %c, over %ring; `agents` are warps and programs."""
    total = block_warps or sum(count for count, _ in agents)
    regions = ", ".join(f"{{{program}\n    }}" for _, program in agents)
    counts = ", ".join(str(count) for count, _ in agents)
    limits = f" max_regs = [{', '.join(map(str, registers))}]" if registers else ""
    return f"""
module {{
  nv_tileaa.func @k(%pa: {POINTER}, %pb: {POINTER}, %pc: {POINTER}, %n: i32) attributes {{
      kernel_spec = #nv_tileaa.kernel_spec<numWarps = {warps}, numCtas = 1>, nv_tileas.block_warps = {total} : i32,
      target_spec = "{gpu}"}} {{
    %zero = arith.constant 0 : i32
    %one = arith.constant 1 : i32
    %size = arith.constant {64 * TILE} : i32
    %a = nv_tileas.assume #nv_tileaa.div_by<16>, %pa : {POINTER}
    %b = nv_tileas.assume #nv_tileaa.div_by<16>, %pb : {POINTER}
    %c_ = nv_tileas.assume #nv_tileaa.div_by<16>, %pc : {POINTER}
    %ma = nv_tileas.make_memref %a, sizes = [%size], strides = [] : {POINTER}, (i32), () -> {MEMREF}
    %mb = nv_tileas.make_memref %b, sizes = [%size], strides = [] : {POINTER}, (i32), () -> {MEMREF}
    %mc = nv_tileas.make_memref %c_, sizes = [%size], strides = [] : {POINTER}, (i32), () -> {MEMREF}
    %va = nv_tileas.block_tile %ma : {VIEW}
    %vb = nv_tileas.block_tile %mb : {VIEW}
    %vc = nv_tileas.block_tile %mc : {VIEW}
    {before}
    %ring = nv_tileas.alloc_tensor : {buffer(depth)}
    %p, %c = {PIPE}.create_pipeline %ring stages {depth} producer = {kinds[0]} consumer = {kinds[1]} : {buffer(depth)}
    {PIPE}.agent_switch num_agents_per_group = [{", ".join("1" for _ in agents)}] num_warps = [{counts}]{limits}
      {regions}
    nv_tileas.dealloc_tensor %ring : {buffer(depth)}
    {after}
    nv_tileaa.return
  }}
}}
"""


def copy_kernel(
    producer_kind: str, consumer_kind: str, depth: int, gpu: str, producers: int = 1, consumers: int = 4, **options
) -> str:
    """One agent that loads, one that stores."""
    agents = [(consumers, consumer(consumer_kind, consumers)), (producers, producer(producer_kind, producers, depth))]
    return kernel(agents, depth, (producer_kind, consumer_kind), gpu, **options)


def two_consumers(kind: str, depth: int, gpu: str, warps: int = 2) -> str:
    """Two agents read every stage: one stores twice a row to %b, the other the row's square to %c_."""
    square = drained("ld_shared", "%row", warps, "%vc").replace("addf", "mulf")
    agents = [
        (warps, consumer("ld_shared", warps)),
        (warps, rounds("%c", "consumer_wait", square, "consumer_release")),
        (1, producer(kind, 1, depth)),
    ]
    return kernel(agents, depth, (kind, "ld_shared"), gpu, warps=warps)


def persistent(kind: str, depth: int, gpu: str, columns: int = 3) -> str:
    """Each block sums `columns` rows for every tile of its own; the pipe continues from one tile to the next."""
    tiles = f"""
      %id = nv_tileas.get_program_id x : i32
      %blocks = nv_tileas.get_num_programs x : i32
      %columns = arith.constant {columns} : i32"""

    def nested(end: str, before: str, inner: str, after: str, start: str = "", carried: str = "") -> str:
        side = "producer" if end == "%p" else "consumer"
        first, last = ("producer_acquire", "producer_commit") if end == "%p" else ("consumer_wait", "consumer_release")
        iterator = "!nv_tileas.pipeline_iterator"
        types = f"({iterator}{', ' + carried if carried else ''})"
        sums = ", %acc = %start" if carried else ""
        results = "%j1, %sum" if carried else "%j1"
        return f"""
      {tiles}
      %i0 = {PIPE}.create_iterator {end} : !nv_tileas.{side}_token
      %end = scf.for %tile = %id to %n step %blocks iter_args(%i1 = %i0) -> ({iterator}) : i32 {{
        %base = arith.muli %tile, %columns : i32
        {start}
        {results} = scf.for %k = %zero to %columns step %one iter_args(%i = %i1{sums}) -> {types} : i32 {{
          %row = arith.addi %base, %k : i32
          {before}
          %q = {PIPE}.{first} {end}, %i
          {inner}
          %r = {PIPE}.{last} %q
          %j = {PIPE}.inc_iter %i
          scf.yield %j{', %total' if carried else ''} : {types[1:-1]}
        }}
        {after}
        scf.yield %j1 : {iterator}
      }}
      {PIPE}.yield"""

    summed = f"""
          %y = {PIPE}.consumer_read %q : {tile(4)}
          %total = nv_tileas.addf %acc, %y : {tile(4)}"""
    zero = f"%start = arith.constant dense<0.0> : tensor<{TILE}xf32> as {tile(4)}"
    agents = [
        (4, nested("%c", "", summed, store("%sum", "%tile", 4), zero, tile(4))),
        (1, nested("%p", "", filled(kind, "%row", 1, depth), "")),
    ]
    return kernel(agents, depth, (kind, "ld_shared"), gpu)


def whole_stages(gpu: str, depth: int = 2) -> str:
    """produce_one and consume_one: the producer adds 1, the consumer multiplies by the row that it reads."""
    here, there = tile(2), tile(4)
    ones = f"%ones = arith.constant dense<1.0> : tensor<{TILE}xf32> as {here}"
    iterator = "!nv_tileas.pipeline_iterator"
    produces = f"""
      {ones}
      %i0 = {PIPE}.create_iterator %p : !nv_tileas.producer_token
      %last = scf.for %row = %zero to %n step %one iter_args(%i = %i0) -> ({iterator}) : i32 {{
        %q = {PIPE}.produce_one %p, %i attributes {{producer_types = [{here}]}} {{
        ^bb0(%before: {here}):
          {load("%row", 2)}
          %y = nv_tileas.addf %x, %ones : {here}
          {PIPE}.yield %y : {here}
        }}
        %j = {PIPE}.inc_iter %i
        scf.yield %j : {iterator}
      }}
      {PIPE}.yield"""
    consumes = f"""
      %i0 = {PIPE}.create_iterator %c : !nv_tileas.consumer_token
      %last = scf.for %row = %zero to %n step %one iter_args(%i = %i0) -> ({iterator}) : i32 {{
        %r, %z = {PIPE}.consume_one %c, %i attributes {{consumer_types = [{there}]}}
            : !nv_tileas.consumer_token, {there} {{
        ^bb0(%y: {there}):
          %w = nv_tileas.mulf %y, %y : {there}
          {PIPE}.yield %w : {there}
        }}
        {store("%z", "%row", 4)}
        %j = {PIPE}.inc_iter %i
        scf.yield %j : {iterator}
      }}
      {PIPE}.yield"""
    return kernel([(4, consumes), (2, produces)], depth, gpu=gpu)


def held_stage(gpu: str, depth: int = 3) -> str:
    """The consumer releases a stage one round after it has read it, as for a dot in flight."""
    iterator, token = "!nv_tileas.pipeline_iterator", "!nv_tileas.consumer_token"
    consumes = f"""
      %i0 = {PIPE}.create_iterator %c : {token}
      %w0 = {PIPE}.consumer_wait %c, %i0
      %i1 = {PIPE}.inc_iter %i0
      %y0 = {PIPE}.consumer_read %w0 : {tile(4)}
      {store("%y0", "%zero", 4)}
      %last, %held = scf.for %row = %one to %rows step %one iter_args(%i = %i1, %before = %w0)
          -> ({iterator}, {token}) : i32 {{
        %q = {PIPE}.consumer_wait %c, %i
        %r = {PIPE}.consumer_release %before
        %y = {PIPE}.consumer_read %q : {tile(4)}
        {store("%y", "%row", 4)}
        %j = {PIPE}.inc_iter %i
        scf.yield %j, %q : {iterator}, {token}
      }}
      %done = {PIPE}.consumer_release %held
      {PIPE}.yield"""
    before = "%rows = nv_tileas.assume #nv_tileaa.bounded<1, ?>, %n : i32"
    agents = [(4, consumes), (1, producer("cp_async", 1, depth).replace("%n step", "%rows step"))]
    return kernel(agents, depth, ("cp_async", "ld_shared"), gpu, before=before)


def exchanging(gpu: str, block_warps: int = 0) -> str:
    """Two consumers whose threads exchange elements through scratch memory: one reverses every row, and both sum their
    rows, with warps that are not the CTA's first ones."""
    warps = 2
    order = layout(warps).to_coordinates()
    bases = [basis for name in ("register", "lane", "warp") for basis in order[name]]
    turned = [(TILE // 2 // basis[0],) for basis in bases]
    counts = {name: len(order[name]) for name in ("register", "lane", "warp")}
    parts, at = [], 0
    for name, count in counts.items():
        parts.append(f"{name} = [{', '.join(f'[{basis[0]}]' for basis in turned[at : at + count])}]")
        at += count
    other = f"tensor<{TILE}xf32, #nv_tileas.linear<{', '.join(parts)}>>"
    scattered = f"""
        %y = {PIPE}.consumer_read %q : {other}
        %w = nv_tileas.convert_layout %y : {other} -> {tile(warps)}
        %z = nv_tileas.addf %w, %w : {tile(warps)}
        {{}}"""
    agents = [
        (warps, rounds("%c", "consumer_wait", scattered.format(store("%z", "%row", warps)), "consumer_release")),
        (1, producer("cp_async", 1, 2)),
        (warps, rounds("%c", "consumer_wait", scattered.format(store("%z", "%row", warps, "%vc")), "consumer_release")),
    ]
    return kernel(agents, 2, ("cp_async", "ld_shared"), gpu, warps=warps, block_warps=block_warps)


def taking_turns(gpu: str) -> str:
    """Two agents add to one row in global memory in turns, ordered by pipes without tiles: a mutex that each passes to
    the other."""
    iterator = "!nv_tileas.pipeline_iterator"

    def adds(mine: str, other: str, factor: float) -> str:
        """`mine` acquires the row for this agent, `other` passes it on."""
        return f"""
      %f = arith.constant dense<{factor}> : tensor<{TILE}xf32> as {tile(2)}
      %i0 = {PIPE}.create_iterator {mine} : !nv_tileas.consumer_token
      %j0 = {PIPE}.create_iterator {other} : !nv_tileas.producer_token
      %last, %final = scf.for %row = %zero to %n step %one iter_args(%i = %i0, %j = %j0)
          -> ({iterator}, {iterator}) : i32 {{
        %q = {PIPE}.consumer_wait {mine}, %i
        {load("%zero", 2, view="%vb")}
        %y = nv_tileas.mulf %x, %f : {tile(2)}
        %z = nv_tileas.addf %y, %f : {tile(2)}
        {store("%z", "%zero", 2, token="%t_x")}
        %r = {PIPE}.consumer_release %q
        %s = {PIPE}.producer_acquire {other}, %j
        %t = {PIPE}.producer_commit %s
        %in = {PIPE}.inc_iter %i
        %jn = {PIPE}.inc_iter %j
        scf.yield %in, %jn : {iterator}, {iterator}
      }}
      {PIPE}.yield"""

    first = f"""
      %j0 = {PIPE}.create_iterator %p1 : !nv_tileas.producer_token
      %s0 = {PIPE}.producer_acquire %p1, %j0
      %t0 = {PIPE}.producer_commit %s0
      %j1 = {PIPE}.inc_iter %j0"""
    starts = adds("%c2", "%p1", 2.0)
    begun = starts.replace(f"%j0 = {PIPE}.create_iterator %p1 : !nv_tileas.producer_token", first).replace(
        "%j = %j0", "%j = %j1"
    )
    pipes = "\n    ".join(f"%p{n}, %c{n} = {PIPE}.create_pipeline stages 1" for n in (1, 2))
    return without_ring(kernel([(2, begun), (2, adds("%c1", "%p2", 3.0))], gpu=gpu, before=pipes, warps=2))


def without_ring(text: str) -> str:
    """The kernel without the pipe that no agent uses."""
    gone = ("%ring = ", "%p, %c = ", "nv_tileas.dealloc_tensor %ring")
    return "\n".join(line for line in text.splitlines() if not line.strip().startswith(gone))


def one_agent(kind: str, depth: int, gpu: str) -> str:
    """No agents: the warps that read a stage have filled it themselves, `depth` rows ahead."""
    iterator = "!nv_tileas.pipeline_iterator"
    ahead = filled(kind, "%row", 4, depth)
    body = f"""
    %depth = arith.constant {depth} : i32
    %some = arith.minsi %depth, %n : i32
    %i0 = {PIPE}.create_iterator %p : !nv_tileas.producer_token
    %w0 = {PIPE}.create_iterator %c : !nv_tileas.consumer_token
    %i1 = scf.for %row = %zero to %some step %one iter_args(%i = %i0) -> ({iterator}) : i32 {{
      %q = {PIPE}.producer_acquire %p, %i
      {ahead}
      %r = {PIPE}.producer_commit %q
      %j = {PIPE}.inc_iter %i
      scf.yield %j : {iterator}
    }}
    %last, %end = scf.for %at = %zero to %n step %one iter_args(%i2 = %i1, %w = %w0)
        -> ({iterator}, {iterator}) : i32 {{
      %g = {PIPE}.consumer_wait %c, %w
      %y = {PIPE}.consumer_read %g : {tile(4)}
      %h = {PIPE}.consumer_release %g
      %row = arith.addi %at, %depth : i32
      %more = arith.cmpi slt, %row, %n : i32
      %i3 = scf.if %more -> ({iterator}) {{
        %i = {PIPE}.inc_iter %i2
        %q = {PIPE}.producer_acquire %p, %i2
        {ahead.replace("%i :", "%i2 :")}
        %r = {PIPE}.producer_commit %q
        scf.yield %i : {iterator}
      }} else {{
        scf.yield %i2 : {iterator}
      }}
      %z = nv_tileas.addf %y, %y : {tile(4)}
      {store("%z", "%at", 4)}
      %w1 = {PIPE}.inc_iter %w
      scf.yield %i3, %w1 : {iterator}, {iterator}
    }}"""
    text = kernel([(4, f"{PIPE}.yield")], depth, (kind, "ld_shared"), gpu, after="")
    start = text.index(f"    {PIPE}.agent_switch")
    return text[:start] + body + "\n" + text[text.index("    nv_tileas.dealloc_tensor") :]


def before_and_after(gpu: str) -> str:
    """All warps reverse the first row in %b, agents copy it to %c_, and all warps double it there."""
    row = load("%zero", 4, "%first")
    doubled = f"%w = nv_tileas.addf %first, %first : {tile(4)}"
    before = f"{row}\n    {doubled}\n    {store('%w', '%zero', 4)}"
    reads = load("%zero", 2, "%x", "%vb")
    writes = f"""
      %i = {PIPE}.create_iterator %p : !nv_tileas.producer_token
      %q = {PIPE}.producer_acquire %p, %i
      {reads}
      {PIPE}.producer_write %x into %q : {tile(2)}
      %r = {PIPE}.producer_commit %q
      {PIPE}.yield"""
    copies = f"""
      %i = {PIPE}.create_iterator %c : !nv_tileas.consumer_token
      %q = {PIPE}.consumer_wait %c, %i
      {drained("ld_shared", "%zero", 2, "%vc")}
      %r = {PIPE}.consumer_release %q
      {PIPE}.yield"""
    after = f"{load('%zero', 4, '%again', '%vc')}\n    %v = nv_tileas.addf %again, %again : {tile(4)}"
    after += f"\n    {store('%v', '%zero', 4, '%vc', '%t_again')}"
    return kernel([(2, copies), (2, writes)], 1, gpu=gpu, before=before, after=after)
