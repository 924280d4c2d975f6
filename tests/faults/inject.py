"""Inject faults into work on files, run the same work again, and compare every byte.

    python tests/faults/inject.py --faults 100 --seed 0

The work is in `works.py`. Each fault meets a process that was forked from this one, which has
imported everything and computes with one thread; `command line` and `torchrun` start processes
of their own. A fault is held if the process was killed, ended well or gave a clear error, and the
same work, run again, ends with the bytes of work that was left in peace. Work that claims to have
ended well under a fault has these bytes at once. Faults:

    kill, power, full, broken, frozen, gone   at calls of the disk, see `struck_disk.py`
    limit           no file may grow beyond a random size
    planted         links to a file elsewhere have the names of the temporary files to come
    sparse          a file of finished work is 1 TiB of nothing, and is to be read
    moment          SIGKILL at a random time; signal: SIGTERM or SIGINT
    two writers     two processes do the same in one folder
    dead rank       one of two processes of a training is killed
    command line    `pdno train` is killed with its children
    torchrun        `pdno train` under torchrun, of which one process is killed

A table counts them by kind. The code is 1 if something fell.
"""

import argparse
import contextlib
import hashlib
import os
import random
import resource
import shutil
import signal
import socket
import subprocess
import sys
import tempfile
import time
import traceback
from collections import Counter
from pathlib import Path

import torch
import works
from struck_disk import Disk, Strike

from pdno.interface.errors import SolverError, TrainingStopped

CLEAR = (ValueError, OSError, SolverError, TrainingStopped)
ENDED_WELL, CLEARLY, BADLY = 0, 3, 4
AT_CALLS = ("kill", "power", "full", "broken", "frozen", "gone")
# how often kinds take turns, and the works that each meets
SHARES = {
    **{kind: 6 for kind in AT_CALLS},
    **{"kill": 24, "power": 12, "moment": 12, "signal": 4, "limit": 4, "two writers": 8},
    **{"planted": 4, "sparse": 2},
    **{"dead rank": 4, "command line": 1, "torchrun": 1},
}
WORK_TURNS = ("generate", "train", "command", "save", "generate", "train", "sweep", "export")
REPORT_EVERY = 25  # figures take seconds
LONGEST = 600.0  # seconds for work in a fork, on a machine that is busy with other things
LONGEST_START = 1800.0  # and for a command that starts from nothing


class Fell(Exception):
    """A fault that was not held; the message says how."""


class Harness:
    """Folders, processes and what peace looks like."""

    def __init__(self, base, seed):
        self.base, self.seed = base, seed
        self.peace, self.calls, self.seconds, self.turns = {}, {}, {}, {}

    def prepare(self):
        """A finished run to work with."""
        code = self.wait(self.fork(lambda: works.prepare(self.base)))
        if code != ENDED_WELL:
            raise SystemExit(f"the work fails in peace:\n{self.said()}")

    # Processes

    def fork(self, work, environment=None, number=0):
        """A process that does the work, with a group of its own; its number."""
        process = os.fork()
        if process:
            return process
        code = BADLY
        try:
            os.setpgid(0, 0)
            os.environ |= environment or {}
            sink = os.open(self.base / f"said-{number}", os.O_WRONLY | os.O_CREAT | os.O_TRUNC)
            os.dup2(sink, 1), os.dup2(sink, 2)
            try:
                code = CLEARLY if work() in (2, 75, 130) else ENDED_WELL
            except (KeyboardInterrupt, *CLEAR) as problem:
                code = CLEARLY if str(problem) or isinstance(problem, KeyboardInterrupt) else BADLY
                traceback.print_exc()
        except BaseException:
            traceback.print_exc()
        finally:
            with contextlib.suppress(OSError):
                sys.stdout.flush(), sys.stderr.flush()
            os._exit(code)

    def wait(self, process, longest=LONGEST):
        """The code of a process, negative for a signal; what it started ends with it."""
        deadline = time.monotonic() + longest
        while True:
            found, status = os.waitpid(process, os.WNOHANG)
            if found:
                break
            if time.monotonic() > deadline:
                _kill_group(process)
                os.waitpid(process, 0)
                raise Fell(f"it hung for {longest:.0f} s")
            time.sleep(0.002)
        _kill_group(process)
        return os.waitstatus_to_exitcode(status)

    def said(self, number=0):
        """Messages of ours, and the last words of a process."""
        path = self.base / f"said-{number}"
        text = path.read_text(errors="replace") if path.is_file() else ""
        messages = [line for line in text.splitlines() if line.startswith("pdno: ")]
        return "\n".join([*messages[-8:], text[-2000:]])

    # Work

    def folder(self, work):
        return self.base / work

    def empty(self, work):
        shutil.rmtree(self.folder(work), ignore_errors=True)

    def do(self, work, strike=None, limit=None, number=0, environment=None, victim=None):
        """Start the work in a process."""
        place = self.folder(work)

        def run():
            for name in self.peace[work] if victim is not None else ():
                link = (place / name).with_name(f".{Path(name).name}.{os.getpid()}.tmp")
                link.parent.mkdir(parents=True, exist_ok=True)
                link.symlink_to(victim)
            if limit is not None:
                signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
                resource.setrlimit(resource.RLIMIT_FSIZE, (limit, limit))
            if strike is not None:
                Disk(place, strike).install()
            return works.WORKS[work](place)

        return self.fork(run, environment, number)

    def digests(self, work):
        place = self.folder(work)
        return {
            str(path.relative_to(place)): hashlib.sha256(path.read_bytes()).hexdigest()
            for path in sorted(place.rglob("*"))
            if path.is_file() and path.name != ".lock"  # which may name a writer that was killed
        }

    def learn(self, work):
        """What the work leaves in peace, its calls and its seconds; twice the same."""
        if work in self.peace:
            return
        found = []
        for _ in range(2):
            self.empty(work)
            start = time.monotonic()
            self.in_peace(work)
            self.seconds[work] = time.monotonic() - start
            found.append(self.digests(work))
        if found[0] != found[1] or not found[0]:
            raise SystemExit(f"{work} in peace gives other bytes: {_differences(*found)}")
        self.peace[work] = found[0]
        if work != "ranks":
            self.calls[work] = self.count_calls(work)

    def count_calls(self, work):
        self.empty(work)
        listed = self.base / "calls"

        def run():
            disk = Disk(self.folder(work)).install()
            works.WORKS[work](self.folder(work))
            with disk.open(listed, "w") as file:
                file.write("\n".join(kind for kind, _ in disk.calls))

        self.wait(self.fork(run))
        return listed.read_text().split()

    def in_peace(self, work):
        if work == "ranks":
            codes = [self.wait(one) for one in self.two_ranks()]
        else:
            codes = [self.wait(self.do(work))]
        if set(codes) != {ENDED_WELL}:
            raise Fell(f"run again it ends with {codes}: {self.said()}")

    def two_ranks(self):
        with socket.socket() as free:
            free.bind(("127.0.0.1", 0))
            port = free.getsockname()[1]
        common = {"MASTER_ADDR": "127.0.0.1", "MASTER_PORT": str(port), "WORLD_SIZE": "2"}
        return [
            self.do("ranks", number=rank, environment=common | {"RANK": str(rank)})
            for rank in (0, 1)
        ]

    # Faults

    def inject(self, kind, rng):
        """One fault and what must follow."""
        if kind in ("command line", "torchrun"):
            self.other_process(kind, rng)
            return
        work = "ranks" if kind == "dead rank" else self.turn(kind)
        self.learn(work)
        self.empty(work)
        self.strike(kind, work, rng)
        self.in_peace(work)
        self.compare(work, "run again")

    def turn(self, kind):
        """The works take turns, for each kind apart."""
        count = self.turns[kind] = self.turns.get(kind, -1) + 1
        if kind == "sparse":
            return list(works.READERS)[count % len(works.READERS)]
        if count % REPORT_EVERY == REPORT_EVERY - 1:
            return "report"
        return WORK_TURNS[count % len(WORK_TURNS)]

    def strike(self, kind, work, rng):
        if kind == "two writers":
            first = self.do(work)
            time.sleep(rng.uniform(0, self.seconds[work] / 2))
            for number, process in enumerate((first, self.do(work, number=1))):
                self.judge(self.wait(process), number)
        elif kind == "dead rank":
            processes = self.two_ranks()
            time.sleep(rng.uniform(0, self.seconds[work]))
            dead = rng.choice(processes)
            _kill(dead, signal.SIGKILL)
            (other,) = {*processes} - {dead}
            time.sleep(0.05)
            _kill(other, signal.SIGTERM)  # as torchrun does
            time.sleep(0.5)
            _kill(other, signal.SIGKILL)
            for process in processes:
                self.wait(process)
        elif kind in ("moment", "signal"):
            process = self.do(work)
            time.sleep(rng.uniform(0, self.seconds[work]))
            number = signal.SIGKILL
            if kind == "signal":
                number = rng.choice([signal.SIGTERM, signal.SIGINT])
            _kill(process, number)
            self.judge(self.wait(process), died=number)
        elif kind == "planted":
            victim = self.base / "victim"
            victim.write_text("of somebody else")
            if self.wait(self.do(work, victim=victim)) != ENDED_WELL:
                raise Fell(f"it failed: {self.said()}")
            if victim.read_text() != "of somebody else":
                raise Fell("the file behind a link was written to")
            self.compare(work, "with links")
        elif kind == "sparse":
            self.in_peace(work)
            name, read = works.READERS[work]
            os.truncate(self.folder(work) / name, 2**40)
            if self.judge(self.wait(self.fork(lambda: read(self.folder(work))), 20.0)) != CLEARLY:
                raise Fell(f"{name} of 1 TiB was read")
            self.empty(work)
        elif kind == "limit":
            size = int(2 ** rng.uniform(0, 16))
            code = self.judge(self.wait(self.do(work, limit=size)))
            if code == ENDED_WELL:
                self.compare(work, "with a limit")
        else:
            self.strike_call(kind, work, rng)

    def strike_call(self, kind, work, rng):
        """Meet each call once, in a random order, before any is met twice."""
        fits = {"broken": ("sync",), "full": ("write", "open", "mkdir")}.get(kind)
        key = (kind, work)
        if not self.turns.get(key):
            known = enumerate(self.calls[work])
            self.turns[key] = [at for at, call in known if fits is None or call in fits]
            rng.shuffle(self.turns[key])
        strike = Strike(kind, self.turns[key].pop(), late=rng.random() < 0.5)
        killed = kind in ("kill", "power")
        code = self.judge(self.wait(self.do(work, strike)), died=signal.SIGKILL * killed)
        if killed and code != -signal.SIGKILL:
            raise Fell(f"{strike} was not reached")
        if code == ENDED_WELL:
            self.compare(work, f"ended well under {strike}")

    def judge(self, code, number=0, died=0):
        if code not in (ENDED_WELL, CLEARLY, -died if died else ENDED_WELL):
            raise Fell(f"it ended with {code}: {self.said(number)}")
        return code

    def compare(self, work, when):
        found, expected = self.digests(work), self.peace[work]
        if found != expected:
            raise Fell(f"{when} there are other bytes: {_differences(expected, found)}")

    def other_process(self, kind, rng):
        """The command itself, with real clocks: data and weights are compared."""
        place = self.base / kind.replace(" ", "-")
        if kind not in self.peace:
            self.peace[kind] = self.command(kind, place, None)
        shutil.rmtree(place, ignore_errors=True)
        self.command(kind, place, rng.uniform(0.3, 1.0) * self.seconds[kind])
        found = self.command(kind, place, None)
        if found != self.peace[kind]:
            told = _differences(self.peace[kind], found)
            raise Fell(f"run again there are other bytes: {told}")

    def command(self, kind, place, moment):
        """Run it, to its end or to a moment; digests of what decides."""
        launch = ["-m", "pdno"]
        if kind == "torchrun":
            launch = ["-m", "torch.distributed.run", "--standalone", "--nproc_per_node=2", *launch]
        words = ["train", str(works.specification_file(self.base)), "--out", str(place / "run")]
        start = time.monotonic()
        with open(self.base / "said-0", "w") as said:
            process = subprocess.Popen(
                [sys.executable, *launch, *words], stdout=said, stderr=said, start_new_session=True
            )
        try:
            process.wait(LONGEST_START if moment is None else moment)
        except subprocess.TimeoutExpired:
            self.kill_session(process, kind)
            if moment is None:
                raise Fell("it hung") from None
            return {}
        self.seconds.setdefault(kind, time.monotonic() - start)
        if process.returncode:
            raise Fell(f"it ended with {process.returncode}: {self.said()}")
        return {
            str(path.relative_to(place)): hashlib.sha256(path.read_bytes()).hexdigest()
            for path in place.rglob("*")
            if path.suffix == ".h5" or path.name == "weights.safetensors"
        }

    def kill_session(self, process, kind):
        """Kill the command, or one process of torchrun, which must end the rest."""
        members = [one for one in _session(process.pid) if one != process.pid]
        if kind == "torchrun" and members:
            _kill(members[-1], signal.SIGKILL)
            with contextlib.suppress(subprocess.TimeoutExpired):
                process.wait(40)
        process.kill()
        process.wait()
        deadline = time.monotonic() + 10
        while _session(process.pid) and time.monotonic() < deadline:
            time.sleep(0.02)
        left = _session(process.pid)
        for one in left:
            _kill(one, signal.SIGKILL)
        while _session(process.pid):  # who is not gone yet still holds the lock
            time.sleep(0.02)
        if left and kind != "torchrun":
            raise Fell(f"processes {left} outlived the command")


def _kill(process, number):
    with contextlib.suppress(ProcessLookupError):
        os.kill(process, number)


def _kill_group(process):
    with contextlib.suppress(ProcessLookupError, PermissionError):
        os.killpg(process, signal.SIGKILL)


def _session(number):
    """Processes of a session that have not ended."""
    found = []
    for stat in Path("/proc").glob("[0-9]*/stat"):
        with contextlib.suppress(OSError):
            state, _, _, member = stat.read_text().rpartition(")")[2].split()[:4]
            if int(member) == number and state not in "ZX":
                found.append(int(stat.parent.name))
    return sorted(found)


def _differences(expected, found):
    names = sorted({*expected, *found})
    told = [name for name in names if expected.get(name) != found.get(name)]
    return ", ".join(
        f"{'no ' if name not in found else 'new ' if name not in expected else ''}{name}"
        for name in told[:6]
    )


def plan(faults, rng):
    """Kinds of faults, each at least once and then by their shares, in a random order."""
    whole = [kind for kind, share in SHARES.items() for _ in range(share)]
    chosen = list(SHARES)[:faults]
    while len(chosen) < faults:
        rng.shuffle(whole)
        chosen += whole[: faults - len(chosen)]
    return chosen


def say(text):
    """Print at once."""
    print(text, flush=True)


def run(faults, seed, only=None, show=say):
    """Inject faults; how many of each kind were tried, and what fell."""
    torch.set_num_threads(1)  # a process with threads cannot be forked
    os.environ |= {"OMP_NUM_THREADS": "1", "MKL_NUM_THREADS": "1"}
    works.stop_clocks()
    works.make_shards_here()
    rng = random.Random(seed)
    tried, fell = Counter(), []
    shared = Path("/dev/shm")  # where syncing takes no time
    with tempfile.TemporaryDirectory(dir=shared if shared.is_dir() else None) as base:
        harness = Harness(Path(base), seed)
        harness.prepare()
        for number, kind in enumerate(plan(faults, rng) if only is None else [only] * faults):
            own = random.Random(f"{seed} {number}")
            try:
                harness.inject(kind, own)
            except Fell as problem:
                fell.append((number, kind, str(problem)))
                show(f"fault {number}, {kind}, fell: {problem}")
            tried[kind] += 1
    return tried, fell


def table(tried, fell):
    """Tried, held and fell by kind."""
    lost = Counter(kind for _, kind, _ in fell)
    lines = [f"{'fault':14} {'tried':>6} {'held':>6} {'fell':>6}"]
    rows = [*((kind, tried[kind], lost[kind]) for kind in SHARES if tried[kind])]
    rows.append(("all", sum(tried.values()), len(fell)))
    lines += [f"{kind:14} {count:6} {count - bad:6} {bad:6}" for kind, count, bad in rows]
    return "\n".join(lines)


def main():
    """Run from the command line."""
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--faults", type=int, default=100)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--only", choices=SHARES, help="one kind alone")
    options = parser.parse_args()
    start = time.monotonic()
    tried, fell = run(options.faults, options.seed, options.only)
    print(table(tried, fell))
    print(f"seed {options.seed}, {time.monotonic() - start:.0f} s")
    return 1 if fell else 0


if __name__ == "__main__":
    sys.exit(main())
