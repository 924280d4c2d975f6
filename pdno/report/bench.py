"""Tables and the scaling plot of `pdno bench`, from its results alone."""

__all__ = ["bench_tables", "plot_scaling"]

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

from pdno.report.style import figure_style

if TYPE_CHECKING:
    from matplotlib.figure import Figure

REFERENCE = "neuraloperator FNO"
STRAIGHT = "straight a(x,xi)"
SPACE_AND_FREQUENCY, FREQUENCY = "PDNO a(x,xi)", "PDNO a(xi)"
ROUGH = "PDNO a(x,xi), rough a1"
MEGABYTE = 2**20


def bench_tables(results: Mapping[str, Any]) -> str:
    """Markdown tables of what was measured: asked ratios first, then seconds, memory, solvers."""
    settings = results.get("settings", {})
    lines = ["# Benchmark", "", f"Machine: {results['machine']}", ""]
    if settings:
        lines += _asked_lines(settings)
    if "rollout" in results:
        lines += _rollout_lines(results["rollout"])
    for setting in settings.values():
        lines += _time_lines(f"{setting['title']}, tuned allocator, 1 thread", setting["times"])
    for title, times in results.get("variants", {}).items():
        lines += _time_lines(title, times)
    lines += _memory_lines(settings, results.get("rollout memory", {}))
    if "solvers" in results:
        lines += _solver_lines(results["solvers"])
    return "\n".join(lines) + "\n"


def _asked_lines(settings: Mapping[str, Mapping[str, Any]]) -> list[str]:
    lines = [
        "## A training step over that of the neuraloperator FNO (nFNO), tuned allocator, 1 thread",
        "",
        "✗ marks a ratio above the asked one. A rough a1 has first weights eight times larger.",
        "",
        "| setting | a(x,ξ) / nFNO | asked | a(ξ) / nFNO | asked | memory a(x,ξ) / nFNO | "
        "memory a(ξ) / nFNO |",
        "|---|---|---|---|---|---|---|",
    ]
    for setting in settings.values():
        step, asked, memory = setting["times"]["step"], setting["asked"], setting["memory"]
        cells = [setting["title"]]
        for name in (SPACE_AND_FREQUENCY, FREQUENCY):
            cells += _judged(step[name], step.get(REFERENCE), asked[name])
        cells += [_memory_ratio(memory, name) for name in (SPACE_AND_FREQUENCY, FREQUENCY)]
        lines.append(_row(cells))
        if ROUGH in step:
            ratio = _ratio(step[ROUGH], step.get(REFERENCE), digits=3)
            lines.append(_row([f"{setting['title']}, rough a1", ratio, *["-"] * 5]))
    return [*lines, ""]


def _rollout_lines(rollouts: Mapping[str, Mapping[str, Any]]) -> list[str]:
    lines = [
        "## A rollout of ten frames without gradients, frozen, 64x64, k 12, width 20, 1 thread",
        "",
        "| batch | network | seconds | / nFNO | asked |",
        "|---|---|---|---|---|",
    ]
    for batch, rollout in rollouts.items():
        times = rollout["times"]
        for name, seconds in times.items():
            limit = None if name == REFERENCE else rollout["asked"]
            judged = _judged(seconds, times.get(REFERENCE), limit)
            lines.append(_row([batch, name, f"{seconds:.4f} s", *judged]))
    return [*lines, ""]


def _judged(value: float, reference: float | None, limit: float | None) -> list[str]:
    """The ratio, marked where it is above the asked one, and the asked one."""
    ratio = _ratio(value, reference, digits=3)
    asked = "-" if limit is None else f"{limit:.2f}"
    if reference is not None and limit is not None and value / reference > limit:
        ratio += " ✗"
    return [ratio, asked]


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
        cells = [
            name,
            f"{result['parameters'][name]:,}",
            f"{seconds:.4f} s",
            _ratio(seconds, reference["step"]),
            _ratio(result["step"].get(STRAIGHT), seconds),
            f"{forward:.4f} s",
            _ratio(forward, reference["forward"]),
            f"{frozen:.4f} s",
            _ratio(frozen, reference["forward"]),
        ]
        lines.append(_row(cells))
    return [*lines, ""]


def _memory_lines(
    settings: Mapping[str, Mapping[str, Any]], rollouts: Mapping[str, Mapping[str, int]]
) -> list[str]:
    if not settings and not rollouts:
        return []
    lines = ["## Peak memory of a training step over the process before it", ""]
    lines += ["| setting | what | MB | / nFNO |", "|---|---|---|---|"]
    for setting in settings.values():
        memory = setting["memory"]
        for name, measured in memory.items():
            size = f"{measured['bytes'] / MEGABYTE:.0f}"
            lines.append(_row([setting["title"], name, size, _memory_ratio(memory, name)]))
    for title, measured in rollouts.items():
        lines.append(_row(["rollout", title, f"{measured['bytes'] / MEGABYTE:.0f}", "-"]))
    return [*lines, ""]


def _memory_ratio(memory: Mapping[str, Mapping[str, int]], name: str) -> str:
    sizes = [memory[key]["bytes"] if key in memory else None for key in (name, REFERENCE)]
    return _ratio(*sizes)


def _ratio(value: float | None, reference: float | None, *, digits: int = 2) -> str:
    return "-" if value is None or not reference else f"{value / reference:.{digits}f}"


def _row(cells: Sequence[str]) -> str:
    return f"| {' | '.join(cells)} |"


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
