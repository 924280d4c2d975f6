"""One operator for a family of equations: PDE parameters go to symbols or to channels."""

import numpy as np
import pytest
import torch

import pdno
from pdno.data.problems import BurgersProblem, HeatProblem, NavierStokesProblem
from pdno.fields.distributions import draw_parameters
from pdno.symbols import ClassicalSymbol, LowRankSymbol, NetworkSymbol, TrunkSymbol
from pdno.symbols.scale import InputScale
from pdno.training.statistics import ParameterScale

GRID = pdno.Grid((16,))
KINDS = (NetworkSymbol, LowRankSymbol, TrunkSymbol, ClassicalSymbol)
ROWS = torch.tensor([[0.3, -1.0, 0.5], [0.7, 1.0, 0.5], [0.7, 1.0, -0.2]]).double()


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("takes_time", [True, False])
@torch.no_grad()
def test_each_sample_has_the_symbol_of_its_own_scalars(kind, takes_time):
    torch.manual_seed(0)
    options = {} if kind is LowRankSymbol else {"depends_on_x": False}
    scale = InputScale(1, 1.0, 4.0)
    symbol = kind(2, 2, scale=scale, takes_time=takes_time, pde_parameters=2, **options).double()
    rows = ROWS if takes_time else ROWS[:, 1:]
    f = torch.randn(3, 2, 16).double()
    together = pdno.apply_symbol(symbol, f, GRID, t=rows)
    for one in range(3):
        alone = pdno.apply_symbol(symbol, f[one : one + 1], GRID, t=rows[one : one + 1])
        assert torch.allclose(together[one], alone[0], atol=1e-12)
    values = symbol.evaluate(GRID, None, rows).frequency
    assert (values[1] - values[2]).abs().max() > 1e-4  # only the last scalar differs


@torch.no_grad()
def test_a_classical_symbol_is_a_semigroup_for_every_scalar():
    torch.manual_seed(0)
    scale = InputScale(1, 1.0, 4.0)
    symbol = ClassicalSymbol(
        2, 2, scale=scale, order=1.0, depends_on_x=False, takes_time=True, pde_parameters=1
    ).double()
    f = torch.randn(1, 2, 16).double()

    def at(t, c, u):
        return pdno.apply_symbol(symbol, u, GRID, t=torch.tensor([[t, c]]))

    for c in (-1.0, 0.4):
        assert torch.allclose(at(0.3, c, at(0.2, c, f)), at(0.5, c, f), atol=1e-10)
        assert at(0.5, c, f).norm() <= f.norm()
    assert (at(0.5, -1.0, f) - at(0.5, 0.4, f)).norm() > 1e-3


def test_what_symbols_see_is_checked():
    symbol = NetworkSymbol(1, 1, scale=InputScale(1, 1.0, 4.0), pde_parameters=2)
    with pytest.raises(ValueError, match=r"on 2 PDE parameters: give them as t of shape \(B, 2\)"):
        symbol.evaluate(GRID)
    with pytest.raises(ValueError, match=r"shape \(3, 1\); expected \(B, 2\)"):
        symbol.evaluate(GRID, t=torch.zeros(3, 1))
    with pytest.raises(ValueError, match="table symbol needs modes"):
        pdno.PDNO(1, 1, 1, symbol="table", modes=4, pde_parameters=1)


def test_scalars_are_drawn_from_their_distribution():
    ranges = {"viscosity": (1e-5, 1e-3), "forcing": (-1.0, 3.0)}
    drawn = [draw_parameters(ranges, seed=3, index=i) for i in range(2000)]
    one = draw_parameters({"forcing": (-1.0, 3.0)}, seed=3, index=7)
    assert one["forcing"] == drawn[7]["forcing"]  # whatever else is drawn
    log = np.log10([each["viscosity"] for each in drawn])
    plain = np.array([each["forcing"] for each in drawn])
    for values, low, high in ((log, -5, -3), (plain, -1, 3)):
        assert values.min() >= low and values.max() <= high
        share = (np.sort(values) - low) / (high - low) - np.arange(2000) / 2000
        assert np.abs(share).max() < 1.63 / np.sqrt(2000)  # Kolmogorov, one percent
    assert abs(np.corrcoef(log, plain)[0, 1]) < 0.07


@pytest.mark.parametrize(
    ("family", "name"),
    [
        (HeatProblem(samples=3, resolution=32, vary={"diffusivity": (0.01, 0.1)}), "diffusivity"),
        (
            BurgersProblem(
                samples=3, resolution=32, solver_resolution=64, vary={"viscosity": (0.05, 0.2)}
            ),
            "viscosity",
        ),
        (
            NavierStokesProblem(
                samples=3,
                resolution=16,
                solver_resolution=16,
                final_time=1,
                vary={"viscosity": (1e-3, 1e-2)},
            ),
            "viscosity",
        ),
    ],
    ids=lambda value: getattr(value, "name", value),
)
def test_a_dataset_of_a_family_carries_the_scalars_of_its_samples(tmp_path, family, name):
    pdno.generate_dataset(family, tmp_path / "data", workers=1)
    data = pdno.open_dataset(tmp_path / "data")
    assert data.pde_parameter_names == (name,)
    numbers = data.pde_parameters()
    low, high = family.vary[name]
    assert bool(((numbers >= low) & (numbers <= high)).all())
    for index in range(3):
        plain = {k: v for k, v in family.model_dump().items() if k != "vary"}
        number = float(numbers[index, 0])
        alone = type(family)(**{**plain, name: number, "solver_resolution": family.solver_points})
        assert torch.equal(alone.sample(index)[1].float(), data[index][1])
    assert torch.equal(data.subset([2, 0]).pde_parameters(), numbers[[2, 0]])
    data.save(tmp_path / "again")
    assert torch.equal(pdno.open_dataset(tmp_path / "again").pde_parameters(), numbers)
    assert data.without_pde_parameters().pde_parameters() is None
    assert type(family).model_validate(family.model_dump()) == family


def test_wrong_ranges_are_refused():
    with pytest.raises(ValueError, match="vary of heat is 'speed'; expected one of diffusivity"):
        HeatProblem(vary={"speed": (1, 2)})
    with pytest.raises(ValueError, match="vary diffusivity from 2 to 1"):
        HeatProblem(vary={"diffusivity": (2, 1)})
    with pytest.raises(ValueError, match="greater than or equal"):
        HeatProblem(vary={"diffusivity": (-1, 1)})
    with pytest.raises(ValueError, match="vary of Heat is 'speed'; expected one of diffusivity"):
        pdno.generate(pdno.Heat(), GRID, samples=1, times=[1.0], vary={"speed": (1.0, 2.0)})


def test_networks_see_scalars_between_minus_one_and_one():
    scale = ParameterScale(torch.tensor([1e-5, 1.0]), torch.tensor([1e-3, 2.0]))
    seen = scale(torch.tensor([[1e-5, 1.0], [1e-4, 1.5], [1e-3, 2.0]]))
    expected = torch.tensor([[-1.0, -1.0], [0.0, 0.0], [1.0, 1.0]])
    assert torch.allclose(seen, expected, atol=1e-5)
    with pytest.raises(ValueError, match="expected a positive one"):
        scale(torch.tensor([[0.0, 1.0]]))


def family(samples=12):
    distribution = pdno.GaussianField(variance=25.0, tau=3.0, alpha=2.0)
    ranges = {"diffusivity": (0.01, 0.2)}
    times = [0.1, 0.2, 0.3]
    return pdno.generate(
        pdno.Heat(), GRID, samples=samples, times=times, distribution=distribution, vary=ranges
    )


def networks():
    torch.manual_seed(0)
    sizes = {"width": 4, "layers": 2, "modes": 4}
    yield pdno.PDNO(1, 1, 1, pde_parameters=1, symbol_hidden=6, **sizes)
    yield pdno.FNO(1, 2, 1, **sizes)  # a constant channel


@pytest.mark.parametrize("which", [0, 1], ids=["symbols", "channel"])
@pytest.mark.parametrize("task", ["rollout", "markov", "teacher-forcing"])
def test_predictions_depend_on_the_scalars_of_each_sample_alone(tmp_path, which, task):
    network = list(networks())[which]
    data = family().window(inputs=1)
    train, test = data.split(test=4)
    trained = pdno.fit(network, train, test, task=task, epochs=1, batch_size=4, folder=tmp_path)
    inputs, numbers = test.batch()[0], test.pde_parameters()
    together = trained.predict(inputs, pde_parameters=numbers)
    alone = [
        trained.predict(inputs[i : i + 1], pde_parameters={"diffusivity": float(numbers[i, 0])})
        for i in range(4)
    ]
    assert torch.allclose(together, torch.cat(alone), atol=1e-5)
    other = trained.predict(inputs, pde_parameters={"diffusivity": 0.02})
    assert (other - together).abs().max() > 1e-5
    again = pdno.load(tmp_path)
    assert torch.equal(again.predict(inputs, pde_parameters=numbers), together)
    assert "diffusivity: 0.0" in (tmp_path / "model_card.md").read_text()
    assert pdno.evaluate(again, test).mean() == pytest.approx(trained.history[-1].test, rel=1e-5)
    with pytest.raises(ValueError, match="one of a family: give pde_parameters=.*diffusivity"):
        trained.predict(inputs)
    with pytest.raises(ValueError, match="pde_parameters viscosity; expected diffusivity"):
        trained.predict(inputs, pde_parameters={"viscosity": 1.0})


def test_symbols_of_time_and_scalars_learn_a_family():
    """e^{tA(ξ; c)}: better on unseen c than the same network that is not told c."""
    train, test = family(60).split(test=12)
    torch.manual_seed(0)
    sizes = {"modes": 8, "symbol_hidden": 8, "frequency_scale": 4.0, "depends_on_x": False}
    sizes |= {"symbol": "classical", "order": 2.0, "takes_time": True}
    way = {"task": "one-shot", "epochs": 15, "batch_size": 20, "learning_rate": 1e-2}
    told = pdno.fit(pdno.PDIO(1, 1, 1, pde_parameters=1, **sizes), train, test, **way)
    blind = [part.without_pde_parameters() for part in (train, test)]
    untold = pdno.fit(pdno.PDIO(1, 1, 1, **sizes), *blind, **way)
    assert told.history[-1].test < 0.3 * untold.history[-1].test
    with pytest.raises(ValueError, match="see 1 PDE parameters, the samples have 0"):
        pdno.fit(pdno.PDIO(1, 1, 1, pde_parameters=1, **sizes), *blind, **way)


def test_certificates_and_augmentation_take_scalars():
    torch.manual_seed(0)
    symbol = TrunkSymbol(
        1, 1, scale=InputScale(1, 1.0, 1.0), depends_on_x=False, pde_parameters=1, hidden=4
    )
    found = pdno.certify(symbol, 0, t=torch.tensor([[0.5]]))
    assert found.accepted and found.proof
    data = family(6).with_symmetries(pdno.Heat().symmetries).window(inputs=1)
    network = next(networks())
    trained = pdno.fit(network, data, task="rollout", epochs=1, batch_size=3, augment=True)
    assert np.isfinite(trained.history[-1].train)
