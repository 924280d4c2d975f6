"""A specification says everything, survives every file, and refuses what it does not know."""

import json
from pathlib import Path

import pytest
import yaml
from small_experiments import presets_of

from pdno.data.problems import PROBLEMS, HeatProblem
from pdno.networks.specification import specify
from pdno.paper.reproduce import study_of
from pdno.runs.plugins import RECIPES
from pdno.runs.specification import Experiment, dataset_folder, read_experiment
from pdno.training.task import OneShot, Rollout, StaticMap

STUDIES = [name for name in RECIPES if name not in ("resources", "discovery")]


@pytest.mark.parametrize(("name", "preset"), [(n, p) for n in STUDIES for p in presets_of(n)])
def test_every_recipe_comes_back_from_json(name, preset):
    for experiment in study_of(name, preset, seeds=2).experiments:
        text = experiment.model_dump_json()
        again = Experiment.model_validate_json(text)
        assert again == experiment
        # 9 and 9.0 are equal, but as a padding one is points and the other is a fraction
        assert again.model_dump_json() == text


@pytest.mark.parametrize("ending", [".json", ".yaml", ".yml"])
def test_every_kind_of_file_says_the_same(tmp_path, ending, heat, darcy, flow):
    for experiment in (heat, darcy, flow):
        values = json.loads(experiment.model_dump_json())
        path = tmp_path / f"specification{ending}"
        write = json.dumps if ending == ".json" else yaml.safe_dump
        path.write_text(write(values), encoding="utf-8")
        assert read_experiment(path) == experiment


def test_yaml_as_a_person_writes_it(tmp_path):
    """Left out is the default; YAML takes 5e-3 for a word, which still is the number."""
    path = tmp_path / "mine.yaml"
    path.write_text(
        "name: heat\n"
        "model: mine\n"
        "problem: {name: heat, samples: 5, resolution: 32}\n"
        "train: 3\n"
        "test: 2\n"
        "resolution: 32\n"
        "network: {kind: pdio, takes_time: true}\n"
        "task: {kind: one-shot, train_every: 2}\n"
        "training: {learning_rate: 5e-3, epochs: 7}\n",
        encoding="utf-8",
    )
    found = read_experiment(path)
    assert found.problem == HeatProblem(samples=5, resolution=32)
    assert found.network == specify("pdio", takes_time=True) and found.task == OneShot(
        train_every=2
    )
    assert (found.training.learning_rate, found.training.epochs) == (5e-3, 7)


def change(values, path, value):
    """The values with another one at a path of keys."""
    first, *rest = path.split(".")
    inner = change(values.get(first) or {}, ".".join(rest), value) if rest else value
    return {**values, first: inner}


@pytest.mark.parametrize(
    "path",
    ["colour", "problem.colour", "network.colour", "task.colour", "training.colour"],
)
def test_unknown_keys_are_refused_by_name(heat, path):
    values = json.loads(heat.model_dump_json())
    with pytest.raises(ValueError, match=r"(?s)colour.*unknown key; known: "):
        Experiment.model_validate(change(values, path, 3))


@pytest.mark.parametrize(
    ("path", "value", "message"),
    [
        ("file", "data.mat", "give either a problem or a file, and not both"),
        ("problem", None, "give either a problem or a file, and not both"),
        ("problem.name", "wave", "problem name 'wave'; expected one of heat, burgers, darcy"),
        ("problem", {"path": "own.npz"}, "give one, for example {name: heat, samples: 100}, or"),
        ("network.kind", "unet", "network kind 'unet'; expected one of pdno, fno"),
        ("network.takes_time", False, "task 'one-shot' and takes_time=False contradict"),
        ("task", {"kind": "static"}, "task 'static' and takes_time=True contradict"),
        ("network", {"kind": "fno", "space_time": True}, "'one-shot' and takes_time=False"),
        ("resolution", 12, "resolution 12 is not among the points of data stored at 32"),
        ("zero_shot", [16, 64], "resolution 64 is not among the points of data stored at 32"),
        ("test", 3, "train=3 and test=3 overlap in 5 samples"),
        ("pool", 4, "pool=4 and test=2 overlap in 5 samples"),
        ("pool", 2, "train=3 is more than pool=2: enlarge the pool"),
        ("train", 0, "greater than or equal to 1"),
        ("name", "", "at least 1 character"),
        ("training.epochs", 0, "greater than or equal to 1"),
        ("normalization", "some", "'none', 'pointwise' or 'channel'"),
    ],
)
def test_contradictions_are_refused_by_name(heat, path, value, message):
    values = json.loads(heat.model_dump_json())
    with pytest.raises(ValueError) as failure:
        Experiment.model_validate(change(values, path, value))
    assert message in str(failure.value)


def test_a_time_axis_and_its_task_belong_together(flow):
    network = {"kind": "fno", "space_time": True, "modes": 3}
    with pytest.raises(ValueError, match="'rollout' and space_time=True contradict"):
        flow.with_changes(network=network)
    with pytest.raises(ValueError, match="'space-time' and space_time=False contradict"):
        flow.with_changes(task={"kind": "space-time"})
    both = flow.with_changes(network=network, task={"kind": "space-time"})
    assert both.network == specify("fno", space_time=True, modes=3)


def test_frames_of_the_input_and_of_the_problem_belong_together(flow, darcy):
    with pytest.raises(ValueError, match="task 'rollout' needs frames as the input"):
        flow.with_changes(window=None)
    with pytest.raises(ValueError, match="targets=3 needs frames as the input"):
        darcy.with_changes(targets=3)
    with pytest.raises(ValueError, match="window=5 and targets=1 or more do not fit the 5"):
        flow.with_changes(window=5)
    with pytest.raises(ValueError, match="window=2 and targets=4 or more do not fit the 5"):
        flow.with_changes(targets=4)
    with pytest.raises(ValueError, match="window=1 .* do not fit the 0 frames"):
        darcy.with_changes(window=1)
    assert flow.with_changes(window=4).window == 4


def test_changes_are_checked_and_the_rest_stays(heat):
    with pytest.raises(ValueError, match="overlap"):
        heat.with_changes(train=4)
    changed = heat.with_changes(model="other")
    assert changed.model == "other" and changed.with_changes(model=heat.model) == heat
    with pytest.raises(ValueError, match="frozen"):
        heat.train = 1


@pytest.mark.parametrize(
    ("name", "text", "message"),
    [
        (
            "a.yaml",
            "name: !!python/object/apply:os.getcwd []",
            "could not determine a constructor",
        ),
        ("a.yaml", "name: !!python/name:os.system ''", "could not determine a constructor"),
        ("a.yaml", "name: [", "is not readable as yaml"),
        ("a.json", "{'name': 1}", "is not readable as json"),
        ("a.yaml", "- heat\n", "holds no specification"),
        ("a.json", "3", "holds no specification"),
        ("a.yaml", "", "holds no specification"),
        ("a.yaml", "1: 2\n", "expected a printable word"),
        ("a.yaml", "name: heat\n", "Field required"),
        ("a.yaml", "file: own.npz\n", "resolution is missing: .*pdno data info own.npz"),
    ],
)
def test_other_files_are_refused(tmp_path, name, text, message):
    path = tmp_path / name
    path.write_text(text, encoding="utf-8")
    with pytest.raises(ValueError, match=message) as failure:
        read_experiment(path)
    assert name in str(failure.value) and "\n" not in str(failure.value)


def test_names_are_those_of_the_file_or_the_problem(tmp_path):
    rest = "train: 2\ntest: 1\nnetwork: {kind: fno}\n"
    path = tmp_path / "short.yaml"
    path.write_text(f"file: {{path: data/own.npz, inputs: a}}\nresolution: 16\n{rest}")
    own = read_experiment(path)
    path.write_text(f"problem: {{name: heat, samples: 3, resolution: 32}}\n{rest}")
    made = read_experiment(path)
    assert (own.name, own.model, own.resolution) == ("own", "FNO", 16)
    assert (made.name, made.model, made.resolution) == ("heat", "FNO", 32)


def test_the_folder_name_of_a_run_is_plain(heat):
    named = heat.with_changes(model="PDNO a(x,ξ) /../ k_max=4")
    assert named.slug == "pdno-a-x-xi-k-max-4-32-seed0"


# Datasets


def other(problem, name):
    """The problem with another value of one parameter."""
    value = getattr(problem, name)
    kinds = {"scheme": "published", "amplitude": "printed", "dtype": "float64"}
    if name in kinds:
        return problem.model_copy(update={name: kinds[name]})
    if name == "vary":
        varied = problem.parameter_names[0]
        ends = (getattr(problem, varied), 2 * getattr(problem, varied))
        return problem.model_copy(update={name: {varied: ends}})
    if name == "solver_resolution":
        return problem.model_copy(update={name: 2 * problem.solver_points})
    return problem.model_copy(update={name: value * 2 if value else value + 1})


@pytest.mark.parametrize("name", PROBLEMS)
def test_a_dataset_has_its_folder_and_every_other_one_another(name):
    problem = PROBLEMS[name](samples=7)
    home = dataset_folder(problem, Path("data"))
    again = PROBLEMS[name].model_validate_json(problem.model_dump_json())
    assert dataset_folder(again, Path("data")) == home
    assert home.parent == Path("data") and home.name.startswith(f"{name}-7x")
    fields = set(type(problem).model_fields) - (set() if problem.parameter_names else {"vary"})
    others = [dataset_folder(other(problem, field), Path("data")) for field in fields]
    assert len({home, *others}) == 1 + len(others)


def test_the_task_of_a_run_may_be_a_record_or_a_dictionary(flow):
    assert flow.with_changes(task={"kind": "rollout"}).task == Rollout()
    with pytest.raises(ValueError, match="task kind 'jump'; expected one of static, rollout"):
        flow.with_changes(task={"kind": "jump"})
    assert flow.with_changes(task=StaticMap(), window=4).task.kind == "static"


def test_a_transport_head_with_a_residual_task_is_refused(flow):
    network = {"kind": "fno", "width": 4, "modes": 3, "head": "transport"}
    plain = {"kind": "markov", "residual": False}
    changed = flow.with_changes(network=network, task=plain, window=1)
    assert changed.network.head.kind == "transport"
    with pytest.raises(ValueError, match="a residual task would add it a second time"):
        flow.with_changes(network=network, task="markov", window=1)
