"""What is this? A short text about a dataset folder or a data file."""

__all__ = ["describe"]

from pathlib import Path

from pdno.data.manifest import Manifest, read_manifest


def describe(path: Path) -> str:
    """Say what a dataset folder or a published file holds."""
    if path.is_dir():
        return _describe_dataset(path, read_manifest(path))
    from pdno.data.public import describe as describe_published  # with torch, which takes time

    return describe_published(path)


def _describe_dataset(folder: Path, manifest: Manifest) -> str:
    state = "complete" if manifest.complete else f"PARTIAL, {manifest.made} samples so far"
    absent = sum(not (folder / shard.file).is_file() for shard in manifest.shards)
    if absent:
        state = f"DAMAGED, {absent} of {len(manifest.shards)} shards are missing"
    times = manifest.times
    frames = (
        "static" if times is None else f"{len(times)} frames, t = {times[0]:g} .. {times[-1]:g}"
    )
    parameters = ", ".join(f"{key}={value}" for key, value in manifest.parameters.items())
    residual = max((shard.residual for shard in manifest.shards), default=0.0)
    return "\n".join(
        [
            f"{folder}: pdno dataset, {manifest.problem}, {state}",
            f"  equation   {manifest.equation}",
            f"  scheme     {manifest.scheme}",
            f"  samples    {manifest.samples} (seed {manifest.seed}), "
            f"{len(manifest.shards)} shards",
            f"  grid       {manifest.grid.shape}, solved on {manifest.solver_grid.shape}",
            f"  fields     {manifest.fields['input']} -> {manifest.fields['output']}, {frames}, "
            f"{manifest.dtype}",
            f"  parameters {parameters}",
            f"  residual   {residual:.1e} at most",
        ]
    )
