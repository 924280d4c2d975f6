"""Studies beside the paper's tables: ablations, learning curves, families and rollouts.

The training ablations begin with a plain training recipe, add each part of our recipe alone, and
then all of them. What is best is chosen by the validation samples, which are in neither the
training nor the test set. Networks and data are those of the `small` recipes.
"""

from collections.abc import Mapping, Sequence
from dataclasses import replace

from pdno.data import problems
from pdno.paper.recipes import (
    CLASSICAL,
    CLIP,
    HEAT_NETWORK,
    TRANSPORT,
    burgers_runs,
    darcy_sets,
    flow_sets,
)
from pdno.paper.study import (
    Models,
    Options,
    PaperPreset,
    Points,
    Runs,
    Seeds,
    SmallPreset,
    changed,
    make_study,
    muon,
    one_cycle,
    recipe,
)
from pdno.runs.plugins import Study

MODES = {
    "smoke": (2, None),
    "small": (4, 8, 12, 16, 20, None),
    "paper": (4, 8, 12, 16, 20, 32, 64, 128, None),
}
"""k_max of figure 9, as far as the grid has them; None keeps all modes.

The list is our choice: the paper's is not printed.
"""
SAMPLES = {"smoke": (4, 8), "small": (50, 100, 200, 500, 1000)}
"""Training samples of the learning curves."""


WIDTHS = {"smoke": (2, 4), "small": (5, 10, 20), "paper": (5, 10, 20, 30, 40)}
"""Channels of figure 10 (our choice)."""


@recipe
def darcy_modes(
    preset: PaperPreset = "small", *, resolution: Points = None, seeds: Seeds = 1
) -> Study:
    """Ablation: kept modes k_max on Darcy (fig. 9).

    PDNO a(x,ξ), on 256 points per axis for `paper`.
    """
    points = 256 if preset == "paper" and resolution is None else resolution
    base = darcy_sets(preset, points)[0]["PDNO a(x,ξ)"]
    base |= {"name": "darcy-modes", "sweep": ("modes",)}
    kept = [k for k in MODES[preset] if k is None or 2 * k <= base["resolution"]]
    runs = {f"PDNO k_max={k or 'all'}": changed(base, modes=k) for k in kept}
    return make_study("darcy-modes", preset, [runs], seeds=seeds)


@recipe
def darcy_activation(
    preset: PaperPreset = "small", *, resolution: Points = None, seeds: Seeds = 1
) -> Study:
    """Ablation: GELU against ReLU symbol networks on Darcy (fig. 11)."""
    name, sets = "darcy-activation", []
    for runs in darcy_sets(preset, resolution):
        base = {**runs["PDNO a(x,ξ)"], "name": name}
        sets.append({f"PDNO {a}": changed(base, activation=a.lower()) for a in ("GELU", "ReLU")})
    return make_study(name, preset, sets, seeds=seeds)


@recipe
def navier_stokes_width(preset: PaperPreset = "small", *, seeds: Seeds = 1) -> Study:
    """Ablation: channels of PDNO a(ξ) and FNO on Navier-Stokes (fig. 10).

    All modes are kept.
    """
    name = "navier-stokes-width"
    (flow,) = flow_sets(preset, 1e-5)
    names = ("PDNO a(x,ξ)", "FNO-2D") if preset == "paper" else ("PDNO rollout", "FNO rollout")
    pdno, fno = ({**flow[n], "name": name, "study": name, "sweep": ("width",)} for n in names)
    runs = {}
    for width in WIDTHS[preset]:
        ours = {"width": width, "depends_on_x": False, "modes": None}
        runs[f"PDNO a(ξ) width={width}"] = changed(pdno, **ours)
        runs[f"FNO width={width}"] = changed(fno, width=width, modes=fno["resolution"] // 2)
    return make_study(name, preset, [runs], seeds=seeds)


@recipe
def darcy_samples(
    preset: SmallPreset = "small", *, models: Models = None, seeds: Seeds = 1
) -> Study:
    """Learning curves on Darcy: error against 50 to 1000 samples, equal steps.

    Not in the paper. The data, the validation and the test samples are those of `darcy`.
    """
    name, (darcy_runs,) = "darcy-samples", darcy_sets(preset)
    usual = ("PDNO a(x,ξ)", "PDNO classical", "FNO", "MWT Leg")
    sets: list[Runs] = []
    for samples in SAMPLES[preset]:
        change = {"name": f"{name} N={samples}", "study": name, "of_paper": False}
        change |= {"train": samples, "zero_shot": ()}
        sets.append({model: {**darcy_runs[model], **change} for model in usual})
        for run in sets[-1].values():
            run["pool"] = darcy_runs["FNO"]["train"]
            all_steps, steps = (-(-n // 20) for n in (run["pool"], samples))
            epochs = run["training"]["epochs"] * all_steps // steps
            # measured as often, as that takes longer than an epoch of few samples
            timing = {"epochs": epochs, "evaluate_every": all_steps // steps}
            run["training"] = {**run["training"], **timing}
    return make_study(name, preset, sets, models=models, seeds=seeds)


@recipe
def burgers_rollout(preset: SmallPreset = "small", *, seeds: Seeds = 1) -> Study:
    """A step e^A u + B σ(W u + b), and how long its rollouts are guaranteed.

    Steps of 0.02 from one frame of Burgers, rolled out over 29 of them; `pdno symbol RUN` prints
    and draws the guarantee.
    """
    smoke = preset == "smoke"
    samples, points, frames = (6, 32, 4) if smoke else (120, 64, 30)
    problem = problems.BurgersProblem(
        samples=samples, resolution=points, solver_resolution=256, final_time=0.02 * frames,
        frames=frames,
    )  # fmt: skip
    modes = 8 if smoke else 16
    step = {"kind": "semigroup", "width": 8, "modes": modes, "symbol_hidden": 16}
    return make_study(
        "burgers-rollout",
        preset,
        [{"PDNO semigroup": {"network": step}}],
        seeds=seeds,
        of_paper=False,
        problem=problem,
        train=4 if smoke else 100,
        test=2 if smoke else 20,
        resolution=points,
        window=1,
        task={"kind": "markov", "residual": False, "noise": 0.0},
        training=one_cycle(preset, 40, 1e-2, optimiser="adam", batch_size=32),
    )


Part = Mapping[str, Options]
"""Options that a part changes: of the `network`, the `training`, the `task` or the `run`."""
PARTS: Mapping[str, Part] = {
    "Muon": {"training": {"optimiser": "muon", "learning_rate": 2e-3}},
    "symmetries": {"training": {"augment": True}},
    "feed-forward": {"network": {"feed_forward": 40}},
    "padding": {"network": {"padding": 0.25}},
    # coordinates without a jump: cos 2πx and sin 2πx
    "periodic": {"network": {"coordinates": "periodic"}},
    # the operator of Burgers is the same everywhere
    "no coordinates": {"network": {"coordinates": "none"}},
    "transport": {"network": TRANSPORT, "task": {"residual": False}},
    "trunk": {"network": {"symbol": "trunk", "symbol_hidden": 64, "depends_on_x": False}},
    "classical": {"network": CLASSICAL},
    # a mean lags behind where the error falls fast, as it does at the end of one cycle
    "averaging": {"training": {"averaging": 0.99}},
    # the velocities of Burgers at t = 1 have the size 0.008; these enlarge the error all the same
    "normalisers": {"run": {"normalization": "channel"}},
}
EVERYWHERE = ("Muon", "symmetries", "feed-forward")
HUNDRED_SECONDS = {
    **{"PDNO": 5, "PDNO, feed-forward": 4, "PDNO, trunk": 8, "PDNO, all": 5},
    **{"PDNO, all but feed-forward": 7, "FNO": 9, "FNO, feed-forward": 6, "FNO, all": 6},
    **{"FNO, all but feed-forward": 8},
}
"""Epochs on Navier-Stokes; parts that are not named have those of their family."""
BURGERS_EPOCHS = 20


@recipe
def darcy_training(
    preset: SmallPreset = "small", *, models: Models = None, seeds: Seeds = 1
) -> Study:
    """Training ablation on Darcy: Muon, symmetries, padding, symbols, ..."""
    (darcy,), parts = darcy_sets(preset), (*EVERYWHERE, "padding")
    runs: Runs = {}
    for model, rate, symbols in (("PDNO a(x,ξ)", 1e-2, ("trunk", "classical")), ("FNO", 3e-3, ())):
        plain = _plain(preset, darcy[model], rate)
        runs |= _by_parts(plain, parts, symbols, alone=("averaging",))
    common = {"study": "darcy-training", "of_paper": False}
    return make_study("darcy-training", preset, [runs], models=models, seeds=seeds, **common)


@recipe
def burgers_training(
    preset: SmallPreset = "small", *, models: Models = None, seeds: Seeds = 1
) -> Study:
    """Training ablation on Burgers, 1024 points.

    There are fewer epochs than in the recipe of Burgers, as there are twenty-two runs.
    """
    burgers, parts = burgers_runs(preset, 64 if preset == "smoke" else 1024), EVERYWHERE
    runs: Runs = {}
    for model, rate, symbols in (("PDNO a(x,ξ)", 5e-3, ("trunk", "classical")), ("FNO", 2e-3, ())):
        shorter = {**burgers[model], "training": {"epochs": BURGERS_EPOCHS}}
        plain = _plain(preset, shorter, rate)
        alone = ("averaging", "normalisers")
        runs |= _by_parts(plain, (*parts, "no coordinates"), symbols, alone=alone)
    common = {"study": "burgers-training", "of_paper": False}
    return make_study("burgers-training", preset, [runs], models=models, seeds=seeds, **common)


@recipe
def navier_stokes_training(
    preset: SmallPreset = "small", *, models: Models = None, seeds: Seeds = 1
) -> Study:
    """Training ablation on Navier-Stokes, 100 CPU seconds each.

    One-step training on 80 trajectories, 40 others are the validation samples.
    """
    name, (flow,) = "navier-stokes-training", flow_sets(preset, 1e-5)
    train, test = (2, 2) if preset == "smoke" else (80, 40)
    sizes = {"train": train, "validation": test, "test": test, "zero_shot": ()}
    settings = {"batch_size": 8, "clip": CLIP, "weight_decay": 0.0}
    parts = (*EVERYWHERE, "transport", "periodic")
    runs: Runs = {}
    for model, rate, more in (("PDNO rollout", 5e-3, ("trunk",)), ("FNO rollout", 2e-3, ())):
        plain = _plain(preset, flow[model], rate, **settings)
        plain |= {**sizes, "study": name, "task": {"kind": "markov"}, "normalization": "channel"}
        plain["name"] = plain["name"].replace(f"N={flow[model]['train']}", f"N={train}")
        runs |= _by_parts(plain, (*parts, *more), alone=("averaging",))
    for model, run in runs.items():
        epochs = HUNDRED_SECONDS.get(model, HUNDRED_SECONDS[run["network"]["kind"].upper()])
        epochs = 1 if preset == "smoke" else epochs
        run["training"] = {**run["training"], "epochs": epochs}
    return make_study(name, preset, [runs], models=models, seeds=seeds, of_paper=False)


def _plain(preset: str, base: Options, rate: float, **settings: object) -> Options:
    """A run trained by Adam, without the parts of our recipe."""
    epochs = base["training"]["epochs"]
    training = one_cycle(preset, epochs, rate, **{"optimiser": "adam", **settings})
    # the same coordinates with every kind of symbol
    return {**changed(base, coordinates="appended"), "training": training}


def _by_parts(
    plain: Options, parts: Sequence[str], symbols: Sequence[str] = (), *, alone: Sequence[str]
) -> Runs:
    """A network as it is, with each part alone, and with all of them.

    Of the symbols, if any, one goes with all the other parts; some parts are tried `alone` only.
    """
    family = plain["network"]["kind"].upper()
    groups = {"": [], **{part: [part] for part in (*parts, *symbols, *alone)}}
    without = [part for part in parts if part != "feed-forward"]
    for label, chosen in (("all but feed-forward", without), ("all", list(parts))):
        ends = {f"{label}, {symbol}": [*chosen, symbol] for symbol in symbols}
        groups |= ends or {label: chosen}
    runs = {}
    for label, chosen in groups.items():
        run = dict(plain)
        for section, options in (item for part in chosen for item in PARTS[part].items()):
            run |= options if section == "run" else {section: {**run[section], **options}}
        runs[f"{family}, {label}" if label else family] = run
    return runs


@recipe
def heat_family(preset: SmallPreset = "small", *, seeds: Seeds = 1) -> Study:
    """One operator for heat with any diffusivity, its symbol e^{-4π²|ξ|²ct}.

    The diffusivity c of a sample is drawn from 0.01 to 0.1. Trained at 10 times, tested at 20 on
    other c. One operator has the symbol e^{tA(ξ; c)}, the other a free network of (ξ, t, c).
    """
    train, test, points, epochs = (4, 2, 64, 2) if preset == "smoke" else (200, 40, 256, 15)
    network = {**HEAT_NETWORK, "modes": 32, "depends_on_x": False, "pde_parameters": 1}
    task = {"kind": "one-shot", "train_every": 2}
    runs: Runs = {
        "PDIO e^{tA(ξ;c)}": {
            "network": {**network, "symbol": "classical", "order": 2.0},
            "task": task,
        },
        # as in the recipe of heat its networks see 4t, to follow the steep decay
        "PDIO a(ξ,t,c)": {"network": network, "task": {**task, "span": 0.25}},
    }
    return make_study(
        "heat-family",
        preset,
        [runs],
        seeds=seeds,
        of_paper=False,
        problem=problems.HeatProblem(
            samples=train + test, resolution=points, vary={"diffusivity": (0.01, 0.1)}
        ),
        train=train,
        test=test,
        resolution=points,
        training=one_cycle("small", epochs, 1e-2, optimiser="adam", evaluate_every=5),
    )


@recipe
def navier_stokes_family(preset: SmallPreset = "small", *, seeds: Seeds = 1) -> Study:
    """One operator for viscosities 1e-5 to 1e-3: a(ξ,ν) against FNO.

    One-step training on frames t = 1..20, tested by rollouts from t = 10 to 20. A step of PDNO
    takes about three times as long as one of FNO, which has twice the epochs. The data are solved
    on 64 x 64 points, which at ν = 1e-5 is an approximation that both networks learn.
    """
    smoke = preset == "smoke"
    train, test, points, frames = (3, 2, 32, 13) if smoke else (80, 24, 64, 20)
    width, modes = (4, 6) if smoke else (16, 12)
    fno = {"kind": "fno", "width": width, "modes": modes, "head": "transport"}
    trunk = {"kind": "pdno", "symbol": "trunk", "depends_on_x": False, "pde_parameters": 1}
    settings = {"batch_size": 8, "clip": CLIP, "warm_up": 0.2, "evaluate_every": 100}
    runs: Runs = {
        "PDNO a(ξ,ν)": {"network": {**fno, **trunk}, "training": muon(preset, 4, **settings)},
        "FNO, channel ν": {"network": fno, "training": muon(preset, 8, **settings)},
    }
    return make_study(
        "navier-stokes-family",
        preset,
        [runs],
        seeds=seeds,
        of_paper=False,
        problem=problems.NavierStokesProblem(
            samples=train + test, resolution=points, solver_resolution=points, final_time=frames,
            vary={"viscosity": (1e-5, 1e-3)},
        ),
        train=train,
        test=test,
        resolution=points // 2,
        window=10,
        task={"kind": "markov", "residual": False},
        normalization="channel",
    )  # fmt: skip


@recipe
def resources(preset: PaperPreset = "small") -> Study:
    """Memory, parameters and seconds per epoch of PDNO and FNO (table 6).

    Measured on one training step of a rollout of ten frames on 64 x 64 points, batch 20; nothing
    is trained. `smoke` measures tiny networks on a tiny grid; the other presets are the same.
    """
    smoke = preset == "smoke"
    sizes = ((4, 4),) if smoke else ((12, 20), (12, 30), (32, 20))
    points, batch, frames = (16, 2, 2) if smoke else (64, 20, 10)
    runs = {
        f"{kind.upper()} k_max={modes} width={width}": {
            "network": {"kind": kind, "modes": modes, "width": width}
        }
        for modes, width in sizes
        for kind in ("pdno", "fno")
    }
    study = make_study(
        "resources",
        preset,
        [runs],
        sweep=("modes", "width"),
        problem=problems.NavierStokesProblem(samples=batch + 1, final_time=10 + frames),
        train=batch,
        test=1,
        resolution=points,
        window=10,
        targets=frames,
        task={"kind": "rollout"},
        training={"batch_size": batch},
    )
    return replace(study, measure="resources")
