"""What the compiler makes of the GPU kernels, without a GPU: registers and memory of each."""

import inspect
import re
import subprocess
import tempfile
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import torch

from pdno.operators import triton as backend
from pdno.spectral.grid import kept_per_axis

CASES: dict[str, tuple[tuple[int, ...], int, int, int]] = {
    "1024, 16 modes": ((1024,), 16, 20, 64),
    "64 x 64, 12 modes": ((64, 64), 12, 20, 20),
    "32 x 32 x 32, 8 modes": ((32, 32, 32), 8, 4, 20),
}
"""Grid, kept modes, batch and width of the operators that `compile_report` compiles."""

KERNELS = ("forward", "space_gradient", "analyse", "reduce")
"""What is computed; the first two are one kernel with samples and inputs exchanged."""

TARGETS = (80, 90)
"""Compute capabilities of the GPUs it compiles for: A100 and H100."""


@dataclass(frozen=True)
class KernelReport:
    """What a compiled kernel takes of a GPU.

    Arguments:
        case: The operator, a name of `CASES`.
        kernel: What it computes, of `KERNELS`.
        target: The GPU, as "sm_80".
        warps: Groups of 32 threads per program.
        registers: Per thread, of at most 255.
        spills: Bytes per thread that did not fit the registers.
        shared: Bytes of shared memory per program.
        tensor_cores: How many instructions round to their shorter formats.
        atomics: How many instructions add in an order that may change.
    """

    case: str
    kernel: str
    target: str
    warps: int
    registers: int
    spills: int
    shared: int
    tensor_cores: int
    atomics: int


def compile_report(targets: Sequence[int] = TARGETS) -> list[KernelReport]:
    """Compile every kernel for GPUs that need not be there."""
    return [
        _compiled(case, name, launch, target)
        for case in CASES
        for target in targets
        for name, launch in zip(KERNELS, launches(*CASES[case]), strict=True)
    ]


def launches(
    shape: tuple[int, ...], modes: int, samples: int, width: int
) -> list[backend._Launch]:
    """The launches of a forward and a backward pass on tensors without memory."""
    kept = kept_per_axis(shape, modes)
    spectrum = (*(2 * modes for _ in shape[:-1]), modes)
    c = torch.empty(width, width, *spectrum, dtype=torch.complex64, device="meta")
    b = torch.empty(width, width, *shape, device="meta")
    f_hat = torch.empty(samples, width, *spectrum, dtype=torch.complex64, device="meta")
    grad = torch.empty(samples, width, *shape, device="meta")
    layer = backend._Layer(c, b, f_hat, shape, kept)
    back = layer.frequency_gradients(grad, c, f_hat)
    analyse, reduce, *_ = back
    return [layer.forward(grad), layer.space_gradient(grad, b), analyse, reduce]


def _specialised(operand, path):
    """What Triton compiles for an operand of a launch: its type, constants and alignments.

    It compiles anew for sizes of 1 and for multiples of 16; tuples are taken apart.
    """
    if isinstance(operand, tuple):
        parts = [_specialised(part, (*path, place)) for place, part in enumerate(operand)]
        kinds, constants, aligned = zip(*parts, strict=True)
        return kinds, _merged(constants), _merged(aligned)
    if isinstance(operand, int) and operand == 1:
        return "constexpr", {path: 1}, {}
    whole = not isinstance(operand, int) or operand % 16 == 0
    kind = "i32" if isinstance(operand, int) else "*fp32"
    return kind, {}, {path: [["tt.divisibility", 16]]} if whole else {}


def _merged(parts):
    return {key: value for part in parts for key, value in part.items()}


def _compiled(case, name, launch, target):
    signature, constants, aligned = {}, {}, {}
    for place, operand in enumerate(inspect.signature(launch.kernel.fn).parameters):
        if operand == "tiles":
            signature[operand], constants[(place,)] = "constexpr", launch.tiles
            continue
        signature[operand], ones, whole = _specialised(launch.operands[operand], (place,))
        constants.update(ones)
        aligned.update(whole)
    source = backend.triton.compiler.ASTSource(launch.kernel, signature, constants, aligned)
    gpu = backend.triton.backends.compiler.GPUTarget("cuda", target, 32)
    made = backend.triton.compile(source, target=gpu, options=launch.options)
    with tempfile.TemporaryDirectory() as folder:
        binary = Path(folder, "kernel.cubin")
        binary.write_bytes(made.asm["cubin"])
        tool = backend.triton.knobs.nvidia.cuobjdump.path
        command = [tool, "--dump-resource-usage", str(binary)]
        usage = subprocess.run(command, check=True, capture_output=True, text=True).stdout
    taken = {name: int(number) for name, number in re.findall(r"(REG|STACK|LOCAL):(\d+)", usage)}
    return KernelReport(
        case=case,
        kernel=name,
        target=f"sm_{target}",
        warps=launch.options["num_warps"],
        registers=taken["REG"],
        spills=taken["STACK"] + taken["LOCAL"],
        shared=made.metadata.shared,
        tensor_cores=len(re.findall(r"\bw?g?mma\.", made.asm["ptx"])),
        atomics=len(re.findall(r"\b(?:atom|red)\.", made.asm["ptx"])),
    )


def format_table(reports: Sequence[KernelReport]) -> str:
    """Registers, spills and shared memory of each kernel."""
    head = ("case", "kernel", "target", "warps", "registers", "spills", "shared")
    lines = [head, ("---",) * len(head)]
    lines += [tuple(str(getattr(report, name)) for name in head) for report in reports]
    return "\n".join(f"| {' | '.join(line)} |" for line in lines)


if __name__ == "__main__":
    print(format_table(compile_report()))
