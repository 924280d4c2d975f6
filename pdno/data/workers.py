"""Worker processes that end with their parent, however it ends.

Each worker watches one end of a pipe whose other end only the parent holds. When the parent closes
it, or dies and the system closes it, every worker ends at once. torch is not imported here, so
that a worker watches before the slow part of its start.
"""

__all__ = ["worker_pool"]

import contextlib
import multiprocessing
import os
import signal
import threading
from collections.abc import Iterator
from concurrent.futures import ProcessPoolExecutor
from concurrent.futures.process import BrokenProcessPool
from multiprocessing.connection import Connection


@contextlib.contextmanager
def worker_pool(count: int) -> Iterator[ProcessPoolExecutor]:
    """A pool of processes; when the block fails, they are ended and not waited for."""
    context = multiprocessing.get_context("spawn")
    watched, held = context.Pipe(duplex=False)
    pool = ProcessPoolExecutor(
        count, mp_context=context, initializer=_follow_parent, initargs=(watched,)
    )
    try:
        yield pool
    except BrokenProcessPool as error:
        raise ValueError(
            "a worker process died: run the same command again to go on, with fewer workers if "
            "the memory was short; a script must start its work below "
            "`if __name__ == '__main__':`"
        ) from error
    except BaseException:
        held.close()
        raise
    finally:
        pool.shutdown(wait=True, cancel_futures=True)
        held.close()
        watched.close()


def _follow_parent(watched: Connection) -> None:
    """End this worker when the other end of the pipe is closed; leave Ctrl-C to the parent."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)

    def watch() -> None:
        with contextlib.suppress(OSError):
            watched.poll(None)
        os._exit(1)

    threading.Thread(target=watch, daemon=True).start()
