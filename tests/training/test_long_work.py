"""Long work does not grow: data beyond a limit of memory, a thousand epochs, many runs."""

import subprocess
import sys
import threading
from collections import Counter

import pytest

from pdno.data.problems import HeatProblem
from pdno.files.run_folder import DATA, METRICS, WEIGHTS
from pdno.networks.specification import specify
from pdno.paper.recipes import Study
from pdno.paper.reproduce import run_folder, run_study
from pdno.runs.specification import Experiment
from pdno.training.settings import TrainingSettings

# what is left of memory beside the program, and data of more than twice its size
LIMITED = """
import resource, sys
from pathlib import Path
import torch
torch.set_num_threads(1)
import pdno, pdno.data.generate as generation, pdno.training.samples as samples
from pdno.data.generate import generate_dataset, make_shard
from pdno.data.problems import HeatProblem
generation._make_all = lambda problem, folder, missing, workers: (
    make_shard(problem, folder, *entry) for entry in missing
)
samples.MOST_IN_MEMORY = 32 * 2**20
warm = pdno.generate(pdno.Heat(0.05), pdno.Grid((64,)), samples=4, times=[0.1, 0.2])
network = pdno.FNO(1, 1, 1, width=2, modes=8)
pdno.fit(network, warm.window(inputs=1), task="markov", epochs=1, batch_size=2)
LIMIT, place = 160 * 2**20, Path(sys.argv[1])
pages = int(Path("/proc/self/statm").read_text().split()[0])
limit = pages * resource.getpagesize() + LIMIT
resource.setrlimit(resource.RLIMIT_AS, (limit, limit))
problem = HeatProblem(samples=1800, resolution=16384, frames=2)
generate_dataset(problem, place, workers=1)
size = sum(path.stat().st_size for path in place.glob("*.h5"))
assert size > 2 * LIMIT, size
try:
    torch.empty(size, dtype=torch.uint8).fill_(1)
    raise SystemExit("the limit is none")
except RuntimeError:
    pass
train, test = pdno.open_dataset(place).window(inputs=1).split(test=100)
trained = pdno.fit(network, train, test, task="markov", epochs=1, batch_size=8)
print(pdno.evaluate(trained, test, batch_size=8).mean())
"""

THOUSAND = """
import torch
torch.set_num_threads(1)
import pdno
from pathlib import Path
def resident():
    return int(Path("/proc/self/statm").read_text().split()[1]) * 4096
f = torch.randn(4, 1, 16, generator=torch.Generator().manual_seed(0))
data = pdno.OperatorDataset.from_arrays(f, 2 * f, pdno.Grid((16,)))
sizes = []
pdno.fit(pdno.FNO(1, 1, 1, width=4, modes=4), data, data, epochs=1000, batch_size=4,
         callbacks=[lambda row, model: sizes.append(resident())])
growth = max(sizes[-100:]) - max(sizes[:100])
print(growth)
assert len(sizes) == 1000 and growth < 8 * 2**20, growth
"""


def run(script, *words):
    command = [sys.executable, "-c", script, *map(str, words)]
    found = subprocess.run(command, capture_output=True, text=True)
    assert found.returncode == 0, found.stderr[-3000:]
    return found.stdout


@pytest.mark.slow
def test_data_beyond_a_limit_of_memory_are_made_trained_on_and_evaluated(tmp_path):
    assert 0 < float(run(LIMITED, tmp_path / "data")) < 10


@pytest.mark.slow
def test_a_thousand_epochs_take_the_memory_of_a_hundred():
    run(THOUSAND)


def fifty_runs():
    problem = HeatProblem(samples=5, resolution=16, frames=3)
    common = {"problem": problem, "train": 3, "test": 2, "resolution": 16, "window": 1}
    common |= {"network": specify("fno", width=2, layers=1, modes=3), "task": {"kind": "markov"}}
    settings = (TrainingSettings(epochs=2, batch_size=3, seed=seed) for seed in range(50))
    runs = [Experiment(name="tiny", model="FNO", training=one, **common) for one in settings]
    return Study(name="tiny", preset="smoke", experiments=tuple(runs))


@pytest.mark.slow
def test_fifty_runs_on_a_cluster_that_loses_a_node(tmp_path):
    """All runs end, none twice and none lost, each with the weights of a run on one machine."""
    ray = pytest.importorskip("ray")
    cluster_utils = pytest.importorskip("ray.cluster_utils")
    study, out, nodes = fifty_runs(), tmp_path / "out", 3
    cluster = cluster_utils.Cluster(initialize_head=True, head_node_args={"num_cpus": 1})
    lost = [cluster.add_node(num_cpus=1) for _ in range(nodes - 1)][0]
    ray.init(address=cluster.address, log_to_driver=False)
    folders = [run_folder(one, out) for one in study.experiments]
    early, stopped = {}, threading.Event()

    def ended():
        metrics = [folder / METRICS for folder in folders]
        return {path: path.stat().st_mtime_ns for path in metrics if path.is_file()}

    def lose():
        while not early and not stopped.wait(0.01):
            done = ended()
            begun = sum(folder.is_dir() for folder in folders)
            if len(done) >= 5 and begun - len(done) == nodes:  # each node is at a run
                early.update(done)
                cluster.remove_node(lost, allow_graceful=False)

    thread = threading.Thread(target=lose)
    thread.start()
    try:
        rows = run_study(study, out, engine="ray")
    finally:
        stopped.set()
        thread.join()
        ray.shutdown()
        cluster.shutdown()
    assert 5 <= len(early) < 50, "no node was lost while runs were going on"
    late = ended()
    assert len(late) == 50 and early.items() <= late.items()  # what had ended was not done again
    found = {path for path in out.iterdir() if path.is_dir() and path.name != DATA}
    assert found == set(folders)
    times = Counter(row.seed for row in rows)
    assert times.keys() == set(range(50)) and len({*times.values()}) == 1
    run_study(study, tmp_path / "here")
    for one in study.experiments:
        weights = [run_folder(one, place) / WEIGHTS for place in (out, tmp_path / "here")]
        assert weights[0].read_bytes() == weights[1].read_bytes()
