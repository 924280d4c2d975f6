"""A cluster makes the same bytes as this machine; only names and numbers travel."""

import json
import sys

import pytest
from one_machine import OneMachine

from pdno.data.generate import generate_dataset, make_shard
from pdno.data.problems import HeatProblem
from pdno.data.shards import read_manifest
from pdno.files.atomic import sha256

PROBLEM = HeatProblem(samples=5, resolution=32, frames=2)


def files(folder):
    return {path.name: sha256(path) for path in folder.rglob("*.h5")}


def test_a_cluster_makes_the_same_bytes(tmp_path, monkeypatch):
    ray = OneMachine()
    monkeypatch.setitem(sys.modules, "ray", ray)
    made = generate_dataset(PROBLEM, tmp_path / "cluster", engine="ray")
    assert made.complete and ray.sent
    assert json.loads(json.dumps(ray.sent)) == [
        [name, numbers, place, list(entry)] for name, numbers, place, entry in ray.sent
    ]
    here = tmp_path / "here"
    here.mkdir()
    for file, first, count in made.plan():
        (here / file).parent.mkdir(parents=True, exist_ok=True)
        make_shard(PROBLEM, here, file, first, count)
    assert files(here) == files(tmp_path / "cluster")
    assert read_manifest(tmp_path / "cluster") == made


def test_without_ray_the_message_names_the_extra(tmp_path, monkeypatch):
    monkeypatch.setitem(sys.modules, "ray", None)
    with pytest.raises(ValueError, match=r"ray is not installed.*pdno\[cluster\]"):
        generate_dataset(PROBLEM, tmp_path / "data", engine="ray")


@pytest.mark.slow
def test_ray_itself_makes_the_same_bytes(tmp_path):
    ray = pytest.importorskip("ray")
    try:
        generate_dataset(PROBLEM, tmp_path / "cluster", engine="ray")
    finally:
        ray.shutdown()
    generate_dataset(PROBLEM, tmp_path / "here", workers=1)
    assert files(tmp_path / "here") == files(tmp_path / "cluster")
