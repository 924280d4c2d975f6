"""The claims of the paper as records, each with the judgement that tests it.

Where the paper says "almost" or "negligible" the criterion is ours, and is part of the text.
"""

__all__ = ["CLAIMS", "Claim"]

from dataclasses import dataclass

from pdno.report import ablation_judgements as ablation
from pdno.report import judgements as main


@dataclass(frozen=True)
class Claim:
    """What the paper says.

    Arguments:
        key: Its name here.
        place: Where the paper says it.
        text: What it says, with our criterion.
        studies: The experiments that test it, as `pdno reproduce` calls them.
        judge: Reads the verdict off the results.
        preset: The smallest preset that tests it.
    """

    key: str
    place: str
    text: str
    studies: tuple[str, ...]
    judge: main.Judge | None
    preset: str = "small"


FLOW, DARCY = "navier-stokes", "darcy"
CLAIMS = (
    Claim(
        "heat-error",
        "5.1",
        "Heat: relative L2 error below 0.01 on training and test.",
        ("heat",),
        main.heat_error,
    ),
    Claim(
        "heat-times",
        "4.2, fig. 8",
        "Heat: the operator works at times absent from training (error there below 0.01).",
        ("heat",),
        main.heat_times,
    ),
    Claim(
        "heat-symbol",
        "5.1, fig. 3",
        "Heat: the learned symbol is the exact one (difference below 0.1 where the data excite "
        "the mode).",
        ("heat",),
        main.heat_symbol,
    ),
    Claim(
        "heat-constant",
        "fig. 7",
        "Heat: a1(x, t) is almost constant in x (standard deviation below 0.1 of the mean).",
        ("heat",),
        main.heat_constant,
    ),
    Claim(
        "darcy-order",
        "table 1",
        "Darcy test error: PDNO a(x,ξ) < PDNO a(ξ) < MWT and FNO.",
        (DARCY,),
        main.darcy_order,
    ),
    Claim(
        "darcy-gap",
        "table 1",
        "Darcy: PDNO has no gap between training and test, MWT and FNO have one (test / train "
        "up to 1.1 is none).",
        (DARCY,),
        main.darcy_gap,
    ),
    Claim(
        "navier-stokes-best",
        "table 2",
        "Navier-Stokes, ν = 1e-5: PDNO a(x,ξ) has the lowest test error.",
        (FLOW,),
        main.navier_stokes_best(1e-5, 1000),
    ),
    Claim(
        "navier-stokes-best-1e-4",
        "table 2",
        "Navier-Stokes, ν = 1e-4 with 1000 samples: PDNO a(x,ξ) has the lowest test error.",
        (FLOW,),
        main.navier_stokes_best(1e-4, 1000),
        preset="paper",
    ),
    Claim(
        "navier-stokes-one-shot",
        "table 2",
        "Navier-Stokes: the recurrent PDNO a(x,ξ) is better than the one-shot PDNO a(x,ξ,t).",
        (FLOW,),
        main.navier_stokes_one_shot,
        preset="paper",
    ),
    Claim(
        "navier-stokes-growth",
        "fig. 1",
        "Navier-Stokes, ν = 1e-5: the test errors of all networks grow with t.",
        (FLOW,),
        main.navier_stokes_growth,
    ),
    Claim(
        "navier-stokes-lowest",
        "fig. 1",
        "Navier-Stokes, ν = 1e-5: PDNO has the lowest test error at all t.",
        (FLOW,),
        main.navier_stokes_lowest,
    ),
    Claim(
        "navier-stokes-gap",
        "fig. 1",
        "Navier-Stokes, ν = 1e-5: PDNO has no gap between training and test, the others have one "
        "(test / train up to 1.1 is none).",
        (FLOW,),
        main.navier_stokes_gap,
    ),
    Claim(
        "smooth-symbols",
        "fig. 5",
        "Learned symbols of PDNO are smooth in ξ, those of FNO are not (every block at most half "
        "as rough).",
        (FLOW,),
        ablation.smooth_symbols,
    ),
    Claim(
        "samples-best",
        "figs. 12, 13",
        "PDNO is the best at all times of the samples with the lowest and the highest mean error.",
        (FLOW,),
        ablation.samples_best,
    ),
    Claim(
        "burgers-order",
        "table 3",
        "Burgers: FNO has the lowest test error at every resolution.",
        ("burgers",),
        main.burgers_order,
    ),
    Claim(
        "burgers-space",
        "table 3",
        "Burgers: PDNO a(ξ) is worse than PDNO a(x,ξ).",
        ("burgers",),
        main.burgers_space,
    ),
    Claim(
        "modes-beat-baselines",
        "fig. 9",
        "Darcy: a small k_max already beats MWT and FNO.",
        ("darcy-modes", DARCY),
        ablation.modes_beat_baselines,
    ),
    Claim(
        "modes-saturate",
        "fig. 9",
        "Darcy: k_max of 20 and more is comparable to all modes (within a factor of 1.25).",
        ("darcy-modes",),
        ablation.modes_saturate,
        preset="paper",
    ),
    Claim(
        "activation-gap",
        "fig. 11",
        "Darcy: ReLU symbols have a gap between training and test, GELU ones do not (test / "
        "train up to 1.1 is none).",
        ("darcy-activation",),
        ablation.activation_gap,
    ),
    Claim(
        "width-falls",
        "fig. 10",
        "Navier-Stokes: the test error falls with the channels, for PDNO a(ξ) and FNO.",
        ("navier-stokes-width",),
        ablation.width_falls,
    ),
    Claim(
        "width-lower",
        "fig. 10",
        "Navier-Stokes: PDNO a(ξ) has a lower test error than FNO of the same channels.",
        ("navier-stokes-width",),
        ablation.width_lower,
    ),
    Claim(
        "width-gap",
        "fig. 10",
        "Navier-Stokes: PDNO a(ξ) has almost no gap between training and test, FNO has one "
        "(test / train up to 1.1 is none).",
        ("navier-stokes-width",),
        ablation.width_gap,
    ),
    Claim(
        "parameters-without-modes",
        "table 6",
        "The number of parameters of PDNO does not depend on k_max.",
        ("resources",),
        ablation.parameters_without_modes,
    ),
    Claim(
        "fewer-parameters",
        "table 6",
        "PDNO has fewer parameters than FNO of the same channels and k_max (complex ones count "
        "once).",
        ("resources",),
        ablation.fewer_parameters,
    ),
    Claim(
        "cost",
        "table 6",
        "PDNO takes more time and more memory than FNO.",
        ("resources",),
        ablation.cost_of_pdno,
    ),
    Claim(
        "symbol-class",
        "3.3, appendix E",
        "The symbol networks lie in the stated classes, so that the operators are bounded.",
        (),
        None,
    ),
)
