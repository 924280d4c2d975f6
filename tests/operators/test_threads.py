"""Threads, forks and several callers at once: the same bits, and nothing hangs.

Waiting threads of torch spin, which on a busy machine takes minutes, and a test of forks must know
which threads there were before. So whole networks and forks have a process of their own, in which
waiting threads sleep: this file, run as a script with the name of a function and its arguments.
"""

import copy
import hashlib
import multiprocessing
import os
import signal
import subprocess
import sys
import threading
import time
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from pathlib import Path

import pytest
import torch
from torch.utils.data import DataLoader, Dataset

from pdno import PDNO, Grid, rollout
from pdno.native import build
from pdno.native.build import load_library
from pdno.operators import compiled
from pdno.spectral.grid import kept_per_axis

THREADS = (1, 2, 3, 4, 8)
REPETITIONS = 4
CALLERS = 8
SECONDS = 60
"""A child that is not done after this long hangs."""

GRIDS = [
    ((64,), 16),
    ((45,), None),
    ((32, 32), 8),
    ((12, 30), None),
    ((8, 8, 16), 3),
    ((7, 6, 5), None),
]
SIZES = [(5, 12, 10), (9, 3, 8)]
"""Of the batch, inputs and outputs."""

NODES = 8
HIDDEN = 128

needs_native = pytest.mark.skipif(load_library() is None, reason="no compiled kernels here")
needs_fork = pytest.mark.skipif(sys.platform != "linux", reason="forks are the way of Linux only")


@pytest.fixture(autouse=True)
def as_many_threads_as_before():
    threads = torch.get_num_threads()
    yield
    torch.set_num_threads(threads)


# What is computed


def random_operator(name, shape, modes, sizes):
    """A custom operator with random inputs: a function of its leaves, and the leaves."""
    batch, inputs, outputs = sizes
    waves = Grid(shape).modes(modes).shape[:-1]
    kept = [compiled.ALL if k is None else k for k in kept_per_axis(shape, modes)]
    points = Grid(shape).size
    c, f_hat = random(outputs, inputs, *waves, like=1j), random(batch, inputs, *waves, like=1j)
    basis = torch.randn(NODES, shape[-1])
    return {
        "pairwise": (
            lambda c, b, f_hat: compiled.pairwise(c, b, f_hat, [], shape, kept),
            [c, random(outputs, inputs, *shape), f_hat],
        ),
        "at_nodes": (
            lambda c, a, f_hat: compiled.pairwise(c, a, f_hat, [basis], shape, kept),
            [c, random(outputs, inputs, *shape[:-1], NODES), f_hat],
        ),
        "contract": (compiled.contract, [c, f_hat]),
        "synthesise": (lambda f_hat: compiled.synthesise(f_hat, shape, kept, False), [f_hat]),
        "analyse": (
            lambda f: compiled.analyse(f, shape, kept, True),
            [random(batch, inputs, *shape)],
        ),
        "project": (
            compiled.project,
            [
                random(batch, inputs, points),
                random(HIDDEN, inputs),
                random(HIDDEN),
                random(outputs, HIDDEN),
                random(outputs),
            ],
        ),
    }[name]


OPERATORS = ("pairwise", "at_nodes", "contract", "synthesise", "analyse", "project")


def random(*shape, like=1.0):
    dtype = torch.complex64 if isinstance(like, complex) else torch.float32
    return torch.randn(*shape, dtype=dtype, requires_grad=True)


def value_and_gradients(function, leaves):
    """The gradients are those of a sum with weights, the same for any number of threads."""
    value = function(*leaves)
    weights = (torch.arange(value.numel()) % 17 - 8).div(7).reshape(value.shape).to(value.dtype)
    return [value.detach(), *torch.autograd.grad(value, leaves, weights)]


def assert_same_bits(given, expected):
    assert len(given) == len(expected)
    for place, (one, other) in enumerate(zip(given, expected, strict=True)):
        assert torch.equal(one, other), f"result {place} differs"


def assert_same_bits_of(work, expected):
    assert_same_bits(work(), expected)


def random_network(symbol="network", channels=1):
    torch.manual_seed(0)
    return PDNO(dim=2, in_channels=channels, out_channels=1, width=12, modes=8, symbol=symbol)


def train_on(model, f):
    """The prediction and the gradients of f and of all weights."""
    f = f.clone().requires_grad_()
    leaves = [f, *model.parameters()]
    return value_and_gradients(lambda *_: model(f), leaves)


def digest(tensors):
    """Equal for equal bits."""
    found = hashlib.sha256()
    for tensor in tensors:
        found.update(tensor.contiguous().numpy().tobytes())
    return found.hexdigest()


# A process of its own


def apart(function, *arguments):
    """Run a function of this file in a process of its own; it must end well."""
    command = [sys.executable, str(Path(__file__)), function.__name__, *map(str, arguments)]
    environment = os.environ | {"OMP_NUM_THREADS": "1", "OMP_WAIT_POLICY": "passive"}
    done = subprocess.run(
        command, env=environment, capture_output=True, text=True, timeout=10 * SECONDS
    )
    assert done.returncode == 0, done.stderr
    assert "Error" not in done.stderr, done.stderr


def in_forked_child(work, seconds=SECONDS):
    """Fork; the child works and ends at once, the parent waits until it has.

    It does not end as programs do: there torch waits for threads that only its parent had
    (caffe2::PThreadPool), and may read memory that is gone.
    """
    child = os.fork()
    if child == 0:
        code = 1
        try:
            signal.alarm(seconds)  # ends it if it hangs; a watchdog thread would not be forked
            work()
            code = 0
        finally:
            os._exit(code)
    code = os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])
    assert code == 0, f"the child failed or hung: {code}"


# The same bits


@needs_native
@pytest.mark.parametrize("sizes", SIZES, ids=str)
@pytest.mark.parametrize(("shape", "modes"), GRIDS, ids=str)
@pytest.mark.parametrize("name", OPERATORS)
def test_an_operator_has_the_same_bits_each_time_with_any_number_of_threads(
    name, shape, modes, sizes
):
    function, leaves = random_operator(name, shape, modes, sizes)
    expected = value_and_gradients(function, leaves)
    for threads in THREADS:
        torch.set_num_threads(threads)
        for _ in range(REPETITIONS):
            assert_same_bits(value_and_gradients(function, leaves), expected)


@needs_native
def test_the_gradient_of_the_last_bias_has_the_same_bits_with_any_number_of_threads():
    function, leaves = random_operator("project", (64, 64), None, (20, 3, 1))
    expected = value_and_gradients(function, leaves)
    torch.set_num_threads(3)
    assert_same_bits(value_and_gradients(function, leaves), expected)


@pytest.mark.parametrize("symbol", ["network", "table"])
@pytest.mark.slow
def test_a_network_has_the_same_bits_each_time(symbol):
    apart(train_again_and_again, symbol)


def train_again_and_again(symbol):
    model, f = random_network(symbol), torch.randn(5, 1, 32, 32)
    for threads in THREADS:
        torch.set_num_threads(threads)
        expected = train_on(model, f)
        for _ in range(REPETITIONS - 1):
            assert_same_bits(train_on(model, f), expected)


# Forks and other processes


@needs_fork
@needs_native
@pytest.mark.slow
def test_a_fork_of_a_process_with_our_threads_may_use_as_many():
    apart(fork_with_our_threads)


def fork_with_our_threads():
    """Sizes are small: torch shares out its own sums and copies from 32768 numbers on."""
    torch.set_num_threads(4)
    others = threads_of_others()
    for name in OPERATORS:
        sizes = (2, 3, 1) if name == "project" else (5, 3, 8)
        function, leaves = random_operator(name, (12, 16), 4, sizes)
        work = partial(value_and_gradients, function, leaves)
        expected = work()
        assert threading.active_count() > 2, "our threads were not used"
        assert threads_of_others() == others, "those of torch were"
        check = partial(assert_same_bits_of, work, expected)
        in_forked_child(check)
        check()
        in_forked_child(partial(in_forked_child, check))


def threads_of_others():
    """Threads of this process that Python does not know."""
    ours = {thread.native_id for thread in threading.enumerate()}
    return {int(entry) for entry in os.listdir("/proc/self/task")} - ours


@needs_fork
@needs_native
@pytest.mark.slow
def test_a_fork_while_our_threads_work_does_not_hang():
    apart(fork_while_working)


def fork_while_working():
    torch.set_num_threads(4)
    function, leaves = random_operator("contract", (32, 32), 8, (5, 12, 10))
    work = partial(value_and_gradients, function, leaves)
    check = partial(assert_same_bits_of, work, work())
    done = threading.Event()

    def work_on():
        while not done.is_set():
            check()

    worker = threading.Thread(target=work_on)
    worker.start()
    try:
        for _ in range(20):
            in_forked_child(check)
    finally:
        done.set()
        worker.join()


@needs_fork
@needs_native
@pytest.mark.slow
def test_a_fork_while_a_thread_loads_the_loops_does_not_hang():
    apart(fork_while_loading)


def assert_there_are_loops():
    assert build.load_library() is not None


def fork_while_loading():
    """A compiler takes a minute; here an event stands for it."""
    build._load.cache_clear()
    read, inside, go_on = build.read_sources, threading.Event(), threading.Event()

    def read_slowly(source):
        inside.set()
        go_on.wait()
        return read(source)

    build.read_sources = read_slowly
    loader = threading.Thread(target=build.load_library)
    loader.start()
    inside.wait()
    build.read_sources = read
    try:
        in_forked_child(assert_there_are_loops, seconds=5)
    finally:
        go_on.set()
        loader.join()


@needs_fork
@pytest.mark.slow
def test_a_fork_of_a_process_with_threads_of_torch_may_use_one():
    apart(fork_with_threads_of_torch)


def fork_with_threads_of_torch():
    model, f = random_network(), torch.randn(5, 1, 32, 32)
    torch.set_num_threads(1)
    expected = train_on(model, f)
    torch.set_num_threads(4)
    several = train_on(model, f)

    def work():
        torch.set_num_threads(1)
        assert_same_bits(train_on(model, f), expected)

    in_forked_child(work)
    assert_same_bits(train_on(model, f), several)


@needs_fork
@pytest.mark.slow
def test_workers_of_a_loader_use_networks_after_their_parent_used_threads():
    apart(load_with_workers)


class Predictions(Dataset):
    """What a network says of some fields."""

    def __init__(self, model, fields):
        self.model, self.fields = model, fields

    def __len__(self):
        return len(self.fields)

    @torch.no_grad()
    def __getitem__(self, index):
        assert torch.get_num_threads() == 1
        return self.model(self.fields[index : index + 1])


def load_with_workers():
    model, fields = random_network(), torch.randn(6, 1, 32, 32)
    torch.set_num_threads(1)
    data = Predictions(model, fields)
    expected = [data[index] for index in range(len(data))]
    torch.set_num_threads(4)
    train_on(model, fields)
    workers = {"num_workers": 2, "multiprocessing_context": "fork", "timeout": SECONDS}
    assert_same_bits(list(DataLoader(data, batch_size=None, **workers)), expected)


@pytest.mark.slow
def test_a_spawned_process_has_the_same_bits():
    apart(spawn_with_threads)


def digest_of_network(threads):
    torch.set_num_threads(threads)
    model = random_network()
    return digest(train_on(model, torch.randn(5, 1, 32, 32)))


def spawn_with_threads():
    expected = digest_of_network(4)
    with multiprocessing.get_context("spawn").Pool(1) as pool:
        assert pool.apply_async(digest_of_network, (4,)).get(2 * SECONDS) == expected


# Several callers


@pytest.mark.parametrize("what", ["predict", "train_on", "predict_frames"])
def test_callers_at_the_same_time_have_the_bits_of_callers_in_turn(what):
    for threads in (1, 4):
        apart(call_at_the_same_time, what, threads)


@torch.no_grad()
def predict(model, f):
    return [model(f)]


@torch.no_grad()
def predict_frames(model, f):
    return [rollout(model, f, steps=4)]


def call_at_the_same_time(what, threads):
    """Callers have inputs of their own, every other one on another grid."""
    torch.set_num_threads(int(threads))
    call, model = globals()[what], random_network(channels=2)
    new = copy.deepcopy(model)
    fields = [torch.randn(2, 2, *((32, 32), (20, 24))[k % 2]) for k in range(CALLERS)]
    in_turn = [call(model, f) for f in fields]
    assert not torch.equal(in_turn[0][0], in_turn[2][0])
    frozen = copy.deepcopy(model)
    frozen.freeze(Grid((32, 32)))
    frozen_in_turn = [call(frozen, f) for f in fields]
    for used, expected in ((new, in_turn), (model, in_turn), (frozen, frozen_in_turn)):
        for _ in range(3):
            for given, one in zip(at_once(partial(call, used), fields), expected, strict=True):
                assert_same_bits(given, one)


@needs_native
@pytest.mark.slow
def test_callers_with_other_numbers_of_threads_do_not_disturb_each_other():
    apart(call_with_many_numbers_of_threads)


def call_with_many_numbers_of_threads():
    cases = [random_operator(name, (12, 30), None, (9, 3, 8)) for name in OPERATORS]
    expected = [value_and_gradients(*case) for case in cases]

    def call(threads):
        for repetition in range(3 * REPETITIONS):
            torch.set_num_threads(1 + (threads + repetition) % CALLERS)
            for case, one in zip(cases, expected, strict=True):
                assert_same_bits(value_and_gradients(*case), one)

    at_once(call, range(CALLERS))


def at_once(call, arguments):
    """The results of one thread for each argument, which all start together."""
    start = threading.Barrier(len(arguments))

    def run(argument):
        start.wait()
        return call(argument)

    with ThreadPoolExecutor(len(arguments)) as callers:
        return list(callers.map(run, arguments))


@needs_native
@pytest.mark.slow
def test_a_thread_may_outlive_the_main_thread():
    apart(outlive_the_main_thread)


def outlive_the_main_thread():
    torch.set_num_threads(4)
    function, leaves = random_operator("contract", (32, 32), 8, (5, 12, 10))

    def work():
        threading.main_thread().join()
        time.sleep(0.5)
        value_and_gradients(function, leaves)

    threading.Thread(target=work).start()


if __name__ == "__main__":
    torch.manual_seed(0)
    globals()[sys.argv[1]](*sys.argv[2:])
