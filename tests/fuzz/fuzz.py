"""Damage files of every kind, read them, and count what happens.

    python tests/fuzz/fuzz.py --cases 5000 --seed 0

The files and their readers are in `readers.py`, the damages in `mutations.py`. Workers are forked
from this process, so that none has to import torch, and live until they die; each has folders of
its own and may use `MEMORY` bytes more than it begins with, and readers that declare their time
have `TIME` seconds of computing. A case ends as one of

    error       a clear error: ValueError or OSError with a message that a terminal can show
    same        the same data
    other       other data, without a word: a failure where the file is ours
    foreign     another exception, or no message: a failure
    memory      more than the memory that is allowed: a failure
    crash       the worker died: a failure
    hang        no answer in `LONGEST` seconds of computing, or in `PATIENCE` seconds: a failure

Failures are written to `kept/`, as a file each, which the tests read again for ever.
"""

import argparse
import base64
import contextlib
import hashlib
import json
import multiprocessing
import os
import random
import resource
import shutil
import subprocess
import sys
import tempfile
import time
import traceback
import warnings
import zlib
from collections import Counter, defaultdict
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parents[1] / "faults"))

import torch  # noqa: E402
import works  # noqa: E402
from mutations import mutate  # noqa: E402
from readers import READERS, digest, write_all  # noqa: E402

from pdno.data import foreign_hdf5  # noqa: E402
from pdno.files.limits import TIME_LIMIT  # noqa: E402
from pdno.files.run_folder import with_digest, without_digest  # noqa: E402

LONGEST, PATIENCE, MEMORY, TIME = 10.0, 600.0, 1 << 30, 1
KEPT = Path(__file__).parent / "kept"
MOST_KEPT = 3  # of a reader and an outcome, in one go
OUTCOMES = ("error", "same", "other", "foreign", "memory", "crash", "hang")
LONGEST_MESSAGE = 20_000


def failed(reader, outcome):
    """Whether this is no way to end."""
    return outcome in OUTCOMES[3:] or (outcome == "other" and READERS[reader].ours)


def find(place, reader):
    """The file of a reader in a folder with all files."""
    (path,) = place.glob(READERS[reader].file)
    return path


def make_case(place, reader, seed, number):
    """The damaged bytes of a case, which these four decide, and how they came about."""
    rng = random.Random(f"{reader} {seed} {number}")
    whole = find(place, reader).read_bytes()
    if not READERS[reader].made:
        return mutate(whole, rng, text=READERS[reader].text)
    body, signed = without_digest(whole.decode())
    changed, names = mutate(body.encode(), rng, text=True, made=True)
    if not signed:
        return changed, names
    return with_digest(changed.decode("utf-8", "replace")).encode(), names


def judge(place, reader, data, expected):
    """Read a damaged file; the outcome and what was said."""
    path = find(place, reader)
    whole = path.read_bytes()
    path.write_bytes(data)
    try:
        return ("same" if digest(READERS[reader].read(place)) == expected else "other"), ""
    except (ValueError, OSError) as problem:
        if _has_memory_error(problem):
            return "memory", repr(problem)
        told = str(problem)
        good = (
            told.strip() and len(told) < LONGEST_MESSAGE and told.replace("\n", "").isprintable()
        )
        return ("error", told) if good else ("foreign", f"unfit to be shown: {told!r:.300}")
    except MemoryError as problem:
        return "memory", repr(problem)
    except Exception:
        return "foreign", traceback.format_exc()[-1500:]
    finally:
        path.write_bytes(whole)


def _has_memory_error(problem):
    while problem is not None:
        if isinstance(problem, MemoryError):
            return True
        problem = problem.__cause__
    return False


def walk_in_a_fork(command, *, input, **_):
    """What `subprocess.run` does for `look_through`, without the tenth of a second of a start."""
    files = [os.memfd_create("stream") for _ in range(3)]
    os.write(files[0], input)
    os.lseek(files[0], 0, os.SEEK_SET)
    process = os.fork()
    if not process:
        for number, file in enumerate(files):
            os.dup2(file, number)
        sys.stdin = open(0, closefd=False)  # noqa: SIM115
        try:
            foreign_hdf5.main()
        except BaseException as problem:
            os.write(2, repr(problem).encode())
            os._exit(1)
        os._exit(0)
    code = os.waitstatus_to_exitcode(os.waitpid(process, 0)[1])
    said = [os.pread(file, os.fstat(file).st_size, 0) for file in files[1:]]
    for file in files:
        os.close(file)
    return subprocess.CompletedProcess(command, code, *said)


def work(pipe, place, expected):
    """What a worker does until it is ended."""
    warnings.simplefilter("ignore")
    sink = os.open(os.devnull, os.O_WRONLY)
    os.dup2(sink, 1), os.dup2(sink, 2)
    pages = int(Path("/proc/self/statm").read_text().split()[0])
    os.environ[TIME_LIMIT] = f"{TIME}s"
    foreign_hdf5.subprocess.run = walk_in_a_fork
    limit = pages * resource.getpagesize() + MEMORY
    resource.setrlimit(resource.RLIMIT_AS, (limit, limit))
    with contextlib.suppress(EOFError):
        while True:
            reader, data = pipe.recv()
            pipe.send(judge(place, reader, data, expected[reader]))
    os._exit(0)


class Worker:
    """A process that reads damaged files, and another one after its death."""

    def __init__(self, place, expected):
        self.origin, self.expected, self.process = place, expected, None
        self.place = Path(f"{place}-worker")

    def ask(self, reader, data):
        """The outcome of one case."""
        if self.process is None:
            self.start()
        self.pipe.send((reader, data))
        begin, before = time.monotonic(), self.computed()
        while not self.pipe.poll(1):
            if self.computed() - before > LONGEST or time.monotonic() - begin > PATIENCE:
                self.stop()
                return "hang", f"no answer in {LONGEST:g} s of computing"
        try:
            return self.pipe.recv()
        except EOFError:
            self.process.join()
            code = self.process.exitcode
            self.stop()
            return "crash", f"the process ended with {code}"

    def start(self):
        shutil.rmtree(self.place, ignore_errors=True)
        shutil.copytree(self.origin, self.place)
        context = multiprocessing.get_context("fork")
        self.pipe, theirs = context.Pipe()
        self.process = context.Process(target=work, args=(theirs, self.place, self.expected))
        self.process.start()
        theirs.close()

    def computed(self):
        """Seconds for which the worker has computed."""
        words = Path(f"/proc/{self.process.pid}/stat").read_text().rpartition(")")[2].split()
        return (int(words[11]) + int(words[12])) / os.sysconf("SC_CLK_TCK")

    def stop(self):
        if self.process is not None:
            self.process.kill()
            self.process.join()
            self.pipe.close()
            self.process = None


@contextlib.contextmanager
def prepared():
    """A worker, and the folder of whole files, in which every reader gives the same twice."""
    torch.set_num_threads(1)  # a process with threads cannot be forked
    works.stop_clocks()
    works.make_shards_here()
    shared = Path("/dev/shm")
    with tempfile.TemporaryDirectory(dir=shared if shared.is_dir() else None) as base:
        place = Path(base) / "files"
        context = multiprocessing.get_context("fork")
        # in another process, as training may leave threads behind
        making = context.Process(target=write_all, args=(place,))
        making.start()
        making.join()
        if making.exitcode:
            raise SystemExit("the files cannot be made")
        expected = {name: digest(reader.read(place)) for name, reader in READERS.items()}
        worker = Worker(place, expected)
        try:
            yield worker, place
        finally:
            worker.stop()


def keep(folder, reader, outcome, told, made):
    """Write a failure down: the file itself, small as it is, and how it was made."""
    data, seed, number, mutations = made
    packed = base64.b64encode(zlib.compress(data, 9)).decode()
    if len(packed) > 20_000:
        packed = None
    name = f"{reader.strip('.').replace(' ', '-').replace('.', '-')}-{outcome}"
    name += f"-{hashlib.sha256(data).hexdigest()[:8]}.json"
    record = {
        "reader": reader,
        "outcome": outcome,
        "said": told.strip()[-200:].rpartition("\n")[2],
        "seed": seed,
    }
    record |= {"number": number, "mutations": mutations, "file": packed}
    folder.mkdir(parents=True, exist_ok=True)
    (folder / name).write_text(json.dumps(record, indent=1) + "\n", encoding="utf-8")


def replay(worker, place, path):
    """A kept case again: its reader, and how it ends today."""
    record = json.loads(path.read_text(encoding="utf-8"))
    reader = record["reader"]
    if record["file"] is None:
        data, _ = make_case(place, reader, record["seed"], record["number"])
    else:
        data = zlib.decompress(base64.b64decode(record["file"]))
    return reader, *worker.ask(reader, data)


def replay_all(folder):
    """How all kept cases end today, line by line."""
    bad = 0
    with prepared() as (worker, place):
        for path in sorted(folder.glob("*.json")):
            reader, outcome, told = replay(worker, place, path)
            bad += failed(reader, outcome)
            mark = "FAILED" if failed(reader, outcome) else "held"
            print(f"{mark} {path.name} {outcome} {' '.join(told.split())[-200:]}")
    return 1 if bad else 0


def run(cases, seed, *, readers=None, folder=KEPT, show=print):
    """Cases for all readers in turns; counts by reader and outcome."""
    counts, kept = defaultdict(Counter), Counter()
    names = list(readers or READERS)
    with prepared() as (worker, place):
        for number in range(cases):
            reader = names[number % len(names)]
            data, mutations = make_case(place, reader, seed, number)
            outcome, told = worker.ask(reader, data)
            counts[reader][outcome] += 1
            if failed(reader, outcome):
                kept[reader, outcome] += 1
                if kept[reader, outcome] <= MOST_KEPT:
                    show(f"{reader}, case {number}, {outcome}: {told[-400:]}")
                    if folder is not None:
                        keep(folder, reader, outcome, told, (data, seed, number, mutations))
    return counts


def table(counts):
    """Outcomes by reader; `!` marks failures."""
    head = f"{'file':22} {'tried':>6}" + "".join(f" {name:>8}" for name in OUTCOMES)
    lines, whole = [head], Counter()
    for reader, found in counts.items():
        cells = ((found[name], "!" if failed(reader, name) else " ") for name in OUTCOMES)
        told = "".join(f" {n:7}{mark if n else ' '}" for n, mark in cells)
        lines.append(f"{reader:22} {found.total():6}{told}")
        whole += found
    lines.append(f"{'all':22} {whole.total():6}" + "".join(f" {whole[n]:7} " for n in OUTCOMES))
    return "\n".join(lines)


def main():
    """Run from the command line."""
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--cases", type=int, default=5000)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--readers", nargs="*", choices=READERS, help="these alone")
    parser.add_argument("--keep", type=Path, default=KEPT, help="folder for cases that fail")
    parser.add_argument("--replay", action="store_true", help="only the cases that are kept")
    options = parser.parse_args()
    if options.replay:
        return replay_all(options.keep)
    start = time.monotonic()
    counts = run(options.cases, options.seed, readers=options.readers, folder=options.keep)
    print(table(counts))
    bad = sum(n for reader, found in counts.items() for o, n in found.items() if failed(reader, o))
    print(f"{bad} failures, seed {options.seed}, {time.monotonic() - start:.0f} s")
    return 1 if bad else 0


if __name__ == "__main__":
    sys.exit(main())
