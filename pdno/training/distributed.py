"""Training in several processes with torch.distributed, started by `torchrun`.

Each process takes its share of every batch, and the gradient is the sum of all shares.
"""

import contextlib
import gc
import itertools
import os
import time
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import torch
from torch import Tensor, distributed

from pdno.interface.errors import LONGEST_MESSAGE

SETTLE_SECONDS = 0.2
_GROUPS = itertools.count()


@dataclass(frozen=True)
class ProcessGroup:
    """The processes of a run: number of this one, how many there are, its device."""

    rank: int
    size: int
    device: torch.device

    @property
    def is_rank_0(self) -> bool:
        return self.rank == 0

    def share(self, items: Sequence[int]) -> list[int]:
        return list(items[self.rank :: self.size])

    def all_reduce(self, numbers: Tensor) -> Tensor:
        if self.size > 1:
            numbers = numbers.to(self.device)
            distributed.all_reduce(numbers)
        return numbers

    def sum(self, numbers: Sequence[float]) -> list[float]:
        return [*map(float, self.all_reduce(torch.tensor(numbers, dtype=torch.float64)))]

    def barrier(self) -> None:
        if self.size > 1:
            distributed.barrier()


@contextlib.contextmanager
def process_group(device: torch.device | str | None = None) -> Iterator[ProcessGroup]:
    """Join the processes that torchrun started; the device None is CUDA where there is one."""
    size = int(os.environ.get("WORLD_SIZE", "1"))
    chosen = check_device(device or ("cuda" if torch.cuda.is_available() else "cpu"))
    if str(chosen) == "cuda":
        chosen = torch.device("cuda", int(os.environ.get("LOCAL_RANK", "0")))
    if size == 1 or distributed.is_initialized():
        yield ProcessGroup(0 if size == 1 else distributed.get_rank(), size, chosen)
        return
    from torch.distributed.distributed_c10d import PrefixStore
    from torch.distributed.rendezvous import rendezvous

    store, rank, size = next(rendezvous("env://"))
    # the store remembers the group of an earlier run in these processes, and would wait for it
    fresh = PrefixStore(f"pdno-{next(_GROUPS)}", store)
    backend = "nccl" if chosen.type == "cuda" else "gloo"
    distributed.init_process_group(backend, store=fresh, rank=rank, world_size=size)
    try:
        yield ProcessGroup(rank, size, chosen)
        # a group that is torn down while others still use it aborts the process
        distributed.barrier()
    finally:
        gc.collect()
        # threads of the group let go of the last numbers only while this one waits: a group that
        # ends before that waits for them for ever
        time.sleep(SETTLE_SECONDS)
        distributed.destroy_process_group()


def check_device(device: torch.device | str) -> torch.device:
    """The device, if this machine has it; ValueError if not."""
    try:
        chosen = torch.device(device)
        torch.ones(1, device=chosen).cpu()
    except Exception as error:  # each kind of device that is not there stumbles its own way
        cause = str(error).splitlines()[0][:LONGEST_MESSAGE]
        problem = f"device {str(device)!r}: torch cannot compute on it here ({cause})"
        raise ValueError(f"{problem}; take cpu, or see `pdno info`") from error
    return chosen
