"""The experiments of the paper as functions: each returns a complete frozen study.

Presets: `smoke` takes seconds and shows only that everything runs; `small` takes minutes per run
on a laptop with our training recipe (docs/training.md); `best` is the flagship of a problem, hours
on two cores; `paper` is the published protocol. Networks, tasks and settings are written in the
words of a YAML specification. torch is imported when a recipe is called.
"""

from collections.abc import Mapping

from pdno.data import problems
from pdno.paper.study import (
    Models,
    Options,
    Points,
    Preset,
    Runs,
    Seeds,
    Viscosity,
    make_study,
    muon,
    one_cycle,
    recipe,
    run,
    static_data,
    with_options,
)
from pdno.runs.plugins import Study as Study

PAPER: Options = {"optimiser": "adam", "schedule": "step", "weight_decay": 1e-6}
"""The training of the paper."""
BASELINE: Options = {**PAPER, "epochs": 500, "learning_rate": 1e-3, "step_size": 100}
BASELINE["weight_decay"] = 1e-4
"""The training of the published FNO and MWT."""
HEAT_NETWORK: Options = {
    "kind": "pdio",
    "takes_time": True,
    "symbol_hidden": 40,
    "frequency_scale": 1.0,
}
"""One operator alone, with a symbol of time (section 5.1)."""
CLASSICAL: Options = {"symbol": "classical", "order": 0.0}
"""Symbols in S^0 by construction (docs/theory_symbol_classes.md)."""


@recipe
def heat(preset: Preset = "small", *, seeds: Seeds = 1) -> Study:
    """One operator learns the heat equation, its symbol against the exact one (fig. 3).

    100 states at 10 times in training, 20 others at 20 times in testing. The operator stands
    alone: no lift, no W, no σ. The paper trains for 10,000 epochs; with a one-cycle schedule 60
    are enough (`small`), where the networks see 4t, which lets them follow the steep decay between
    the training times, and 32 modes: at t = 0.05 the higher ones have decayed by e^-101.
    """
    smoke, paper = preset == "smoke", preset == "paper"
    points, train, test = (64, 4, 2) if smoke else (1024, 100, 20)
    modes = None if paper else 32
    training = {**PAPER, "epochs": 10_000, "learning_rate": 1e-2, "step_size": 2000}
    if not paper:
        epochs = {"smoke": 2, "small": 60, "best": 400}[preset]
        training = one_cycle("small", epochs, 1e-2, optimiser="adam")
    runs: Runs = {"PDIO a(x,ξ,t)": {"network": {**HEAT_NETWORK, "modes": modes}}}
    if not paper:
        # e^{tA} is right between and after the training times where it is right at them
        semigroup = {"symbol": "classical", "order": 2.0, "depends_on_x": False}
        network = {**HEAT_NETWORK, "modes": modes, **semigroup}
        runs["PDIO e^{tA(ξ)}"] = {"of_paper": False, "network": network}
    return make_study(
        "heat",
        preset,
        [runs],
        seeds=seeds,
        problem=problems.HeatProblem(samples=train + test, resolution=points),
        train=train,
        test=test,
        resolution=points,
        task={"kind": "one-shot", "train_every": 2, "span": 1.0 if paper else 0.25},
        training=training,
    )


DARCY = {
    "smoke": ((16,), 32, 32),
    "small": ((32,), 128, None),
    "best": ((64,), 256, None),
    "paper": ((32, 64, 128, 256, 512), 512, None),
}
"""Points of the training, of the stored data, and of the solver where these are not the usual."""
DARCY_SIZES = {"smoke": (6, 4, 2, 1), "small": (12, 20, 3, 60), "best": (16, 32, 3, 300)}
"""Modes, width, wavelets and epochs."""


@recipe
def darcy(
    preset: Preset = "small", *, resolution: Points = None, models: Models = None, seeds: Seeds = 1
) -> Study:
    """Darcy flow at five resolutions: PDNO a(x,ξ), PDNO a(ξ), MWT, FNO (table 1).

    All networks have the same 1000 training and 100 test samples. PDNO with classical symbols is
    among the models only below `paper`.
    """
    return make_study("darcy", preset, darcy_sets(preset, resolution), models=models, seeds=seeds)


def darcy_sets(preset: str, resolution: int | None = None) -> list[Runs]:
    """The runs of table 1 by model, at one resolution or at the usual ones."""
    sets, (usual, stored, solved) = [], DARCY[preset]
    for points in usual if resolution is None else (resolution,):
        runs = _darcy_paper(points) if preset == "paper" else _darcy_small(preset)
        if points & (points - 1):  # wavelets halve the points
            runs = {model: run for model, run in runs.items() if not model.startswith("MWT")}
        data = static_data(preset, problems.DarcyProblem, stored, solved, points)
        sets.append(with_options(runs, {"name": "darcy", "normalization": "pointwise", **data}))
    return sets


def _darcy_small(preset: str) -> Runs:
    """The same training for all."""
    modes, width, wavelets, epochs = DARCY_SIZES[preset]
    pdno = {"kind": "pdno", "width": width, "symbol_layers": 3, "modes": modes}
    # the published one has ten times the parameters of FNO and takes eight times as long
    mwt = {"kind": "mwt", "width": 2, "wavelets": wavelets}
    runs: Runs = {
        "PDNO a(x,ξ)": {"network": pdno},
        "PDNO a(ξ)": {"network": {**pdno, "depends_on_x": False}},
        "PDNO classical": {
            "network": {**pdno, **CLASSICAL, "coordinates": "appended"},
            "of_paper": False,
        },
        "MWT Leg": {"network": mwt},
        "FNO": {"network": {"kind": "fno", "width": width, "modes": modes}},
    }
    return with_options(runs, {"training": muon(preset, epochs)})


def _darcy_paper(s: int) -> Runs:
    """The published networks and settings; PDNO sees ξ/s, as published, and x·s/(s-1).

    Our points are those of cells, x = (i + offset)/s; the published code says i/(s-1) for them.
    """
    scale = s / (s - 1)
    pdno = {"kind": "pdno", "symbol_layers": 3, "frequency_scale": s, "coordinate_scale": scale}
    # nine points of zeros, as published
    fno = {"kind": "fno", "width": 32, "modes": 12, "coordinate_scale": scale, "padding": 9}
    ours = {**PAPER, "epochs": 1000, "learning_rate": 1e-2, "step_size": 200}
    return {
        "PDNO a(x,ξ)": run(pdno, ours),
        "PDNO a(ξ)": run({**pdno, "depends_on_x": False}, ours),
        "MWT Leg": run({"kind": "mwt"}, {**BASELINE, "batch_size": 10}),
        "FNO": run(fno, BASELINE),
    }


@recipe
def navier_stokes(
    preset: Preset = "small",
    *,
    viscosity: Viscosity = None,
    models: Models = None,
    seeds: Seeds = 1,
) -> Study:
    """Four Navier-Stokes datasets, six networks (table 2, fig. 1).

    `small` has 200 trajectories of one viscosity, 1e-5 by default, by rollout, in one shot and by
    Markov training; `best` 1000 of 1e-5 by Markov training.
    """
    if viscosity not in (None, *SMALL_TIMES):
        raise ValueError(f"no dataset with viscosity {viscosity}: expected 1e-3, 1e-4 or 1e-5")
    if preset == "best" and viscosity not in (None, 1e-5):
        raise ValueError(f"preset 'best' has viscosity 1e-5 only, not {viscosity}")
    sets = flow_sets(preset, viscosity)
    return make_study("navier-stokes", preset, sets, models=models, seeds=seeds)


WINDOW = 10  # input frames, at t = 1..10; the targets are the frames after them
FLOWS = ((1e-3, 50, 1000), (1e-4, 30, 1000), (1e-4, 30, 9800), (1e-5, 20, 1000))
"""Viscosity, last time and training samples of the four datasets of table 2.

The paper trains on 10,000 of 10,000 samples and tests on 200 of them; 9,800 leave 200 unseen.
"""
LONG_TRAINING = 5000
FLOW_TEST = 200
SMALL_TIMES = {1e-3: 30, 1e-4: 30, 1e-5: 20}
"""Last time by viscosity in `small`: that of table 2, but for 50 where the flow is smoothest."""
CLIP = 10.0  # largest norm of the gradient of a batch; that of a rollout may be far larger
SMALL_MARKOV = {"PDNO": 31, "FNO": 34}  # epochs of one-step training in `small` up to t = 20
ROLLOUT_BATCH = 5  # a rollout has ten frames per sample, so small batches buy more steps
TRANSPORT: Options = {"head": {"kind": "transport", "diffusion": True}}


def flow_sets(preset: str, viscosity: float | None) -> list[Runs]:
    """The runs of table 2 by model, of one viscosity or of the usual ones."""
    if preset == "paper":
        return [_flow_paper(*flow) for flow in FLOWS if viscosity in (None, flow[0])]
    return [_flow_best()] if preset == "best" else [_flow_small(preset, viscosity or 1e-5)]


def _flow_data(runs: Runs, problem: problems.NavierStokesProblem, **data: object) -> Runs:
    time, train = problem.final_time, data["train"]
    name = f"navier-stokes nu={problem.viscosity:g} T={time} N={train}"
    common = {"name": name, "study": "navier-stokes", "problem": problem, "window": WINDOW}
    return with_options(runs, {**common, **data})


def _flow_small(preset: str, viscosity: float) -> Runs:
    """Rollouts and one shots as published, and one-step training by our training recipe.

    The latter take 600 to 1,500 CPU seconds each; where there are more frames, all have as many
    fewer epochs. The data are stored finer than the training grid, to evaluate there. Their solver
    has 128² points: at t = 20 it is within 3e-2 of one with 256², and a quarter of its cost.
    """
    smoke = preset == "smoke"
    samples, points, time = (6, 32, 13) if smoke else (240, 128, SMALL_TIMES[viscosity])
    modes, width, targets = 6 if smoke else 12, 4 if smoke else 20, time - WINDOW
    pdno = {"kind": "pdno", "width": width, "modes": modes}
    clipped = {"optimiser": "adam", "batch_size": ROLLOUT_BATCH, "clip": CLIP}
    ours, theirs = (one_cycle(preset, 160 // targets, r, **clipped) for r in (5e-3, 2.5e-3))
    rollout = {"kind": "rollout"}
    one_shot = {"kind": "one-shot", "start": WINDOW, "span": targets}
    runs: Runs = {
        "PDNO rollout": run(pdno, ours, task=rollout),
        "PDNO one-shot": run({**pdno, "takes_time": True}, ours, task=one_shot),
        "FNO rollout": run({**pdno, "kind": "fno"}, theirs, task=rollout),
        **_markov(
            preset, width, modes, {m: 19 * n // (time - 1) for m, n in SMALL_MARKOV.items()}
        ),
    }
    problem = problems.NavierStokesProblem(
        viscosity=viscosity, samples=samples, resolution=points, solver_resolution=points,
        final_time=time,
    )  # fmt: skip
    train = 4 if smoke else 200
    sizes = {"train": train, "test": samples - train, "resolution": points // 2}
    return _flow_data(runs, problem, **sizes, zero_shot=(points,))


def _markov(preset: str, width: int, modes: int, epochs: Mapping[str, int]) -> Runs:
    """One-step training: transport with diffusion, periodic coordinates, Muon, symmetries."""
    sizes = {"width": width, "modes": modes, "coordinates": "periodic", **TRANSPORT}
    hidden = 16 if preset == "smoke" else 64
    trunk = {"symbol": "trunk", "depends_on_x": False, "symbol_hidden": hidden}
    networks = {"PDNO": {"kind": "pdno", **sizes, **trunk}, "FNO": {"kind": "fno", **sizes}}
    settings = {"batch_size": 8, "clip": CLIP, "warm_up": 0.2, "evaluate_every": 5}
    # more noise than the error of a step would dominate what is left of that error
    task = {"kind": "markov", "residual": False, "noise": 0.003}
    common = {"task": task, "normalization": "channel", "of_paper": False}
    return {
        f"{model} Markov": run(network, muon(preset, epochs[model], **settings), **common)
        for model, network in networks.items()
    }


def _flow_best() -> Runs:
    """The flagship: 1000 trajectories, wider networks, one-step training; half an hour each."""
    problem = problems.NavierStokesProblem(
        samples=1140, resolution=64, solver_resolution=128, final_time=20
    )
    runs = _markov("best", 24, 16, {"PDNO": 12, "FNO": 15})  # as many seconds for both
    return _flow_data(runs, problem, train=1000, validation=40, test=100, resolution=64)


def _flow_paper(viscosity: float, final_time: int, train: int) -> Runs:
    """The six networks of table 2 on one dataset, with the published settings."""
    targets, scale = final_time - WINDOW, 64 / 63
    pdno = {"kind": "pdno", "frequency_scale": 64.0, "coordinate_scale": scale}
    scales = (scale, scale, targets / (targets - 1))
    block = {"kind": "fno", "modes": 8, "space_time": True, "padding": (0, 0, 6)}
    wavelets = {"kind": "mwt", "wavelets": 3, "space_time": True}
    ours = {**PAPER, "epochs": 1000, "learning_rate": 5e-3, "step_size": 200}
    ours["batch_size"] = 10 if viscosity == 1e-3 else 20
    blocks = {**BASELINE, "batch_size": 10}
    # 200 epochs by the name of its published checkpoint
    waves = {**blocks, "epochs": 200} if train > LONG_TRAINING else blocks
    rollout = {"task": {"kind": "rollout", "recompute": targets > WINDOW}}
    one_shot = {"task": {"kind": "one-shot", "start": WINDOW, "span": targets}}
    space_time = {"task": {"kind": "space-time"}, "normalization": "pointwise"}
    runs: Runs = {
        "PDNO a(x,ξ)": run(pdno, ours, **rollout),
        "PDNO a(x,ξ,t)": run({**pdno, "takes_time": True}, ours, **one_shot),
        "MWT Leg": run(wavelets, waves, **space_time),
        "MWT Chb": run({**wavelets, "base": "chebyshev"}, waves, **space_time),
        "FNO-2D": run({"kind": "fno", "coordinate_scale": scale}, BASELINE, **rollout),
        "FNO-3D": run({**block, "coordinate_scale": scales}, blocks, **space_time),
    }
    problem = problems.NavierStokesProblem(
        samples=train + FLOW_TEST, resolution=64, viscosity=viscosity, final_time=final_time
    )
    return _flow_data(runs, problem, train=train, test=FLOW_TEST, resolution=64)


BURGERS = {
    "smoke": ((64,), 128, 128),
    "small": ((256,), 1024, 2048),  # 2048 is within 3e-11 of the usual 8192
    "best": ((1024,), 4096, None),
    "paper": ((256, 512, 1024, 2048, 4096), 8192, None),
}
"""As for Darcy flow."""


@recipe
def burgers(
    preset: Preset = "small", *, resolution: Points = None, models: Models = None, seeds: Seeds = 1
) -> Study:
    """Burgers at five resolutions, five networks (table 3).

    All have the same 1000 training and 100 test samples.
    """
    points = BURGERS[preset][0] if resolution is None else (resolution,)
    sets = [burgers_runs(preset, s) for s in points]
    return make_study("burgers", preset, sets, models=models, seeds=seeds)


def burgers_runs(preset: str, s: int) -> Runs:
    """The symbols are tanh networks; below `paper` 16 modes of all networks are kept."""
    smoke, scale = preset == "smoke", s / (s - 1)
    width = 8 if smoke else 64
    symbols: Options = {"frequency_scale": s, "coordinate_scale": scale}
    ours = {**PAPER, "epochs": 1000, "learning_rate": 5e-3, "step_size": 100, "weight_decay": 0.0}
    waves, theirs = BASELINE, {**BASELINE, "step_size": 50}
    if preset != "paper":
        scale, symbols = 1.0, {"modes": 16}
        ours = waves = theirs = muon(preset, 500 if preset == "best" else 50)
    pdno = {"kind": "pdno", "width": width, "symbol_hidden": width, "activation": "tanh"}
    pdno |= symbols
    # the published wavelet networks of one dimension see no coordinate
    wavelets = {"kind": "mwt", "modes": 10, "blocks": 2, "append_coordinates": False}
    wavelets["width"] = 4 if smoke else 16
    fno = {"kind": "fno", "width": width, "modes": 16, "coordinate_scale": scale}
    runs: Runs = {
        "PDNO a(x,ξ)": run(pdno, ours),
        "PDNO a(ξ)": run({**pdno, "depends_on_x": False}, ours),
        "MWT Leg": run(wavelets, waves),
        "MWT Chb": run({**wavelets, "base": "chebyshev"}, waves),
        "FNO": run(fno, theirs),
    }
    data = static_data(preset, problems.BurgersProblem, *BURGERS[preset][1:], s)
    return with_options(runs, {"name": "burgers", **data})
