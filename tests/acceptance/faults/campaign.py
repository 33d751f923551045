"""The whole run: every fault alone and in pairs, so many submissions, and what became of them."""

from __future__ import annotations

import itertools
import random
import re
import sqlite3
import threading
import time
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, field
from queue import Empty, SimpleQueue

from tests.acceptance.faults import jobs as work
from tests.acceptance.faults.events import Syncs, happening, sync
from tests.acceptance.faults.jobs import Job, Poller
from tests.acceptance.faults.site import USERS, Site, User
from tests.acceptance.faults.table import EVENT, JOB, SITE, USER, Fault

# Faults of the cluster in pairs need all lanes to come to an end before and after: so many of them a run.
SITE_PAIRS = 40
LOST = ("a node is lost",)
OVER_S = 150.0


@dataclass(frozen=True)
class Episode:
    """Faults of one user and her jobs that are in force while some jobs run."""

    faults: tuple[Fault, ...]
    jobs: int
    kind: str = ""


@dataclass
class Result:
    """Everything that was seen."""

    jobs: list[Job] = field(default_factory=list)
    control: list[Job] = field(default_factory=list)
    syncs: Syncs = field(default_factory=Syncs)
    events: Counter[str] = field(default_factory=Counter)
    epochs: int = 0
    alone: set[str] = field(default_factory=set)
    pairs: set[frozenset[str]] = field(default_factory=set)
    seconds: float = 0.0
    log_lines: Counter[str] = field(default_factory=Counter)
    nodes: dict[str, str] = field(default_factory=dict)


def fits(fault: Fault, user: User) -> bool:
    """Whether this user's spool can be broken so."""
    return fault.spool != ("plain" if user.mounted else "mount")


def possible(pair: Sequence[Fault]) -> bool:
    return not {"mount", "plain"} <= {fault.spool for fault in pair}


Epoch = tuple[tuple[Fault, ...], list[Episode]]
_CHUNK = 80


def plan(submissions: int, rng: random.Random) -> list[Epoch]:
    """Epochs (faults of the cluster) with their episodes (faults of a user), so many submissions in all."""
    own = [*USER, *JOB]
    singles = [(fault,) for fault in own]
    pairs = [pair for pair in itertools.combinations(own, 2) if possible(pair)]
    cluster = [*SITE, *EVENT]
    rng.shuffle(cluster)
    mixed = {site: [(fault,) for fault in own] for site in cluster}
    site_pairs = [
        pair
        for pair in itertools.combinations(cluster, 2)
        if not all(f.scope == "event" and f.part == "sync" for f in pair)
    ]
    rng.shuffle(site_pairs)
    # Few submissions: every fault alone, and as many of the pairs as there is room for.
    least = 2 * len(singles) + len(USERS) * len(cluster)
    room = max(0, submissions - least)
    chosen_sites = site_pairs[: min(SITE_PAIRS, room // 20)]
    room -= 4 * len(chosen_sites)
    everything = [(None, pair) for pair in pairs] + [(s, one) for s in cluster for one in mixed[s]]
    rng.shuffle(everything)
    chosen = everything[: max(0, room)]
    weight = least + 4 * len(chosen_sites) + len(chosen)
    factor = submissions / weight
    share = _shares(factor, rng)
    # Everything alone first: a run that is cut short has seen each fault.
    alone: list[Epoch] = [((), [Episode(one, share(2)) for one in singles])]
    alone += [((site,), [Episode((), share(1)) for _ in USERS]) for site in cluster]
    free = [Episode(pair, share(1)) for site, pair in chosen if site is None]
    rest: list[Epoch] = [((), free[i : i + _CHUNK]) for i in range(0, len(free), _CHUNK)]
    for site in cluster:
        episodes = [Episode(one, share(1)) for other, one in chosen if other is site]
        if episodes:
            rest.append(((site,), episodes))
    rest += [(pair, [Episode((), share(1)) for _ in range(4)]) for pair in chosen_sites]
    rng.shuffle(rest)
    return [*alone, *rest]


def _shares(factor: float, rng: random.Random):  # type: ignore[no-untyped-def]
    """Whole numbers whose mean is `factor` times what is asked for."""
    debt = 0.0

    def share(weight: int) -> int:
        nonlocal debt
        exact = factor * weight + debt
        whole = max(1, int(exact))
        debt = exact - whole
        return whole

    return share


class Campaign:
    """Runs a plan on a site."""

    def __init__(self, site: Site, submissions: int, seed: int, minutes: float = 1e9) -> None:
        self.site, self.submissions, self.seed, self.minutes = site, submissions, seed, minutes
        self.deadline = float("inf")
        self.rng = random.Random(seed)
        self.result = Result()
        self.lock = threading.Lock()

    def run(self) -> Result:
        begun = time.monotonic()
        self.poller = Poller(self.site)
        try:
            self._learn()
            epochs = plan(self.submissions, self.rng)
            total = sum(e.jobs for _, episodes in epochs for e in episodes)
            print(
                f"{total} submissions in {sum(len(e) for _, e in epochs)} episodes, {len(epochs)} epochs",
                flush=True,
            )
            self.deadline = begun + self.minutes * 60
            for number, (faults, episodes) in enumerate(epochs, 1):
                if time.monotonic() > self.deadline:
                    print(f"  {self.minutes:.0f} minutes are over: the rest is left out", flush=True)
                    break
                self._epoch(faults, episodes)
                if number % 10 == 0 or number == len(epochs):
                    done = len(self.result.jobs)
                    print(
                        f"  {time.monotonic() - begun:6.0f} s  {done} submissions, {number} epochs",
                        flush=True,
                    )
            self.deadline = float("inf")
            self._control()
        finally:
            self.poller.stop()
        self._account()
        self.result.seconds = time.monotonic() - begun
        return self.result

    def _learn(self) -> None:
        """Each user's programs run once, traced, and become known."""
        first = [
            work.submit(self.site, user, kind, (), "")
            for user in self.site.users
            for kind in ("srun MPI", "mpirun")
        ]
        # `srun` and `srun MPI` are one script: what is launched stands in the environment.
        self.poller.wait([job.number for job in first], 120)
        for _ in range(20):
            done = sync(self.site, Syncs(), "first")
            graphs = [list((user.spool / "graphs").glob("*.npz")) for user in self.site.users]
            if done and done.returncode == 0 and all(len(g) >= 1 for g in graphs) and self._advised() >= 4:
                break
            time.sleep(1)
        else:
            raise RuntimeError(f"nothing was learned: {[j.output.read_text() for j in first][:2]}")
        time.sleep(2)
        sync(self.site, Syncs(), "first")
        self.site.keep()

    def _advised(self) -> int:
        return sum("graph " in p.read_text() for p in self.site.lab.layout.advice.glob("??/s*"))

    def _epoch(self, faults: tuple[Fault, ...], episodes: list[Episode]) -> None:
        site = self.site
        states = [f for f in faults if f.scope == "site"]
        events = [f.name for f in faults if f.scope == "event"]
        for fault in states:
            site.shell(fault.command)
        queue: SimpleQueue[Episode] = SimpleQueue()
        for episode in episodes:
            queue.put(episode)
        names = tuple(f.name for f in faults)
        try:
            with happening(site, events, self.result.syncs, self.rng) as times:
                lanes = [
                    threading.Thread(
                        target=self._lane, args=(user, queue, names, self.rng.randrange(1 << 30))
                    )
                    for user in site.users
                ]
                for lane in lanes:
                    lane.start()
                for lane in lanes:
                    lane.join()
            self.result.events += times
        finally:
            for fault in reversed(states):
                site.shell(fault.mend)
            if events:
                # What sync learned meanwhile must not take the next faults their target.
                site.shell("rm -rf $A; cp -a $K/advice $A; cp -a $K/cluster.json $S/cluster.json")
            if any(fault.part == "spool" for fault in states):
                for user in site.users:
                    site.mend_user(user)
        self.result.epochs += 1
        self._cover(names)

    def _cover(self, names: Sequence[str]) -> None:
        if len(names) == 1:
            self.result.alone.add(names[0])
        elif len(names) == 2:
            self.result.pairs.add(frozenset(names))

    def _lane(self, user: User, queue: SimpleQueue[Episode], around: tuple[str, ...], seed: int) -> None:
        rng = random.Random(seed)
        while time.monotonic() < self.deadline:
            try:
                episode = queue.get_nowait()
            except Empty:
                return
            if not all(fits(fault, user) for fault in episode.faults):
                queue.put(episode)
                if not self._useful(queue, user):
                    return
                continue
            self._episode(user, episode, around, rng)

    def _useful(self, queue: SimpleQueue[Episode], user: User) -> bool:
        """Whether anything is left that this user can do: one turn through the queue."""
        left = [queue.get_nowait() for _ in range(queue.qsize())] if queue.qsize() else []
        found = False
        for episode in left:
            found = found or all(fits(fault, user) for fault in episode.faults)
            queue.put(episode)
        return found

    def _episode(self, user: User, episode: Episode, around: tuple[str, ...], rng: random.Random) -> None:
        site = self.site
        names = (*around, *(f.name for f in episode.faults))
        command = "; ".join(f.command for f in episode.faults if f.scope == "job")
        own = [f for f in episode.faults if f.scope == "user"]
        for fault in own:
            site.break_user(user, fault)
        delay = 1 if set(LOST) & set(around) else 0
        jobs = [
            work.submit(site, user, episode.kind or work.choose(rng), names, command, delay)
            for _ in range(episode.jobs)
        ]
        late = self.poller.wait([job.number for job in jobs if job.number], OVER_S)
        for job in jobs:
            if job.number in late:
                job.hung = True
                site.slurm("scancel", str(job.number))
        work.harvest(user, jobs)
        if own:
            site.mend_user(user)
            work.harvest(user, [job for job in jobs if not job.records])
        with self.lock:
            self.result.jobs += jobs
            if not around or not episode.faults or len(names) == 2:
                self._cover(names)

    def _control(self) -> None:
        """The same Slurm without us: under the faults that are its own, and in jobs that break themselves."""
        site = self.site
        site.integrate(False)
        kept, self.result.jobs = self.result.jobs, []
        times = self.result.events
        self.result.events = Counter()
        size = max(8, min(200, self.submissions // 100))
        alone, pairs, epochs = set(self.result.alone), set(self.result.pairs), self.result.epochs
        for fault in EVENT:
            if fault.part == "Slurm":
                self._epoch((fault,), [Episode((), size // 4) for _ in range(4)])
        kinds = [kind for kind in work.KINDS if kind != "array"]
        self._epoch((), [Episode((fault,), 1, kind) for fault in JOB for kind in kinds])
        self.result.control, self.result.jobs = self.result.jobs, kept
        self.result.events, self.result.alone, self.result.pairs = times, alone, pairs
        self.result.epochs = epochs
        site.integrate(True)

    def _account(self) -> None:
        """What Slurm's accounting, slurmctld's log and the history say."""
        site = self.site
        everything = [*self.result.jobs, *self.result.control]
        by_number = {job.number: job for job in everything if job.number}
        for _ in range(60):
            for job in everything:
                job.states.clear()
            text = site.slurm(
                *("sacct", "-n", "-P", "-D", "-a", "-S", "now-1day", "--delimiter=\x1f"),
                *("-o", "JobID,State,ExitCode,AdminComment"),
            )
            for line in text.splitlines():
                name, state, code, comment = line.split("\x1f")
                job = by_number.get(int(re.split(r"[._]", name)[0]))
                if job:
                    job.states.append((name, state.split()[0], code))
                    job.comment = comment or job.comment
            unfinished = [
                j for j in by_number.values() if any(s[1] in ("PENDING", "RUNNING") for s in j.states)
            ]
            if not unfinished and all(j.states for j in by_number.values()):
                break
            time.sleep(1)
        log = site.lab.layout.log("slurmctld").read_text(errors="replace")
        for line in log.splitlines():
            found = re.search(r"\blua: (?:slurm-topo: )?(.*)", line)
            if found:
                word = re.sub(r"job \S+ of user \d+", "a job", found[1])
                self.result.log_lines[re.sub(r"/\S+/", "", word)[:90]] += 1
        with sqlite3.connect(f"file:{site.lab.layout.history}?mode=ro", uri=True) as history:
            rows = history.execute(
                "select jobs.job, source, decisions.decision, decisions.reason, decisions.arm "
                "from decisions join jobs on jobs.id = decisions.job_id"
            )
            for number, where, decision, reason, arm in rows:
                if number in by_number:
                    told = {"where": where, "decision": decision, "reason": reason, "arm": arm}
                    by_number[number].records.append(told)
        self.result.nodes = site.node_states()


__all__ = ["Campaign", "Episode", "Result", "plan"]
