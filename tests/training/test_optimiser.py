"""Muon beside AdamW, running means of the weights, and symmetries as augmentation."""

import pytest
import torch
from torch import nn

from pdno import FNO, PDNO
from pdno.data.dataset import OperatorDataset
from pdno.equations.darcy import Darcy
from pdno.equations.evolution import Burgers
from pdno.spectral.grid import Grid
from pdno.training.checkpoint import load_checkpoint
from pdno.training.fit import fit
from pdno.training.optimiser import Muon, Optimiser, orthogonal_factor
from pdno.training.samples import Samples, augmented
from pdno.training.settings import TrainingSettings
from pdno.training.task import StaticMap


def exact_factor(matrix):
    u, _, v = torch.linalg.svd(matrix, full_matrices=False)
    return u @ v


def newton_schulz(matrix):
    """The iteration as it is published, in double precision."""
    x = matrix.double() / matrix.double().norm()
    for _ in range(5):
        gram = x @ x.mT
        x = 3.4445 * x + (-4.7750 * gram + 2.0315 * gram @ gram) @ x
    return x


def matrix_with(singular_values, rows, columns):
    u, _ = torch.linalg.qr(torch.randn(rows, len(singular_values), dtype=torch.float64))
    v, _ = torch.linalg.qr(torch.randn(columns, len(singular_values), dtype=torch.float64))
    return ((u * singular_values) @ v.mT).float()


class TestMuon:
    def test_matrices_move_along_their_orthogonal_factor(self):
        torch.manual_seed(0)
        layer = nn.Linear(16, 48, bias=False)
        before = layer.weight.detach().clone()
        settings = TrainingSettings(optimiser="muon", weight_decay=0, learning_rate=1e-3)
        optimiser = Optimiser(layer, settings)
        layer.weight.grad = torch.randn(48, 16)
        expected = exact_factor(layer.weight.grad)
        optimiser.step(1e-3, 0)
        moved = (before - layer.weight.detach()) / (0.02 * 3**0.5)
        # five steps of Newton and Schulz bring singular values to 0.7 .. 1.2, not to 1
        assert torch.linalg.svdvals(moved).min() > 0.5
        assert torch.linalg.svdvals(moved).max() < 1.3
        assert float((moved * expected).sum() / (moved.norm() * expected.norm())) > 0.97

    @pytest.mark.parametrize(("rows", "columns"), [(16, 16), (48, 16), (64, 400), (800, 64)])
    @pytest.mark.parametrize("decades", [0.5, 3, 6, 12])
    def test_the_iteration_on_the_gram_matrix_is_that_of_newton_and_schulz(
        self, rows, columns, decades
    ):
        torch.manual_seed(0)
        values = torch.logspace(0, -decades, min(rows, columns), dtype=torch.float64)
        matrix = matrix_with(values, rows, columns)
        expected = newton_schulz(matrix)
        for scale in (1e-12, 1.0, 1e12):
            found = orthogonal_factor(matrix * scale).double()
            assert float((found - expected).abs().max() / expected.abs().max()) < 2e-3

    def test_it_takes_the_steps_of_torch(self):
        torch.manual_seed(0)
        ours, theirs = (nn.Parameter(torch.ones(48, 16)) for _ in range(2))
        muons = Muon([ours], weight_decay=0.1), torch.optim.Muon([theirs], lr=0.02)
        muons[0].param_groups[0]["lr"] = 0.02
        for _ in range(5):
            ours.grad = theirs.grad = torch.randn(48, 16)
            for muon in muons:
                muon.step()
        # theirs is in bfloat16
        apart, moved = (ours - theirs).detach(), (theirs - 1).detach()
        assert float(apart.norm() / moved.norm()) < 0.02

    def test_steps_do_not_grow_with_the_pairs_of_channels_of_a_symbol(self):
        torch.manual_seed(0)
        lengths = []
        for rows in (16 * 16, 64 * 16, 256 * 16):
            last = nn.Parameter(torch.zeros(rows, 16))
            muon = Muon([last], weight_decay=0.0)
            muon.param_groups[0]["lr"] = 0.02
            last.grad = torch.randn(rows, 16)
            muon.step()
            lengths.append(float(torch.linalg.matrix_norm(last.detach(), 2)))
        assert max(lengths) < 1.3 * 0.02 * 4 and max(lengths) < 2 * min(lengths)

    def test_without_a_gradient_nothing_moves(self):
        assert orthogonal_factor(torch.zeros(16, 20)).count_nonzero() == 0
        still = nn.Parameter(torch.ones(16, 16))
        Muon([still], weight_decay=0.0).step()
        assert torch.equal(still, torch.ones(16, 16))

    def test_small_matrices_vectors_and_tables_are_left_to_adamw(self):
        network = FNO(2, 1, 1, width=16, modes=3)
        settings = TrainingSettings(optimiser="muon", learning_rate=1e-3)
        optimiser = Optimiser(network, settings)
        (adamw, _), (muon, factor) = optimiser.parts
        assert factor == pytest.approx(20)
        names = {p: name for name, p in network.named_parameters()}
        matrices = {names[p] for group in muon.param_groups for p in group["params"]}
        assert {name.rpartition(".")[2] for name in matrices} == {"weight"}
        assert "project_hidden.weight" in matrices and "lift.weight" not in matrices
        rest = {names[p] for group in adamw.param_groups for p in group["params"]}
        assert matrices | rest == set(names.values()) and not matrices & rest

    def test_its_rate_follows_the_schedule(self):
        layer = nn.Linear(16, 16)
        optimiser = Optimiser(layer, TrainingSettings(optimiser="muon", learning_rate=1e-3))
        for rate in (1e-3, 1e-4):
            before = layer.weight.detach().clone()
            layer.weight.grad = torch.eye(16)
            layer.bias.grad = torch.zeros(16)
            optimiser.step(rate, 0)
            moved = float((layer.weight.detach() - before).norm() / 4)
            assert moved == pytest.approx(20 * rate, rel=0.3)

    def test_a_network_learns_with_it(self):
        torch.manual_seed(0)
        waves = torch.randn(32, 1, 17, dtype=torch.complex64) * (torch.arange(17) < 5)
        f = torch.fft.irfft(waves, 32, norm="forward")
        data = OperatorDataset.from_arrays(f, f.roll(3, dims=-1), Grid((32,)))
        network = PDNO(1, 1, 1, width=16, layers=1, modes=16, symbol="trunk")
        trained = fit(
            network,
            data,
            optimiser="muon",
            learning_rate=5e-3,
            epochs=30,
            batch_size=8,
            schedule="one-cycle",
        )
        assert trained.history[-1].train < 0.4 * trained.history[0].train


class TestAveraging:
    def data(self):
        f = torch.randn(10, 1, 16, generator=torch.Generator().manual_seed(0))
        return OperatorDataset.from_arrays(f, 2 * f, Grid((16,)))

    def test_the_mean_is_that_of_the_formula(self):
        layer = nn.Linear(2, 1, bias=False)
        optimiser = Optimiser(layer, TrainingSettings(averaging=0.5))
        mean = None
        for count in range(5):
            layer.weight.grad = torch.randn(1, 2)
            optimiser.step(0.1, count)
            keep, now = min(0.5, (1 + count) / (10 + count)), layer.weight.detach().clone()
            mean = now if mean is None else keep * mean + (1 - keep) * now
        with optimiser.mean_weights():
            torch.testing.assert_close(layer.weight.detach(), mean)
        torch.testing.assert_close(layer.weight.detach(), now)
        optimiser.finish()
        torch.testing.assert_close(layer.weight.detach(), mean)

    def test_a_run_ends_with_the_mean_and_goes_on_from_the_weights(self, tmp_path):
        torch.manual_seed(0)
        network = FNO(1, 1, 1, width=4, modes=4)
        fit(network, self.data(), self.data(), folder=tmp_path, averaging=0.9, epochs=3)
        tensors = load_checkpoint(tmp_path / "checkpoints").tensors
        for name, weight in network.named_parameters():
            full = f"network.{name}"
            assert torch.equal(weight, tensors[f"optimiser.{full}.mean"])
            assert not torch.equal(weight, tensors[f"operator.{full}"])
        again = FNO(1, 1, 1, width=4, modes=4)
        fit(again, self.data(), self.data(), folder=tmp_path, averaging=0.9, epochs=3)
        for one, other in zip(network.parameters(), again.parameters(), strict=True):
            assert torch.equal(one, other)


class TestSymmetries:
    def test_examples_are_moved_as_pairs_and_the_same_way_every_time(self):
        f = torch.randn(6, 1, 16)
        data = OperatorDataset.from_arrays(f, f.square() * f, Grid((16,)))
        with pytest.raises(ValueError, match="no symmetries"):
            augmented(StaticMap().batch, Samples(data, torch.device("cpu")))
        samples = Samples(data.with_symmetries(Burgers().symmetries), torch.device("cpu"))
        make = augmented(StaticMap().batch, samples)
        batch = make(samples, range(6), seed=1, epoch=2)
        torch.testing.assert_close(batch.targets, batch.inputs**3)
        assert not torch.equal(batch.inputs, f)
        alone = make(samples, [4], seed=1, epoch=2)
        assert torch.equal(alone.inputs[0], batch.inputs[4])
        other = make(samples, range(6), seed=1, epoch=3)
        assert not torch.equal(other.inputs, batch.inputs)

    def test_a_subsampled_box_is_turned_before_points_are_left_out(self):
        grid = Grid.cells((8, 8))
        f = torch.randn(3, 1, 8, 8)
        data = OperatorDataset.from_arrays(f, 2 * f, grid).with_symmetries(Darcy().symmetries)
        assert len(data.symmetries()) == 8 and data.turns() == []
        coarse = data.subsample(2)
        assert len(coarse.symmetries()) == 2 and len(coarse.turns()) == 4
        expected = [f, f.flip(-1), f.flip(-2), f.flip(-1, -2)]
        for view, whole in zip(coarse.turns(), expected, strict=True):
            inputs, targets = view.batch()
            assert torch.equal(inputs, whole[..., ::2, ::2])
            assert torch.equal(targets, 2 * inputs)
