"""A day of a team: 100 developers and CI on one remote cache, CI's stages on one Dask cluster of 64 workers.

    python -m bench.scale [SEED]

A simulation from the figures of `bench.scale_record`; `docs/reports/scale.md` has its assumptions and conclusions.
Each line is one policy of builds, or one state of the server, over the same day of edits.
"""

from __future__ import annotations

import random
import sys
from collections.abc import Generator, Iterable, Sequence
from typing import NamedTuple

from bench.null_build import numbers
from bench.scale_world import Calendar, Cluster, Kernels, Key, Process, Server, Version

DEVELOPERS = 100
KERNELS = 1000
WORKERS = 64
JOBS = 8
"""Processors of a developer's machine."""

HOUR = 3600.0
OFFICE, HOME = (0.002, 125e6), (0.05, 12.5e6)
"""Seconds of a round trip, and bytes a second, of two developers in five at home and the others."""

PER_REQUEST, SERVER_LINE = 0.0002, 125e6
"""The time of nginx for a small file, and a line of 1 Gbit/s."""


class Policy(NamedTuple):
    """How builds use the server."""

    server: bool = True
    waves: bool = True
    after_miss: float = 0.02
    """The longest round trip at which the successors of an executed stage are requested."""
    everybody_writes: bool = False
    ci_keeps_store: bool = False
    connect: float = 1.0
    answer: float = 3.0
    """Seconds after which a server that says nothing is done without."""
    strikes: int = 3
    """Waves in a row of more than a second after which it is, too; 0 for never."""
    slow: float = 1.0
    rest: float = 300.0
    """Seconds for which a machine does without a server that was slow or gone for one of its builds."""


BEFORE = Policy(waves=False, after_miss=9.0, connect=3.0, answer=10.0, strikes=0, rest=0.0)


class Sum:
    """The counters of one day."""

    def __init__(self) -> None:
        self.edits: list[float] = []
        self.pulls: list[float] = []
        self.ci: list[float] = []
        self.asked = self.found = 0


class Machine:
    """A developer's machine, or one of CI: its contents, and the distance of the server."""

    def __init__(self, trip: float, line: float) -> None:
        self.trip, self.line = trip, line
        self.versions: dict[int, Version] = {}
        self.code: tuple[int, ...] = (0,) * 5
        self.off_until = 0.0
        self.store: set[Key] = set()
        self.standing: dict[tuple[int, int], Key] = {}


class Connection:
    """One build's use of the server."""

    def __init__(self, day: Day, machine: Machine) -> None:
        self.day, self.machine = day, machine
        self.off = not day.policy.server or day.calendar.now < machine.off_until
        self.slow = 0

    def _turn_off(self, at: float) -> None:
        self.off = True
        self.machine.off_until = at + self.day.policy.rest

    def ask(
        self, keys: Sequence[Key], sizes: Sequence[int], at: float, beside: int
    ) -> Generator[float, None, tuple[float, set[Key]]]:
        """Look keys up; return those found.  `beside` look-ups go on at once where there are no waves."""
        day, policy = self.day, self.day.policy
        now = at
        if self.off or not keys:
            return now, set()
        state = day.server.state(now)
        if state == "gone":
            self._turn_off(now + policy.connect)
            return now + policy.connect, set()
        delay = day.slowness if state == "slow" else 0.0
        if delay > policy.answer:
            self._turn_off(now + policy.answer)
            return now + policy.answer, set()
        result = {key for key in keys if day.server.rows.get(key, 1e9) <= now}
        size = sum(size for key, size in zip(keys, sizes) if key in result)
        if policy.waves:
            done = now
            for requests, share in day.server.pieces(len(keys), size):
                done = day.server.serve(now, requests, share)
                yield done  # others have their turn
                now = max(done, day.calendar.now)
            now = max(done, at + size / self.machine.line) + self.machine.trip + delay
        else:
            # A message and then its bytes, one kernel after the other in each of the jobs.
            day.server.serve(now, len(keys) + len(result), size)
            trips = -(-len(keys) // beside) - (-len(result) // beside)
            now += trips * (self.machine.trip + PER_REQUEST + delay) + size / self.machine.line
        self._judge(delay, now)
        day.sum.asked += len(keys)
        day.sum.found += len(result)
        day.server.sent += size
        return now, result

    def _judge(self, delay: float, now: float) -> None:
        policy = self.day.policy
        self.slow = self.slow + 1 if delay > policy.slow else 0
        if policy.strikes and self.slow >= policy.strikes:
            self._turn_off(now)


class Day:
    """One day of the team under one policy."""

    def __init__(self, policy: Policy, seed: int, weather: Sequence[tuple[float, float, str]], slowness: float) -> None:
        self.policy = policy
        self.slowness = slowness
        self.random = random.Random(seed)
        self.kernels = Kernels(KERNELS)
        self.calendar = Calendar()
        self.server = Server(PER_REQUEST, SERVER_LINE, weather)
        self.cluster = Cluster(WORKERS, 0.005)
        self.sum = Sum()
        self.main: dict[int, Version] = {kernel: Version() for kernel in range(KERNELS)}
        self.code: tuple[int, ...] = (0,) * 5
        self.texts = 0
        for kernel in range(KERNELS):
            self.server.rows.update(dict.fromkeys(self.kernels.keys(kernel, Version(), self.code), 0.0))
        self.ci = Machine(0.001, SERVER_LINE)

    def run(self) -> Sum:
        for number in range(DEVELOPERS):
            trip, line = HOME if number % 5 < 2 else OFFICE
            self.calendar.start(self.random.uniform(8.5, 10) * HOUR, self._developer(Machine(trip, line)))
        for at, stage in ((11 * HOUR, 3), (14 * HOUR, 2)):
            self.calendar.start(at, self._compiler_edit(stage))
        self.calendar.run()
        return self.sum

    # ---- people ------------------------------------------------------------------------------------------------------

    def _developer(self, machine: Machine) -> Process:
        """Pull in the morning and at noon, edit and build every few minutes, push three times, merge the last."""
        own = [self.random.randrange(KERNELS) for _ in range(6)]
        machine.versions = dict.fromkeys(range(KERNELS), Version())
        for kernel in range(KERNELS):  # yesterday's build
            for stage, key in enumerate(self.kernels.keys(kernel, Version(), machine.code)):
                machine.standing[kernel, stage] = key
        start = self.calendar.now
        pulls = [start, start + 4 * HOUR]
        pushes = [start + 2.5 * HOUR, start + 5 * HOUR, start + 7.5 * HOUR]
        edited: set[int] = set()
        while self.calendar.now < start + 8 * HOUR:
            if pulls and self.calendar.now >= pulls[0]:
                pulls.pop(0)
                changed = [k for k, version in self.main.items() if machine.versions[k] != version and k not in edited]
                machine.versions.update((k, self.main[k]) for k in changed)
                if machine.code != self.code:
                    machine.code, changed = self.code, list(range(KERNELS))
                yield from self._build(machine, changed, self.sum.pulls)
            kernels = [self.random.choice(own)]
            if self.random.random() < 0.05:  # a module that kernels share
                kernels = own + [self.random.randrange(KERNELS) for _ in range(20)]
            comment = self.random.random() < 0.3
            for kernel in kernels:
                machine.versions[kernel] = self._edited(machine.versions[kernel], comment)
            edited.update(kernels)
            yield from self._build(machine, kernels, self.sum.edits)
            if pushes and self.calendar.now >= pushes[0]:
                pushes.pop(0)
                versions = {**self.main, **{kernel: machine.versions[kernel] for kernel in edited}}
                self.calendar.start(self.calendar.now + 30, self._continuous(versions, merges=not pushes))
            yield self.calendar.now + self.random.expovariate(1 / 240)

    def _edited(self, version: Version, comment: bool) -> Version:
        self.texts += 1
        return Version(self.texts, version.meaning if comment else self.texts)

    def _compiler_edit(self, stage: int) -> Process:
        """A developer merges another version of a stage's code; CI builds everything with it."""
        self.code = (*self.code[:stage], self.code[stage] + 1, *self.code[stage + 1 :])
        yield from self._continuous(dict(self.main), merges=True)

    def _continuous(self, versions: dict[int, Version], merges: bool) -> Process:
        """A build of everything by CI, of a checkout that is new."""
        machine = self.ci if self.policy.ci_keeps_store else Machine(self.ci.trip, self.ci.line)
        machine.versions, machine.code, machine.standing = versions, self.code, {}
        if merges:
            self.main.update(versions)
        yield from self._build(machine, range(KERNELS), self.sum.ci)

    # ---- a build -----------------------------------------------------------------------------------------------------

    def _build(self, machine: Machine, kernels: Iterable[int], waits: list[float]) -> Process:
        """Build kernels and add the time to `waits`.  One process serves rows and hands out the stages that run."""
        start = now = self.calendar.now
        ci = waits is self.sum.ci
        connection = Connection(self, machine)
        code = machine.code
        keys = {kernel: self.kernels.keys(kernel, machine.versions[kernel], code) for kernel in kernels}
        chains: dict[int, float] = {}
        """Seconds of stages that have to run, by kernel."""
        hits = 0
        items: list[tuple[Key, int]] = []
        for stage in range(5):
            wanted: list[int] = []
            for kernel, own in keys.items():
                key = own[stage]
                if machine.standing.get((kernel, stage)) == key:
                    continue
                if key in machine.store:
                    hits += 1
                elif kernel not in chains or machine.trip <= self.policy.after_miss:
                    wanted.append(kernel)
                else:
                    self._ran(kernel, stage, key, chains, items)
                machine.standing[kernel, stage] = key
            sizes = [self.kernels.sizes[kernel][stage] for kernel in wanted]
            now, result = yield from connection.ask([keys[kernel][stage] for kernel in wanted], sizes, now, JOBS)
            hits += len(result)
            for kernel in wanted:
                if keys[kernel][stage] in result:
                    machine.store.add(keys[kernel][stage])
                else:
                    self._ran(kernel, stage, keys[kernel][stage], chains, items)
        now += (hits + len(items)) * self.kernels.hit
        now = self.cluster.work(now, list(chains.values())) if ci else now + _packed(chains.values())
        machine.store.update(key for key, _ in items)
        yield now
        if self.policy.server and (ci or self.policy.everybody_writes):
            self._upload(items)
        waits.append(self.calendar.now - start)

    def _ran(
        self, kernel: int, stage: int, key: Key, chains: dict[int, float], made: list[tuple[Key, int]]
    ) -> None:
        chains[kernel] = chains.get(kernel, 0.0) + self.kernels.seconds[kernel][stage]
        made.append((key, self.kernels.sizes[kernel][stage]))

    def _upload(self, made: Sequence[tuple[Key, int]]) -> None:
        now = self.calendar.now
        if self.server.state(now) != "well":
            return
        for key, size in made:
            if key not in self.server.rows:
                self.server.rows[key] = self.server.serve(now, 1, size)
                self.server.received += size


def _packed(chains: Iterable[float]) -> float:
    """Seconds of chains on a developer's processors."""
    chains = list(chains)
    return max(sum(chains) / JOBS, max(chains, default=0.0))


# ---- the table -------------------------------------------------------------------------------------------------------

NOW = Policy()
AN_HOUR = (10 * HOUR, 11.5 * HOUR)

ROWS: tuple[tuple[str, Policy, str, float], ...] = (
    ("no server", Policy(server=False), "", 0),
    ("one by one, 10 s", BEFORE, "", 0),
    ("waves, always asking on", NOW._replace(after_miss=9.0), "", 0),
    ("waves, never asking on", NOW._replace(after_miss=-1.0), "", 0),
    ("waves, asking near servers on", NOW, "", 0),
    ("the same, everybody writes", NOW._replace(everybody_writes=True), "", 0),
    ("the same, CI keeps its store", NOW._replace(ci_keeps_store=True), "", 0),
    ("0.5 s slow: one by one, 10 s", BEFORE, "slow", 0.5),
    ("0.5 s slow: waves, 3 s", NOW, "slow", 0.5),
    ("2.5 s slow: waves, no limit", NOW._replace(strikes=0), "slow", 2.5),
    ("2.5 s slow: three waves", NOW._replace(rest=0.0), "slow", 2.5),
    ("2.5 s slow: and five minutes' rest", NOW, "slow", 2.5),
    ("9 s slow: one by one, 10 s", BEFORE, "slow", 9.0),
    ("9 s slow: waves, 10 s", NOW._replace(answer=10.0, strikes=0, rest=0.0), "slow", 9.0),
    ("9 s slow: waves, 3 s", NOW._replace(rest=0.0), "slow", 9.0),
    ("9 s slow: and five minutes' rest", NOW, "slow", 9.0),
    ("gone: 3 s to connect", BEFORE, "gone", 0),
    ("gone: 1 s to connect", NOW._replace(rest=0.0), "gone", 0),
    ("gone: and five minutes' rest", NOW, "gone", 0),
)


def percentile(values: Sequence[float], share: float) -> float:
    return sorted(values)[min(len(values) - 1, int(share * len(values)))] if values else 0.0


def main(arguments: Sequence[str] = ()) -> None:
    (seed,) = numbers("scale", arguments, seed=1)
    print(f"{DEVELOPERS} developers, {KERNELS} kernels, {WORKERS} workers, seed {seed}; seconds of builds after edits, "
          "after pulls, and by CI")  # fmt: skip
    names = ("edits", "median", "99 %", "pulls", "worst", "CI", "worst", "hours", "hits", "GB out", "GB in", "busy",
             "queue")  # fmt: skip
    print(f"{'':<31}" + "".join(f"{name:>8}" for name in names))
    for name, policy, state, slowness in ROWS:
        day = Day(policy, seed, [(*AN_HOUR, state)] if state else [], slowness)
        done = day.run()
        rate = done.found / done.asked if done.asked else 0.0
        hours = (sum(done.edits) + sum(done.pulls)) / HOUR
        print(
            f"{name:<31}{len(done.edits):8}{percentile(done.edits, 0.5):8.2f}{percentile(done.edits, 0.99):8.2f}"
            f"{percentile(done.pulls, 0.5):8.1f}{max(done.pulls):8.1f}{percentile(done.ci, 0.5):8.1f}"
            f"{max(done.ci):8.1f}{hours:8.1f}{rate:8.0%}{day.server.sent / 1e9:8.1f}{day.server.received / 1e9:8.2f}"
            f"{day.server.busy / (10 * HOUR):8.0%}{percentile(day.cluster.waits, 0.99):8.1f}",
            flush=True,
        )


if __name__ == "__main__":
    main(sys.argv[1:])
