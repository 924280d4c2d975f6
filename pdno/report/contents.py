"""What a report holds: the tables and figures of the paper in its order, then ours.

An entry knows how to make itself from the results and which command makes its data; where the runs
are missing it makes nothing, and the report shows a gap with the command.
"""

__all__ = ["FIGURES", "TABLES", "FigureEntry", "TableEntry"]

from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING

from pdno.report.ablations import plot_activation, plot_modes, plot_width
from pdno.report.certificate import plot_certificates
from pdno.report.commands import SYMBOL_COMMAND
from pdno.report.cost import plot_cost
from pdno.report.diagrams import plot_block, plot_operator
from pdno.report.error_tables import burgers_table, darcy_table, navier_stokes_table
from pdno.report.errors import STUDIES, plot_bands, plot_error_by_time, plot_resolutions
from pdno.report.fields import plot_comparison, plot_curves, plot_frames
from pdno.report.groups import Results
from pdno.report.heat import plot_heat_space, plot_heat_surfaces, plot_heat_symbol
from pdno.report.setting_tables import resource_table, settings_table
from pdno.report.symbols import plot_symbols
from pdno.report.table import Table
from pdno.report.training_curves import plot_training

if TYPE_CHECKING:
    from matplotlib.figure import Figure


@dataclass(frozen=True)
class TableEntry:
    """A table of the report.

    Arguments:
        key: Name of its files.
        number: In the paper; empty for ours.
        title: What it shows.
        studies: The experiments that it is made of; one of them is enough.
        make: The table, or None where the runs are missing.
    """

    key: str
    number: str
    title: str
    studies: tuple[str, ...]
    make: Callable[[Results], Table | None]


@dataclass(frozen=True)
class FigureEntry:
    """A figure of the report.

    Arguments:
        key: Name of its files.
        number: In the paper; empty for ours.
        title: What it shows.
        caption: How to read it.
        studies: The experiments that it is made of; one of them is enough.
        make: The figure, or None where the runs are missing.
    """

    key: str
    number: str
    title: str
    caption: str
    studies: tuple[str, ...]
    make: "Callable[[Results], Figure | None]"


FLOW = ("navier-stokes",)
TIME = "t is the physical time; the paper counts frames from 0, so its index is t − 1."

TABLES = (
    TableEntry("table-1-darcy", "Table 1", "Darcy flow", ("darcy",), darcy_table),
    TableEntry("table-2-navier-stokes", "Table 2", "Navier-Stokes", FLOW, navier_stokes_table),
    TableEntry("table-3-burgers", "Table 3", "Burgers' equation", ("burgers",), burgers_table),
    TableEntry("table-5-settings", "Table 5", "Settings of PDNO", STUDIES, settings_table),
    TableEntry(
        "table-6-resources",
        "Table 6",
        "Memory, parameters and time",
        ("resources",),
        resource_table,
    ),
)

FIGURES = (
    FigureEntry(
        "figure-01-error-by-time",
        "Figure 1",
        "Error by time, training and test",
        f"Navier-Stokes, ν = 1e-5. Solid: test, dashed: training. {TIME}",
        FLOW,
        plot_error_by_time,
    ),
    FigureEntry(
        "figure-02-operator",
        "Figure 2",
        "The operator",
        "Drawn from the specification of a run, with the sizes of its symbol networks.",
        ("navier-stokes", "darcy", "burgers", "heat"),
        plot_operator,
    ),
    FigureEntry(
        "figure-03-heat-symbol",
        "Figure 3",
        "Learned and exact symbol of the heat equation",
        "The first two share their colours. Of a mode that the data do not excite nothing is "
        "learned.",
        ("heat",),
        plot_heat_symbol,
    ),
    FigureEntry(
        "figure-04-samples",
        "Figure 4",
        "One test sample at the last time",
        "The sample with the median of the mean error over the networks; the number is the "
        f"relative L2 error of this frame. {TIME}",
        FLOW,
        partial(plot_comparison, study="navier-stokes"),
    ),
    FigureEntry(
        "figure-05-symbols",
        "Figure 5",
        "Learned symbols Re a_ij(ξ) of PDNO and FNO",
        "Each panel has its own symmetric range, printed above it. Only kept modes are shown.",
        FLOW,
        plot_symbols,
    ),
    FigureEntry(
        "figure-06-block",
        "Figure 6",
        "A block with several channels",
        "Drawn from the specification of a run.",
        ("navier-stokes", "darcy", "burgers"),
        plot_block,
    ),
    FigureEntry(
        "figure-07-heat-space",
        "Figure 7",
        "Dependence of the learned heat symbol on x",
        "The exact symbol does not depend on x: every curve should be 1.",
        ("heat",),
        plot_heat_space,
    ),
    FigureEntry(
        "figure-08-heat-surfaces",
        "Figure 8",
        "Exact and predicted solution of the heat equation",
        "The first test sample; half of the times were not in the training.",
        ("heat",),
        plot_heat_surfaces,
    ),
    FigureEntry(
        "figure-09-modes",
        "Figure 9",
        "Kept modes k_max on Darcy flow",
        "Lines across are other networks at the same resolution, where `pdno reproduce darcy` ran "
        "at it. The list of k_max is ours.",
        ("darcy-modes",),
        plot_modes,
    ),
    FigureEntry(
        "figure-10-width",
        "Figure 10",
        "Channels on Navier-Stokes",
        "PDNO a(ξ) and FNO without truncation. The list of channels is ours.",
        ("navier-stokes-width",),
        plot_width,
    ),
    FigureEntry(
        "figure-11-activation",
        "Figure 11",
        "GELU and ReLU in the symbol networks on Darcy flow",
        "Full colour: test, pale: training.",
        ("darcy-activation",),
        plot_activation,
    ),
    FigureEntry(
        "figure-12-lowest",
        "Figure 12",
        "The test sample with the lowest mean error over the networks",
        f"The number is the relative L2 error of the frame. {TIME}",
        FLOW,
        partial(plot_frames, choice="lowest"),
    ),
    FigureEntry(
        "figure-13-highest",
        "Figure 13",
        "The test sample with the highest mean error over the networks",
        f"The number is the relative L2 error of the frame. {TIME}",
        FLOW,
        partial(plot_frames, choice="highest"),
    ),
    FigureEntry(
        "darcy-sample",
        "",
        "One Darcy test sample",
        "The sample with the median of the mean error over the networks.",
        ("darcy",),
        partial(plot_comparison, study="darcy"),
    ),
    FigureEntry(
        "burgers-sample",
        "",
        "One Burgers test sample",
        "The sample with the median of the mean error over the networks; numbers are relative L2 "
        "errors.",
        ("burgers",),
        partial(plot_curves, study="burgers"),
    ),
    FigureEntry(
        "cost",
        "",
        "Cost against accuracy",
        "Lower left is better. Times compare only where the runs shared a machine.",
        ("darcy", "navier-stokes", "burgers"),
        plot_cost,
    ),
    FigureEntry(
        "resolutions",
        "",
        "Other resolutions without training",
        "Dotted: the prediction on the grid of the training, interpolated. A network that only "
        "matches it has learned nothing finer.",
        ("darcy", "navier-stokes", "burgers"),
        plot_resolutions,
    ),
    FigureEntry(
        "bands",
        "",
        "Error by frequency",
        "Bands of modes by max |ξ_j|; the squares of a network's values add up to about its "
        "squared error.",
        STUDIES,
        plot_bands,
    ),
    FigureEntry(
        "training",
        "",
        "Training curves",
        "Solid: test error after the epoch, dashed: training error during it. First seed.",
        STUDIES,
        plot_training,
    ),
    FigureEntry(
        "certificates",
        "",
        "Certificates of the symbol class",
        "Largest |Δ^α a| ⟨ξ⟩^(|α| − m) of the first block against |ξ|: bounded curves are those "
        "of S^m. For the runs that `pdno symbol RUN` has looked into.",
        (SYMBOL_COMMAND,),
        plot_certificates,
    ),
)
