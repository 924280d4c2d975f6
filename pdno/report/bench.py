"""Tables and the scaling plot of `pdno bench`, from its results alone."""

__all__ = ["bench_tables", "plot_scaling"]

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from pdno.report.style import figure_style

if TYPE_CHECKING:
    from matplotlib.figure import Figure

REFERENCE = "neuraloperator FNO"
STRAIGHT = "straight a(x,xi)"
MEGABYTE = 2**20


def bench_tables(results: Mapping[str, Any]) -> str:
    """Markdown tables: seconds, ratios to the neuraloperator FNO and to the straight formula."""
    lines = ["# Benchmark", "", f"Machine: {results['machine']}", ""]
    lines += _solver_lines(results["solvers"])
    for title, result in results.items():
        if isinstance(result, Mapping) and "step" in result:
            lines += _time_lines(title, result)
    lines += _memory_lines(results)
    return "\n".join(lines) + "\n"


def _solver_lines(solvers: Mapping[str, Mapping[str, float]]) -> list[str]:
    flow, darcy = solvers["navier-stokes"], solvers["darcy"]
    return [
        "## Solvers, one thread, float64",
        "",
        "| problem | ours | replaced scheme | times faster | our error | its error |",
        "|---|---|---|---|---|---|",
        f"| Navier-Stokes 128², ν = 1e-5, to T = 20 | {flow['seconds']:.2f} s | published: "
        f"{flow['published_seconds']:.1f} s | {flow['ratio']:.1f} | {flow['error']:.1e} | "
        f"{flow['published_error']:.1e} |",
        f"| Darcy 512², contrast 4 | {darcy['seconds']:.3f} s | splu: "
        f"{darcy['splu_seconds']:.2f} s | {darcy['ratio']:.1f} | {darcy['residual']:.1e} "
        f"(residual) | {darcy['splu_residual']:.1e} (residual) |",
        "",
    ]


def _time_lines(title: str, result: Mapping[str, Mapping[str, float]]) -> list[str]:
    lines = [
        f"## {title}",
        "",
        "| network | real parameters | step | step / nFNO | straight / step | forward | "
        "forward / nFNO | frozen | frozen / nFNO |",
        "|---|---|---|---|---|---|---|---|---|",
    ]
    reference = {key: result[key].get(REFERENCE) for key in ("step", "forward")}
    for name, seconds in result["step"].items():
        forward, frozen = result["forward"][name], result["frozen"][name]
        lines.append(
            f"| {name} | {result['parameters'][name]:,} | {seconds:.3f} s | "
            f"{_ratio(seconds, reference['step'])} | "
            f"{_ratio(result['step'].get(STRAIGHT), seconds)} | {forward:.3f} s | "
            f"{_ratio(forward, reference['forward'])} | {frozen:.3f} s | "
            f"{_ratio(frozen, reference['forward'])} |"
        )
    return [*lines, ""]


def _memory_lines(results: Mapping[str, Any]) -> list[str]:
    lines = ["## Peak memory of a training step over the process before it", ""]
    lines += ["| what | MB |", "|---|---|"]
    for title, result in results.items():
        if isinstance(result, Mapping) and "bytes" in result:
            lines.append(
                f"| {title.removeprefix('memory | ')} | {result['bytes'] / MEGABYTE:.0f} |"
            )
    return [*lines, ""]


def _ratio(value: float | None, reference: float | None) -> str:
    return "-" if value is None or reference is None else f"{value / reference:.2f}"


def plot_scaling(scaling: Mapping[str, Any]) -> "Figure":
    """Seconds of a training step against grid points, modes, channels, batch and rollout steps."""
    from matplotlib.figure import Figure

    with figure_style():
        curves = scaling["curves"]
        figure = Figure(figsize=(2.6 * len(curves), 3.0))
        panels = figure.subplots(1, len(curves), sharey=True)
        for axes, (axis, curve) in zip(panels, curves.items(), strict=True):
            values = curve["values"]
            for name, seconds in curve["seconds"].items():
                axes.loglog(values, seconds, marker="o", markersize=3, label=name)
            axes.set_xlabel("grid points per axis" if axis == "resolution" else axis)
            axes.set_xticks(values, [str(value) for value in values])
            axes.minorticks_off()
        panels[0].set_ylabel("seconds per training step")
        panels[0].legend()
        base = ", ".join(f"{key} {value}" for key, value in scaling["base"].items())
        figure.suptitle(f"Cost of a training step, one thread; base: {base}")
        return figure
