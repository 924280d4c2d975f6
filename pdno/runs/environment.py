"""Versions, threads and backends of this machine: torch, compiled kernels, triton and cuda."""

import json
import os
import platform
import subprocess
from dataclasses import asdict
from importlib import import_module
from importlib.metadata import version
from pathlib import Path

import numpy as np
import torch

from pdno.native import allocator_state
from pdno.native.build import status


def describe_environment() -> dict[str, object]:
    """Versions, threads and backends of this process, as JSON can hold them."""
    native = status()
    try:
        triton = {"available": True, "reason": f"triton {import_module('triton').__version__}"}
    except ImportError as problem:
        triton = {"available": False, "reason": str(problem)}
    cuda = torch.cuda.is_available()
    why = "no GPU that it can use" if torch.version.cuda else "this torch was built without CUDA"
    return {
        "pdno": version("pdno"),
        "python": platform.python_version(),
        "torch": torch.__version__,
        "numpy": np.__version__,
        "machine": f"{platform.system()} {platform.machine()}",
        "cores": os.cpu_count(),
        "threads": torch.get_num_threads(),
        "cpu_capability": torch.backends.cpu.get_cpu_capability(),
        "allocator": allocator_state(),
        "backends": {
            "reference": {"available": True, "reason": f"torch {torch.__version__}"},
            "native": {**asdict(native), "path": native.path and str(native.path)},
            "triton": triton,
            "cuda": {"available": cuda, "reason": torch.cuda.get_device_name() if cuda else why},
        },
    }


def run_environment(device: torch.device, processes: int) -> dict[str, object]:
    """Environment.json of a run folder."""
    return {
        "pdno": version("pdno"),
        "commit": _commit(),
        "torch": torch.__version__,
        "python": platform.python_version(),
        "machine": platform.machine(),
        "device": str(device),
        "processes": processes,
        "threads": torch.get_num_threads(),
        "allocator": allocator_state(),
        "native": str(status()),
    }


def _commit() -> str | None:
    """The commit of the clone that this package is run from; None where it was installed."""
    root = Path(__file__).resolve().parents[2]
    if not (root / ".git").exists():
        return None
    command = ["git", "-C", str(root), "describe", "--always", "--dirty", "--abbrev=7"]
    try:
        described = subprocess.run(command, capture_output=True, text=True, timeout=10, check=True)
    except (OSError, subprocess.SubprocessError):  # no git, or a clone that it does not trust
        return None
    return described.stdout.strip() or None


def show_environment(*, as_json: bool = False) -> str:
    """The environment as text, for a reader or as JSON."""
    environment = describe_environment()
    if as_json:
        return json.dumps(environment, indent=2)
    backends = environment.pop("backends")
    assert isinstance(backends, dict)
    lines = [f"{name.replace('_', ' '):18}{value}" for name, value in environment.items()]
    for name, backend in backends.items():
        lines.append(f"{name:18}{'available' if backend.pop('available') else 'not available'}")
        lines += [
            f"  {key.replace('_', ' '):16}{value}" for key, value in backend.items() if value
        ]
    return "\n".join(lines)
