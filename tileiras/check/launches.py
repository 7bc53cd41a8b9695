"""The launches of a check, drawn from the facts of an entry: every group of sizes and every kind of values meets each
of its cases, in as few launches as the longest list of cases has."""

from __future__ import annotations

import random
import re
from collections import Counter
from collections.abc import Iterator, Sequence

from tileiras.ir import IntegerType

from . import values
from .boundaries import Boundaries
from .facts import Facts, Parameter
from .fitting import Plan, may_index
from .values import KINDS

TRIPS = ((3, 0), (4, 1), (1, 0), (0, 1), (5, -1), (2, 0), (0, 0), (9, 1))
"""Sizes that a loop runs along, as tiles and further elements: one trip, none, several; around the depth of rings of
two to four stages, and past it."""
EDGES = ((1, 0), (1, 1), (1, -1), (2, 1), (0, 1), (2, 0), (0, 0), (1, 0))
"""Sizes that the grid runs along: a tile, one element more, one less, several, a single element, nothing; and a tile
for the longest loops, which a kernel that walks over its tiles would not reach without one."""
STARTS = (0, 1, 0, 2, 0, 1, 0, 0)
"""Numbers that loops begin with: below the ends of `TRIPS`, at them, and beyond."""
ROWS = 2
"""Rows of a table with numbers of their own, besides the first."""
MOST_TRIPS = 17
"""The third use of each stage of a ring of eight."""
MOST_ARRIVALS = 8
"""Arrivals of a barrier, one for each warp, up to which a loop has trips for a wrong count to show."""
MOST_BLOCKS = 8
"""Tile blocks of a launch whose last one has the most trips."""
SCALARS = (1, 3, 2, 5, 0, 7, 4, 1)
THRESHOLDS = (1, 3, 1, 3, 0, 3, 1, 2)
"""Quarters of an integer type's range: a tile of any numbers has some on either side of one or three, whether they are
signed or not."""
BLOCKS = ((3, 2, 1), (2, 3, 1), (2, 2, 2), (4, 1, 1), (3, 2, 1), (2, 1, 3), (2, 2, 2), (4, 1, 1))
"""The most tile blocks along each dimension of the grid that the kernel reads, in their order."""
VALUES = (KINDS[0], KINDS[1], KINDS[2], KINDS[0], KINDS[3], KINDS[1], KINDS[0], KINDS[4])
PADDINGS = (0, 1, 0, 3, 0, 0, 5, 0)
EDGE_LAUNCHES = 48
"""Most further sizes for the bounds of masks."""
ROOMY_LAUNCHES = 2
"""With views beyond the tiles that the program counts."""
RANDOM_LAUNCHES = 16
"""Of these, those that are drawn where no size is known to meet a further bound."""
FEW_LAUNCHES = 8
"""As many suffice where each comparison of the code has met its bound."""
NEGATIVE_LAUNCHES = 3
"""In which one parameter alone is negative."""
SEVERAL = EDGES.index((2, 1))
"""The launch whose grid has several blocks where it has one tile for each."""
SPLIT_LAUNCHES = 2
"""Of loops that end where others begin, inside of a view."""
_FURTHER = SPLIT_LAUNCHES + NEGATIVE_LAUNCHES + ROOMY_LAUNCHES + len(values.LARGE)
MOST = len(TRIPS) + MOST_TRIPS + 2 + _FURTHER + EDGE_LAUNCHES
_CANDIDATES = 24


def ring_depth(ptx: str) -> int:
    """Stages of the deepest ring of barriers of a code: where its counter of stages returns to zero, or else half of
    its barriers, since a ring has two for each stage."""
    if "mbarrier.init" not in ptx:
        return 0
    ends = re.findall(r"setp\.eq\.\w+\s+(%p\d+), (%r\d+), (\d+);", ptx)
    returns = {(result, guard) for result, guard in re.findall(r"selp\.b32\s+%r\d+, 0, (%r\d+), (%p\d+);", ptx)}
    depths = [int(end) for guard, counter, end in ends if (counter, guard) in returns and int(end) <= MOST_TRIPS // 2]
    return max(depths, default=max(each.count("mbarrier.init.") for each in ptx.split(".entry")) // 2)


def ring_trips(ptx: str) -> int:
    """Trips of a loop after which each stage of the deepest ring of a code has been used a third time: the parity of a
    barrier's phase then returns, and a parity that is not updated shows."""
    return min(2 * ring_depth(ptx) + 1, MOST_TRIPS)


def drift_trips(ptx: str) -> int:
    """Trips of a loop after which a barrier that expects an arrival too few or too many is off by a whole phase: a use
    of each stage for each arrival, and another one.  Zero for codes whose barriers count more arrivals than warps."""
    numbers = dict(re.findall(r"mov\.b32\s+(%r\d+), (\d+);", ptx))
    counts = re.findall(r"mbarrier\.init\.\S+\s+\[[^\]]+\], ([^;\s]+);", ptx)
    arrivals = [int(numbers.get(each, each)) for each in counts if each in numbers or each.isdigit()]
    most = max((each for each in arrivals if 1 < each <= MOST_ARRIVALS), default=0)
    return ring_depth(ptx) * (most + 1) + 1 if most else 0


def plans(facts: Facts, trips: int = 0) -> Iterator[Plan]:
    """The launches of a check, the plainest first; the last one has `trips` trips at least."""
    count = max(len(TRIPS), len(EDGES))
    for number in range(count):
        yield _plan(facts, number, max(trips, TRIPS[-1][0]) if number == count - 1 else 0)


def every(facts: Facts, boundaries: Boundaries, ptx: str) -> Iterator[Plan]:
    """All launches of a check of a code; `boundaries` learns from each before the next is chosen."""
    yield from plans(facts, ring_trips(ptx))
    yield from ring_plans(facts, ptx)
    yield from split_plans(facts)
    yield from roomy_plans(facts)
    yield from negative_plans(facts)
    yield from scalar_plans(facts)
    yield from edge_plans(facts, boundaries)


def ring_plans(facts: Facts, ptx: str) -> Iterator[Plan]:
    """Loops that end at each stage of a ring in each of its phases: code behind a loop waits for the last phase.  Of a
    code with a kernel for clusters of tile blocks, each kernel has these launches, and grids of three tile blocks,
    which have no such clusters."""
    clusters = re.findall(r"\.reqnctapercluster (\d+)(?:, (\d+))?(?:, (\d+))?", ptx) if ptx.count(".entry") > 1 else ()
    shapes = {(1, 1, 1), *(tuple(int(size or 1) for size in sizes) for sizes in clusters)}
    own_trips = {tiles + (more > 0) for tiles, more in TRIPS}
    has_loops = any(each.counts_trips for each in facts.parameters)
    for trips in range(2 * ring_depth(ptx) + 1) if has_loops else ():
        for shape in sorted(shapes) if trips not in own_trips else ():
            yield _shaped(facts, shape, (max(shape), 0), trips)
    for shape in sorted(shapes - {(1, 1, 1)}) if has_loops else ():
        # The longest of `plans` has one tile block.
        yield _shaped(facts, shape, (max(shape), 0), max(ring_trips(ptx), TRIPS[-1][0]))
    for shape in ((3, 1, 1), (1, 3, 1)) if clusters else ():
        yield _shaped(facts, shape, (2, 1), 2)
    drift = drift_trips(ptx)
    if drift and has_loops:
        yield _shaped(facts, _longest(facts, drift), (1, 0), drift)


def _longest(facts: Facts, trips: int) -> tuple[int, ...]:
    """The grid whose last tile block has `trips` trips of a loop whose trip count grows with the tile block's number;
    one block without such a loop."""
    shape = [1, 1, 1]
    tiles = [each.tile for each in facts.parameters if each.counts_trips and each.later_axis is None and each.tile]
    for each in facts.parameters:
        if each.later_axis is not None and each.tile and tiles:
            shape[each.later_axis] = min(-(-trips * min(tiles) // each.tile), MOST_BLOCKS)
    return tuple(shape)


def _shaped(facts: Facts, shape: tuple[int, ...], size: tuple[int, int], trips: int) -> Plan:
    """A grid of a shape where sizes permit it; sizes that the grid runs along are (tiles, further elements)."""
    plan = _plan(facts, 0, trips, size)
    plan.blocks, plan.is_edge, plan.kind = shape, True, "normal"  # type: ignore[assignment]
    plan.seed += 300 + trips
    return plan


def split_plans(facts: Facts) -> Iterator[Plan]:
    """A loop ends at a parameter that is no extent of a view, after no tile and after one: a second loop, from there to
    the end of the view, has whole tiles."""
    extents = {each[1] for view in facts.views for each in view.shape if each is not None and each[0] == "parameter"}
    sizes = [each for each in facts.parameters if each.counts_trips and each.kind == "size"]
    bounds = [each for each in sizes if each.position not in extents]
    for turn in range(SPLIT_LAUNCHES) if bounds and len(bounds) < len(sizes) else ():
        plan = _plan(facts, 0)
        for each in bounds:
            plan.numbers[each.position] = _within(each, turn * each.tile)
        plan.is_edge, plan.kind = True, "normal"
        plan.seed += 600 + turn
        yield plan


def roomy_plans(facts: Facts) -> Iterator[Plan]:
    """One tile block, and views that extend a tile beyond those that the program counts: a trip too many writes there,
    where it is otherwise masked, or reads NaN, where another view ends; and a grid of one block comes to the end of
    each loop over tiles exactly."""
    may_show = facts.reads_grid or facts.constant_trips > 1 or any(
        len(group) > 1 and any(facts.parameters[each].counts_trips for each in group) for group in facts.groups
    )  # fmt: skip
    for turn in range(ROOMY_LAUNCHES) if facts.groups and may_show else ():
        plan = _plan(facts, 3 * turn)
        for group in facts.groups:
            members = [facts.parameters[position] for position in group]
            tile = max(each.tile for each in members)
            for each in members:
                # One of several extents stays, and may be that which bounds a loop; otherwise the others follow it.
                stays = len(members) > 1 and each is members[turn % len(members)]
                tiles = 1 if stays else 1 + facts.constant_trips
                plan.numbers[each.position] = _within(each, tiles * tile + turn)
        plan.blocks, plan.is_edge, plan.is_aliased = (1, 1, 1), True, False
        plan.seed += 200
        yield plan


def negative_plans(facts: Facts) -> Iterator[Plan]:
    """Negative numbers where a parameter may be one, which unsigned comparisons and extensions take for large ones:
    all such parameters, and one after the other."""
    extents = {each[1] for view in facts.views for each in view.shape if each is not None and each[0] == "parameter"}
    columns = {position for table in facts.tables for position in table.columns.values()}
    signed = [
        each for each in facts.parameters
        if each.kind in ("size", "scalar") and each.position not in extents | columns
        and isinstance(each.element, IntegerType) and each.element.width >= 32
        and (each.low is None or each.low <= -each.divisor)
    ]  # fmt: skip
    groups = [signed, *([each] for each in signed[:NEGATIVE_LAUNCHES] if len(signed) > 1)]
    for number, members in enumerate(groups if signed else ()):
        plan = _plan(facts, 0)
        for each in members:
            plan.numbers[each.position] = -each.divisor
        plan.is_edge, plan.kind = True, "normal"
        plan.seed += 400 + number
        yield plan


def scalar_plans(facts: Facts) -> Iterator[Plan]:
    """Large floating-point parameters, each of `values.LARGE` in turn, with several tile blocks: a factor that is the
    number of a block is zero in the first one."""
    for turn in range(len(values.LARGE)) if any(each.kind == "float" for each in facts.parameters) else ():
        plan = _plan(facts, SEVERAL)
        plan.large_scalars, plan.is_edge, plan.kind = turn, True, "normal"
        plan.seed += 500 + turn
        yield plan


def edge_plans(facts: Facts, boundaries: Boundaries) -> Iterator[Plan]:
    """Further sizes, for the bounds of masks: each lane and register compares its own element position, and only a size
    that ends there exposes a wrong bound.  Sizes are those that meet the most bounds; without any, random ones."""
    if not facts.groups:
        return
    draw = random.Random(len(facts.parameters))
    counts: Counter[tuple[int, str, int]] = Counter()
    for number in range(EDGE_LAUNCHES):
        plan = _plan(facts, 1 + number % 6)
        groups = [[facts.parameters[position] for position in group] for group in facts.groups]
        directed = boundaries.choose(groups, one=number % 3 == 2)
        if not directed and number >= (RANDOM_LAUNCHES if boundaries.is_open else FEW_LAUNCHES):
            return
        for members in groups:
            sizes = directed or _random_sizes(members, number, draw, counts)
            for each in members:
                plan.numbers[each.position] = _within(each, sizes[each.position])
        plan.lengths = tuple((draw.randrange(3), draw.randrange(-7, 8)) for _ in range(4))
        plan.kind = ("normal", "whole")[number % 2]
        # Between rows there is NaN, which shows any access there; without padding the last row ends with its array.
        plan.padding = (1, 0, 3)[number % 3]
        plan.seed += 100 + number
        plan.is_aliased = False
        plan.is_edge = True
        plan.has_spare_blocks = number % 4 == 1
        # Small numbers repeat rows, and most rows that negative ones choose are masked.
        plan.limit = values.DISTINCT if number % 4 > 1 and may_index(facts) else None
        yield plan


def _random_sizes(
    members: Sequence[Parameter], number: int, draw: random.Random, counts: Counter[tuple[int, str, int]]
) -> dict[int, int]:
    """Random sizes of a group, of remainders and parts of a tile that were met least.

    Layouts are linear, so positions follow from bits of the size, and random sizes cover each combination of the few
    bits that select a register.
    """
    tile, divisor = max(each.tile for each in members), max(each.divisor for each in members)
    # Where tiles have one element, a third block shows the effect of large block numbers.
    most = max(tile if number % 4 else 2 * tile, 3)
    draws = [-(-draw.randrange(1, most + 1) // divisor) * divisor for _ in range(_CANDIDATES)]
    group = members[0].position
    times = [sum(counts[key] for key in _parts(group, each, tile)) for each in draws]
    size = draws[times.index(min(times))]
    counts.update(_parts(group, size, tile))
    sizes = {}
    for each in members:
        # As many tiles as the others have, with the last one partial: each view has its own masks.
        end = size
        if number % 2 and each.tile and each is not members[0]:
            end = (-(-size // tile) - 1) * each.tile + draw.randrange(1, each.tile + 1)
        sizes[each.position] = end
    return sizes


def _parts(group: int, size: int, tile: int) -> list[tuple[int, str, int]]:
    """Low bits and high bits of the position at which the last tile ends."""
    return [(group, "low", size % 16), (group, "high", (size - 1) % tile * 8 // tile)]


def _plan(facts: Facts, number: int, trips: int = 0, edge: tuple[int, int] = EDGES[-1]) -> Plan:
    """The launch of a number, or one whose loops have `trips` trips along sizes of `edge`, as (tiles, further
    elements)."""
    numbers = _numbers(facts, number, trips, edge)
    # The longest takes its turn in the last launch only.
    longest = (trips or TRIPS[-1][0], TRIPS[-1][1])
    lengths = (longest, *TRIPS[:-1]) if trips else (*TRIPS[number:-1], *TRIPS[:number])
    later = [_numbers(facts, 1 + (number + row) % (len(TRIPS) - 2)) for row in range(ROWS)]
    columns = {position for table in facts.tables for position in table.columns.values()}
    sizes = iter(BLOCKS[number])
    blocks = tuple(next(sizes) if reads else 1 for reads in facts.axes)
    return Plan(
        numbers, VALUES[number], PADDINGS[number], blocks, number + 1, number == 5,  # type: ignore[arg-type]
        lengths=lengths, later=tuple({at: each[at] for at in columns} for each in later if columns),
    )  # fmt: skip


def _numbers(facts: Facts, number: int, trips: int = 0, edge: tuple[int, int] = EDGES[-1]) -> dict[int, int]:
    numbers: dict[int, int] = {}
    for order, group in enumerate(facts.groups):
        members = [facts.parameters[position] for position in group]
        # Groups take different cases in one launch, except for the first launch, where all have whole tiles, and those
        # of a given number of trips.
        turn = number if number == 0 else 1 + (number - 1 + order * 3) % (len(TRIPS) - 2)
        along = any(each.counts_trips for each in members)
        case = (TRIPS if along else EDGES)[turn]
        if trips:
            case = (trips, 0) if along and number == 0 else (trips, 1) if along else edge
        size = _size(members, *case)
        for position in group:
            # The second launch reports that partial tiles are undefined.
            numbers[position] = _within(facts.parameters[position], size, may_be_partial=number == 1)
    for parameter in facts.parameters:
        if parameter.is_threshold:
            numbers[parameter.position] = _within(parameter, _threshold(parameter, number))
        elif parameter.kind == "scalar" and parameter.starts_loops:
            numbers[parameter.position] = _within(parameter, STARTS[number])
        elif parameter.kind in ("scalar", "stride"):
            numbers.setdefault(parameter.position, _within(parameter, SCALARS[(number + parameter.position) % 8]))
        elif parameter.kind == "address":
            numbers[parameter.position] = 0
    return numbers


def _threshold(parameter: Parameter, number: int) -> int:
    """A part of the range of the type, in two's complement."""
    width = getattr(parameter.element, "width", 32)
    quarters = THRESHOLDS[number] << width - 2
    return quarters - (1 << width if quarters >> width - 1 else 0)


def _size(members: Sequence[Parameter], tiles: int, more: int) -> int:
    tile, divisor = (max(getattr(each, name) for each in members) for name in ("tile", "divisor"))
    return max(0, -(-(tiles * tile + more * divisor) // divisor) * divisor)


def _within(parameter: Parameter, number: int, may_be_partial: bool = False) -> int:
    """The nearest number that the assumptions on a parameter and its type allow, with whole tiles where partial ones
    are undefined."""
    if parameter.is_whole and not may_be_partial:
        number = -(-number // parameter.tile) * parameter.tile
    number = -(-number // parameter.divisor) * parameter.divisor
    if parameter.low is not None and number < parameter.low:
        number = -(-parameter.low // parameter.divisor) * parameter.divisor
    if parameter.high is not None and number > parameter.high:
        number = parameter.high // parameter.divisor * parameter.divisor
    if isinstance(parameter.element, IntegerType) and parameter.element.width < 32:
        number = min(number, (1 << max(parameter.element.width - 1, 1)) - 1)
    return number
