"""Running units of work: in this process, in several, or on a Dask cluster; the same results from each."""

from __future__ import annotations

import itertools
import signal
from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import FIRST_COMPLETED, Future, ProcessPoolExecutor, wait
from concurrent.futures.process import BrokenProcessPool
from multiprocessing import get_context
from typing import Any, TypeVar

from edge.errors import InputError

Task = TypeVar("Task")
Result = TypeVar("Result")

_AHEAD = 4  # tasks in flight for each worker: enough to keep it busy, few enough to hold
_RETRIES = 3


def run_here(work: Callable[[Task], Result], tasks: Iterable[Task]) -> Iterator[tuple[Task, Result]]:
    """Each task with its result, one after the other."""
    for task in tasks:
        yield task, work(task)


def run_processes(
    work: Callable[[Task], Result], tasks: Iterable[Task], jobs: int
) -> Iterator[tuple[Task, Result]]:
    """Each task with its result, as they come, from `jobs` processes.

    Raises:
        InputError: a process was killed, for example because memory ran out; or what `work` raised.
    """
    # Fresh processes: a forked one would inherit the threads of the runtime in an unknown state.
    # Ctrl-C ends them without a traceback beside the one line of the command.
    pool = ProcessPoolExecutor(
        jobs,
        mp_context=get_context("spawn"),
        initializer=signal.signal,
        initargs=(signal.SIGINT, signal.SIG_DFL),
    )
    waiting = iter(tasks)
    try:
        running: dict[Future[Result], Task] = {
            pool.submit(work, task): task for task in itertools.islice(waiting, _AHEAD * jobs)
        }
        while running:
            done, _ = wait(running, return_when=FIRST_COMPLETED)
            for future in done:
                task = running.pop(future)
                result = future.result()
                for following in itertools.islice(waiting, 1):
                    running[pool.submit(work, following)] = following
                yield task, result
    except BrokenProcessPool:
        raise InputError(
            "a worker process was killed, perhaps for want of memory; run the same command again to go on, with a"
            " smaller -j"
        ) from None
    finally:
        pool.shutdown(wait=True, cancel_futures=True)


def run_cluster(
    work: Callable[[Task], Result], tasks: Iterable[Task], address: str, name: Callable[[Task], str]
) -> Iterator[tuple[Task, Result]]:
    """Each task with its result, as they come, from the workers of a Dask `distributed` scheduler.

    Tasks of a lost worker are given to another one. Every worker needs this package in the same version, and the
    files that the tasks name under the same paths.

    Args:
        work, tasks: as above; both travel to the workers.
        address: of the scheduler, for example tcp://10.0.0.2:8786.
        name: a key for each task, the same for the same work.

    Raises:
        InputError: distributed is not installed, the scheduler does not answer, it has no worker, workers were lost
            again and again; or what `work` raised.
    """
    try:
        from distributed import Client, as_completed
    except ModuleNotFoundError:
        raise InputError(
            "distributed is not installed; install it with: pip install 'mango-leaf-kit[dask]'"
        ) from None
    try:
        client: Any = Client(address, timeout="10s", set_as_default=False)
    # A wrong address raises ValueError, OSError, TypeError or TimeoutError, by the way in which it is wrong.
    except Exception as error:
        cause = " ".join(str(error).split())[:150] or type(error).__name__
        raise InputError(f"no Dask scheduler answers at {address} ({cause})") from None
    try:
        try:
            client.wait_for_workers(1, timeout=30)
        except TimeoutError:
            raise InputError(
                f"the Dask scheduler at {address} has no worker; start one with: dask worker {address}"
            ) from None
        workers = max(1, sum(client.nthreads().values()))
        waiting = iter(tasks)
        by_key: dict[str, Task] = {}

        def submit(task: Task) -> Any:
            key = name(task)
            by_key[key] = task
            return client.submit(work, task, key=key, retries=_RETRIES, pure=True)

        first = [submit(task) for task in itertools.islice(waiting, _AHEAD * workers)]
        running = as_completed(first, loop=client.loop)
        for future in running:
            try:
                result = future.result()
            except InputError:
                raise
            except Exception as error:
                cause = " ".join(str(error).split())[:200] or type(error).__name__
                raise InputError(
                    f"the Dask cluster at {address} could not finish its work: {cause}"
                ) from None
            for following in itertools.islice(waiting, 1):
                running.add(submit(following))
            yield by_key.pop(future.key), result
    finally:
        client.close()
