"""Assessments follow the numbers, both ways, and say at which budget."""

import numpy as np
import pytest
from fabricated_runs import errors, read

from pdno.paper.claims import CLAIMS, assess, claims_table

BY_KEY = {claim.key: claim for claim in CLAIMS}
HOLDS, LESS = "holds at a smaller budget", "not tested at the paper's budget"
FLOW = "navier-stokes nu=1e-05 T=20 N=1000"


def assessment(folder, key):
    return assess(BY_KEY[key], read(folder))


def over_time(*values):
    times = {f"relative_l2 t={11 + k}": value for k, value in enumerate(values)}
    mean = sum(values) / len(values)
    return {"train": {"relative_l2": mean}, "test": {"relative_l2": mean, **times}}


def test_the_paper_agrees_with_itself(paper_runs):
    """Its own numbers, as runs of ours, give the assessment that it gives."""
    results = read(paper_runs)
    answers = {claim.key: assess(claim, results) for claim in CLAIMS}
    held = {key for key, found in answers.items() if found.answer == "holds"}
    assert held == {
        "darcy-order",
        "darcy-gap",
        "navier-stokes-best",
        "navier-stokes-best-1e-4",
        "navier-stokes-one-shot",
        "burgers-order",
        "burgers-space",
        "parameters-without-modes",
        "fewer-parameters",
        "cost",
    }
    assert {answers[key].answer for key in answers.keys() - held} == {"not tested here"}
    assert answers["darcy-order"].budget.startswith("paper budget: 1000 of 1000 epochs")
    assert "4.53" in answers["cost"].numbers and "2.74" in answers["cost"].numbers


@pytest.mark.parametrize(
    ("error", "epochs", "answer"),
    [
        (0.009, 60, HOLDS),
        (0.011, 60, LESS),
        (0.009, 10_000, "holds"),
        (0.011, 10_000, "does not hold"),
    ],
)
def test_heat_at_the_papers_budget_and_at_a_smaller_one(tmp_path, make_run, error, epochs, answer):
    metrics = errors(0.002, error)
    metrics["train"]["relative_l2 other times"] = 0.002
    metrics["test"]["relative_l2 other times"] = error
    metrics["symbol"] = {
        "symbol difference excited": 10 * error,
        "symbol variation over x": 10 * error,
    }
    make_run(tmp_path, "heat", "PDIO a(x,ξ,t)", metrics=metrics, train=100, epochs=epochs)
    level = "paper" if epochs == 10_000 else "small"
    for key in ("heat-error", "heat-times", "heat-symbol", "heat-constant"):
        found = assessment(tmp_path, key)
        assert found.answer == answer, key
        assert found.numbers.startswith("does not hold with less: ") == (answer == LESS)
        assert found.budget == (
            f"{level} budget: {epochs} of 10000 epochs, 100 of 100 training samples, 1 seed"
        )
    text = {0.009: "9.00e-3", 0.011: "0.011"}[error]
    assert f"train 2.00e-3, test {text}; limit 0.01" in assessment(tmp_path, "heat-error").numbers


@pytest.mark.parametrize(("pair", "answer"), [(0.004, "holds"), (0.016, "does not hold")])
def test_heat_is_counted_by_pairs_as_in_the_paper(tmp_path, make_run, pair, answer):
    """Whole trajectories, which hold times that were not trained, are said besides."""
    metrics = errors(0.04, 0.03)
    metrics["train"]["relative_l2 trained times"] = 0.0004
    metrics["test"] |= {"relative_l2 t=0.5": 0.002, "relative_l2 t=1": 2 * pair - 0.002}
    make_run(tmp_path, "heat", "PDIO a(x,ξ,t)", metrics=metrics, train=100, epochs=10_000)
    found = assessment(tmp_path, "heat-error")
    assert found.answer == answer
    assert found.numbers == (
        f"train at the trained times 4.00e-4, test per pair of state and time "
        f"{'4.00e-3' if pair == 0.004 else '0.016'}; trajectories of all times: "
        "train 0.04, test 0.03; limit 0.01"
    )


def test_means_over_seeds_are_compared(tmp_path, make_run):
    for seed, error in enumerate((0.004, 0.02)):
        metrics = errors(0.001, error)
        make_run(tmp_path, "heat", "PDIO a(x,ξ,t)", metrics=metrics, train=100, seed=seed)
    found = assessment(tmp_path, "heat-error")
    assert found.answer == LESS and "test 0.012 ± 0.011" in found.numbers
    assert "2 seeds" in found.budget


@pytest.mark.parametrize(
    ("pdno", "plain", "mwt", "fno", "answer"),
    [
        (1, 2, 3, 4, "holds"),
        (2, 1, 3, 4, "does not hold"),
        (1, 3, 2, 4, "does not hold"),
        (1, 4, 5, 3, "does not hold"),
    ],
)
def test_darcy_order(tmp_path, make_run, pdno, plain, mwt, fno, answer):
    values = {"PDNO a(x,ξ)": pdno, "PDNO a(ξ)": plain, "MWT Leg": mwt, "FNO": fno}
    for model, value in values.items():
        make_run(tmp_path, "darcy", model, metrics=errors(1.0, value))
    assert assessment(tmp_path, "darcy-order").answer == answer


def test_an_order_must_hold_at_every_resolution(tmp_path, make_run):
    for points, best in ((32, 1.0), (64, 3.0)):
        make_run(tmp_path, "burgers", "FNO", metrics=errors(1, best), resolution=points)
        make_run(tmp_path, "burgers", "MWT Leg", metrics=errors(1, 2.0), resolution=points)
    found = assessment(tmp_path, "burgers-order")
    assert found.answer == "does not hold"
    absent = "(not run: PDNO a(x,ξ), PDNO a(ξ), MWT Chb)"
    at = [f"s = {s}: FNO {error}, MWT Leg 2 {absent}" for s, error in ((32, 1), (64, 3))]
    assert found.numbers == "; ".join(at)
    assert assessment(tmp_path, "burgers-space").answer == "not tested here"


@pytest.mark.parametrize(
    ("pdno", "fno", "answer"),
    [(1.05, 2.0, "holds"), (1.2, 2.0, "does not hold"), (1.05, 1.05, "does not hold")],
)
def test_gaps(tmp_path, make_run, pdno, fno, answer):
    for study, models in (
        ("darcy", ("PDNO a(x,ξ)", "FNO")),
        ("navier-stokes-width nu=1e-05", ("PDNO a(ξ) width=5", "FNO width=5")),
    ):
        for model, test in zip(models, (pdno, fno), strict=True):
            make_run(tmp_path, study, model, metrics=errors(1.0, test))
    assert assessment(tmp_path, "darcy-gap").answer == answer
    assert assessment(tmp_path, "width-gap").answer == answer


def test_navier_stokes_is_compared_by_rollout_and_says_what_is_missing(tmp_path, make_run):
    for model, values in (
        ("PDNO rollout", (0.1, 0.2)),
        ("FNO rollout", (0.2, 0.3)),
        ("FNO Markov", (0.01, 0.005)),
    ):
        metrics = over_time(*values)
        make_run(tmp_path, FLOW, model, metrics=metrics, resolution=64, train=200, epochs=20)
    best = assessment(tmp_path, "navier-stokes-best")
    assert best.answer == HOLDS
    assert best.numbers.endswith("(not run: MWT Leg, MWT Chb, FNO-3D)")
    assert "small budget: 20 of 1000 epochs, 200 of 1000" in best.budget
    assert assessment(tmp_path, "navier-stokes-growth").answer == HOLDS
    lowest = assessment(tmp_path, "navier-stokes-lowest")
    assert lowest.answer == HOLDS and lowest.numbers.endswith("lowest at 2 of 2 times")
    assert assessment(tmp_path, "navier-stokes-gap").answer == LESS
    later = assessment(tmp_path, "navier-stokes-best-1e-4")
    assert later.numbers == "needs pdno reproduce navier-stokes --preset small --viscosity 0.0001"


def test_navier_stokes_the_other_way(tmp_path, make_run):
    for model, values in (("PDNO rollout", (0.1, 0.5)), ("FNO rollout", (0.4, 0.3))):
        make_run(tmp_path, FLOW, model, metrics=over_time(*values), resolution=64)
    assert assessment(tmp_path, "navier-stokes-best").answer == "holds"
    assert assessment(tmp_path, "navier-stokes-growth").answer == "does not hold"
    lowest = assessment(tmp_path, "navier-stokes-lowest")
    assert lowest.answer == "does not hold" and lowest.numbers.endswith("lowest at 1 of 2 times")


@pytest.mark.parametrize(("one_shot", "answer"), [(0.3, "holds"), (0.1, "does not hold")])
def test_one_shot(tmp_path, make_run, one_shot, answer):
    make_run(tmp_path, FLOW, "PDNO a(x,ξ)", metrics=errors(0.1, 0.2))
    make_run(tmp_path, FLOW, "PDNO a(x,ξ,t)", metrics=errors(0.1, one_shot))
    assert assessment(tmp_path, "navier-stokes-one-shot").answer == answer


@pytest.mark.parametrize(
    ("smallest", "many", "beats", "saturates"),
    [
        (0.5, 0.35, "holds", "holds"),
        (1.5, 0.6, "does not hold", "does not hold"),
    ],
)
def test_modes(tmp_path, make_run, smallest, many, beats, saturates):
    for modes, error in ((4, smallest), (20, many), ("all", 0.3)):
        make_run(tmp_path, "darcy-modes", f"PDNO k_max={modes}", metrics=errors(0.1, error))
    assert assessment(tmp_path, "modes-beat-baselines").answer == "not tested here"
    make_run(tmp_path, "darcy", "FNO", metrics=errors(0.1, 1.0))
    make_run(tmp_path, "darcy", "MWT Leg", metrics=errors(0.1, 2.0), resolution=64)
    assert assessment(tmp_path, "modes-beat-baselines").answer == beats
    assert "MWT" not in assessment(tmp_path, "modes-beat-baselines").numbers
    assert assessment(tmp_path, "modes-saturate").answer == saturates


@pytest.mark.parametrize(
    ("gelu", "relu", "answer"),
    [(1.0, 1.5, "holds"), (1.3, 1.5, "does not hold"), (1.0, 1.05, "does not hold")],
)
def test_activation(tmp_path, make_run, gelu, relu, answer):
    for activation, test in (("gelu", gelu), ("relu", relu)):
        model = {"gelu": "PDNO GELU", "relu": "PDNO ReLU"}[activation]
        network = {"activation": activation}
        metrics = errors(1.0, test)
        make_run(tmp_path, "darcy-activation", model, metrics=metrics, network=network)
    assert assessment(tmp_path, "activation-gap").answer == answer


@pytest.mark.parametrize(
    ("pdno", "fno", "falls", "lower"),
    [
        ((0.3, 0.2), (0.5, 0.4), "holds", "holds"),
        ((0.3, 0.2), (0.25, 0.4), "does not hold", "does not hold"),
        ((0.6, 0.5), (0.5, 0.4), "holds", "does not hold"),
    ],
)
def test_width(tmp_path, make_run, pdno, fno, falls, lower):
    for label, values in (("PDNO a(ξ)", pdno), ("FNO", fno)):
        # 10 sorts before 5 as a word, not as a number
        for width, value in zip((5, 10), values, strict=True):
            metrics = errors(0.1, value)
            name = "navier-stokes-width nu=1e-05"
            make_run(tmp_path, name, f"{label} width={width}", metrics=metrics)
    assert assessment(tmp_path, "width-falls").answer == falls
    assert assessment(tmp_path, "width-lower").answer == lower


def test_resources_the_other_way(tmp_path, make_resources):
    make_resources(
        tmp_path,
        {
            "PDNO k_max=12 width=20": (10, 500, 10),
            "PDNO k_max=32 width=20": (10, 600, 10),
            "FNO k_max=12 width=20": (20, 400, 5),
            "FNO k_max=32 width=20": (20, 400, 5),
        },
    )
    for key in ("parameters-without-modes", "fewer-parameters", "cost"):
        assert assessment(tmp_path, key).answer == "does not hold", key


def flow_arrays(symbol, error):
    """Symbol and errors of three samples of two frames, of which the second one is not shown."""
    frames = [[error, 2 * error], [error, error], [3 * error, 4 * error]]
    return {"error": np.mean(frames, axis=1), "frame_error": frames, "symbol.0.real": symbol}


@pytest.mark.parametrize("better", ["PDNO a(x,ξ)", "FNO-2D"])
def test_symbols_and_samples(tmp_path, make_run, better):
    rng = np.random.default_rng(0)
    xi, chosen = np.array([0.0, 1, 2, 3, -4, -3, -2, -1]), (("lowest", 1), ("highest", 2))
    smooth = np.broadcast_to(np.sin(xi / 3)[:, None] + np.arange(4) / 4, (2, 2, 8, 4))
    noise = rng.standard_normal((2, 2, 8, 4))
    for model in ("PDNO a(x,ξ)", "FNO-2D"):
        good = model == better
        arrays = flow_arrays(smooth if good else noise, 0.1 if good else 0.2)
        options = {"resolution": 8, "arrays": arrays, "times": [11.0, 12.0]}
        make_run(tmp_path, FLOW, model, metrics=over_time(0.1, 0.2), **options)
    answer = "holds" if better == "PDNO a(x,ξ)" else "does not hold"
    assert assessment(tmp_path, "smooth-symbols").answer == answer
    found = assessment(tmp_path, "samples-best")
    times = 2 if better == "PDNO a(x,ξ)" else 0
    told = (f"{kind}: sample {k}, best at {times} of 2 times" for kind, k in chosen)
    assert (found.answer, found.numbers) == (answer, "; ".join(told))


def test_smoke_runs_test_nothing(tmp_path, make_run):
    metrics = errors(0.001, 0.002)
    make_run(tmp_path, "heat", "PDIO a(x,ξ,t)", metrics=metrics, train=4, epochs=2)
    found = assessment(tmp_path, "heat-error")
    assert found.answer == "not tested here" and found.budget.endswith("tests nothing")
    assert "test 2.00e-3" in found.numbers


def test_the_least_budget_decides(tmp_path, make_run):
    make_run(tmp_path, "darcy-modes", "PDNO k_max=4", metrics=errors(0.1, 0.5))
    make_run(tmp_path, "darcy", "FNO", metrics=errors(0.1, 1.0), train=4, epochs=2)
    found = assessment(tmp_path, "modes-beat-baselines")
    assert found.answer == "not tested here" and found.budget.endswith("tests nothing")
    assert "paper budget: 1000" in found.budget and "smoke budget: 2 of 500" in found.budget


def test_the_table_has_every_claim_once(tmp_path, make_run):
    make_run(tmp_path, "heat", "PDIO a(x,ξ,t)", metrics=errors(0.001, 0.002), train=100)
    results = read(tmp_path)
    table = claims_table([assess(claim, results) for claim in CLAIMS])
    assert [line[0] for line in table.lines] == [claim.text for claim in CLAIMS]
    assert len({claim.key for claim in CLAIMS}) == len(CLAIMS)
    answers = [line[2] for line in table.lines]
    assert answers.count(HOLDS) == 1 and answers[0] == HOLDS
    assert {(line, 2) for line in range(len(answers)) if answers[line] == "holds"} == table.strong
