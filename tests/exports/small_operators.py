"""Small operators of every family with random weights, and inputs for them."""

from functools import partial

import torch

import pdno
from pdno.training.operator_record import Sampling
from pdno.training.statistics import fit_normalizer
from pdno.training.trained_operator import TrainedOperator

BOX, TORUS, LINE = pdno.Grid.cells((16, 16)), pdno.Grid((16, 16)), pdno.Grid((32,))
SMALL = {"width": 5, "layers": 2, "modes": 4, "symbol_hidden": 8}
TIMES = (0.1, 0.2, 0.4)

flow = partial(pdno.PDNO, 2, 1, 1, **SMALL)
step = partial(pdno.PDNO, 2, 2, 1, **SMALL)
line = partial(pdno.PDNO, 1, 1, 1, width=5, layers=2, symbol_hidden=8)
at_time = partial(pdno.PDIO, 1, 1, 1, takes_time=True, symbol_hidden=8)


def diffusive():
    """A transport head in which as much diffuses as in a step of a real flow."""
    network = step(head={"kind": "transport", "diffusion": True})
    torch.nn.init.constant_(network.head.log_c, 0.8)
    return network


def carried(**options):
    """A transport head in several substeps whose velocity takes part."""
    network = step(head={"kind": "transport", "diffusion": True, "substeps": 3, **options})
    torch.nn.init.constant_(network.head.log_c, 0.8)
    return network


OPERATORS = {
    "network": lambda: static(flow()),
    "trunk": lambda: static(flow(symbol="trunk")),
    "low rank": lambda: static(flow(symbol="low-rank", rank=3)),
    "table": lambda: static(flow(symbol="table")),
    "classical": lambda: static(flow(symbol="classical", order=-1.0)),
    "a(ξ)": lambda: static(flow(depends_on_x=False)),
    "padded, feed-forward": lambda: static(flow(padding=0.25, feed_forward=6)),
    "reflected": lambda: static(flow(padding="even")),
    "fno": lambda: static(pdno.FNO(2, 1, 1, width=5, layers=2, modes=4)),
    "one axis, all modes": lambda: static(line(), LINE, "none"),
    "rollout": lambda: recurrent(step(), pdno.Rollout(), 2),
    "fno rollout": lambda: recurrent(
        pdno.FNO(2, 2, 1, width=5, layers=2, modes=4), pdno.TeacherForcing(), 2
    ),
    "increments": lambda: recurrent(flow(), pdno.Markov(), 2),
    "transport": lambda: recurrent(step(head="transport"), pdno.Rollout(), 2),
    "diffusion": lambda: recurrent(diffusive(), pdno.Rollout(), 2),
    "substeps": lambda: recurrent(carried(), pdno.Rollout(), 2),
    "biot-savart": lambda: recurrent(carried(velocity="biot-savart"), pdno.Rollout(), 2),
    "learned velocity": lambda: recurrent(
        carried(velocity="learned", interpolation="cubic", refine=3), pdno.Rollout(), 2
    ),
    "fine state": lambda: recurrent(
        carried(velocity="biot-savart", coarsen=2, refine=1), pdno.Rollout(), 2
    ),
    "fine state of one frame": lambda: recurrent(
        flow(head=pdno.TransportHead(coarsen=2)), pdno.Markov(residual=False), 2
    ),
    "space-time": lambda: recurrent(
        pdno.FNO(3, 2, 1, width=4, layers=2, modes=(4, 4, 2)), pdno.SpaceTime(), 2
    ),
    "heat": lambda: one_shot(at_time()),
    "semigroup": lambda: one_shot(at_time(symbol="classical", depends_on_x=False)),
    "network with time": lambda: one_shot(line(takes_time=True)),
}


def fields(grid, channels, *, count=3):
    """Smooth random fields, the same at every resolution."""
    noise = torch.randn(
        count, channels, *[6] * grid.dim, generator=torch.Generator().manual_seed(1)
    )
    return 2.0 + pdno.spectral.calculus.resample(noise, grid.shape)


def make(network, task, channels, sampling, kind):
    """An operator whose normalisers are those of the fields."""
    inputs, outputs = (
        fit_normalizer(fields(sampling.grid, count), sampling.grid, kind) for count in channels
    )
    return TrainedOperator(network, task, sampling, inputs=inputs, outputs=outputs).eval()


def static(network, grid=BOX, kind="pointwise"):
    return make(network, pdno.StaticMap(), (1, 1), Sampling(grid, 1, 1), kind)


def recurrent(network, task, window):
    sampling = Sampling(TORUS, window, 1, (3.0, 4.0, 5.0), 1.0, window)
    return make(network, task, (1, 1), sampling, "channel")


def one_shot(network):
    return make(network, pdno.OneShot(), (1, 1), Sampling(LINE, 1, 1, TIMES, 0.1), "channel")
