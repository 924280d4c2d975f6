"""Fine-tuning: a trained operator is trained further, with its normalisers, on other samples."""

import pytest
import torch

import pdno

GRID = pdno.Grid((16,))
SETTINGS = {"epochs": 2, "batch_size": 4, "learning_rate": 3e-3}


def samples(count=12, *, seed=0, shift=0.0, points=16):
    fine = torch.randn(count, 1, 32, generator=torch.Generator().manual_seed(seed))
    f = fine.cumsum(-1)[..., :: 32 // points]
    return pdno.OperatorDataset.from_arrays(
        5 * f + 3, 100 * f.roll(1, -1) + shift, pdno.Grid((points,))
    )


def network():
    torch.manual_seed(0)
    return pdno.FNO(1, 1, 1, width=4, layers=2, modes=4)


@pytest.fixture(scope="module", params=["pointwise", "channel"])
def trained(request):
    return pdno.fit(network(), samples(), normalization=request.param, **SETTINGS)


def weights(operator):
    return {name: value.clone() for name, value in operator.state_dict().items()}


def test_it_continues_with_weights_normalisers_and_task_of_a_copy(trained):
    before, history = weights(trained), list(trained.history)
    still = pdno.fit(trained, samples(seed=1), epochs=1, learning_rate=1e-30, optimiser="adam")
    after = weights(still)
    assert after.keys() == before.keys()
    assert all(torch.allclose(after[n], before[n], rtol=1e-6) for n in before)
    f = samples(seed=2).batch()[0]
    assert torch.allclose(still.predict(f), trained.predict(f), rtol=1e-5)
    assert still.training_record.normalization == trained.training_record.normalization
    tuned = pdno.fit(trained, samples(seed=1, shift=50.0), **SETTINGS)
    assert not torch.equal(tuned.predict(f), trained.predict(f))
    # what was given is as it was
    assert all(torch.equal(value, before[name]) for name, value in weights(trained).items())
    assert list(trained.history) == history and all(p.requires_grad for p in tuned.parameters())


def test_few_steps_from_a_trained_operator_beat_the_same_steps_from_scratch():
    """The targets differ by a tenth from those of the first training."""
    f = pdno.spectral.calculus.resample(torch.randn(40, 1, 7), (16,))
    u = f.roll(1, -1) + 0.1 * f.square()
    old, new = (pdno.OperatorDataset.from_arrays(f, c * u, GRID) for c in (1.0, 1.1))
    first = pdno.fit(network(), old, epochs=40, batch_size=8)
    way = {"epochs": 3, "batch_size": 8, "learning_rate": 1e-3}
    tuned, scratch = pdno.fit(first, new, **way), pdno.fit(network(), new, **way)
    assert pdno.evaluate(tuned, new).mean() < 0.5 * pdno.evaluate(scratch, new).mean()


def test_it_is_saved_and_loaded_on_another_grid(trained, tmp_path):
    fine = samples(seed=1, points=32)
    tuned = pdno.fit(trained, fine, fine, folder=tmp_path, **SETTINGS)
    assert tuned.sampling.grid == pdno.Grid((32,))
    loaded, f = pdno.load(tmp_path), fine.batch()[0]
    assert torch.equal(loaded.predict(f), tuned.predict(f))
    assert loaded.metrics[-1].value == tuned.history[-1].test


def test_frozen_parts_stay_to_the_bit_and_others_learn(trained, tmp_path):
    before = weights(trained)
    tuned = pdno.fit(
        trained, samples(seed=1), frozen=["lift", "operators.0"], folder=tmp_path, **SETTINGS
    )
    for name, value in tuned.named_parameters():
        still = name.startswith(("network.lift.", "network.operators.0."))
        assert torch.equal(value, before[name]) == still, name
    assert all(p.requires_grad for p in tuned.parameters())
    assert "frozen: ('lift', 'operators.0')" in (tmp_path / "model_card.md").read_text()
    with pytest.raises(ValueError, match="frozen is 'lfit'; did you mean 'lift'"):
        pdno.fit(trained, samples(), frozen=["lfit"], **SETTINGS)
    parts = {name.split(".")[0] for name, _ in trained.network.named_parameters()}
    with pytest.raises(ValueError, match="leave one out, to be trained"):
        pdno.fit(trained, samples(), frozen=sorted(parts), **SETTINGS)


def test_an_interrupted_fine_tuning_goes_on_to_the_bit(trained, tmp_path):
    whole = pdno.fit(trained, samples(seed=1), frozen=["lift"], **SETTINGS)

    def stop(row, operator):
        if row.epoch == 1:
            raise KeyboardInterrupt

    way = {**SETTINGS, "frozen": ["lift"], "folder": tmp_path, "checkpoint_seconds": 0}
    with pytest.raises(KeyboardInterrupt):
        pdno.fit(trained, samples(seed=1), **way, callbacks=[stop])
    again = pdno.fit(trained, samples(seed=1), **way)
    assert all(torch.equal(v, weights(whole)[n]) for n, v in weights(again).items())


def test_another_task_may_follow():
    frames = torch.randn(4, 5, 1, 16)
    data = pdno.OperatorDataset.from_arrays(frames[:, 0], frames, GRID, times=range(5)).window(
        inputs=1
    )
    first = pdno.fit(network(), data, task="teacher-forcing", normalization="channel", **SETTINGS)
    assert pdno.fit(first, data, **SETTINGS).task == first.task
    second = pdno.fit(first, data, task="rollout", **SETTINGS)
    assert second.task == pdno.Rollout() and second.outputs is not None


def test_samples_that_do_not_fit_are_refused(trained):
    f = torch.randn(4, 2, 16)
    with pytest.raises(ValueError, match="input channels 2; expected 1"):
        pdno.fit(trained, pdno.OperatorDataset.from_arrays(f, f[:, :1], GRID), **SETTINGS)
    with pytest.raises(ValueError, match="keeps its normalisers: leave normalization out"):
        pdno.fit(trained, samples(), normalization="channel", **SETTINGS)
