"""What converting costs, and what a network costs before it is trained: model files with random weights."""

from __future__ import annotations

import contextlib
import signal
import time
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from concurrent.futures.process import BrokenProcessPool, ProcessPoolExecutor
from dataclasses import dataclass
from multiprocessing import get_context
from pathlib import Path
from typing import Any, TypeVar

from edge.errors import InputError

Result = TypeVar("Result")

RANDOM = "random-weights"


@dataclass
class Spent:
    """Wall and processor time in seconds, and the process's peak resident memory in bytes (None: not known).

    Processor time counts all threads; on a machine with other work it is the figure that repeats.
    """

    seconds: float = 0.0
    processor: float = 0.0
    peak: int | None = None


@contextlib.contextmanager
def measured() -> Iterator[Spent]:
    """Measure a block. The peak counts what the process already held, its libraries included."""
    # Linux resets the high-water mark to the present size when asked so.
    with contextlib.suppress(OSError):
        Path("/proc/self/clear_refs").write_text("5")
    spent, start, used = Spent(), time.perf_counter(), time.process_time()
    try:
        yield spent
    finally:
        spent.seconds = time.perf_counter() - start
        spent.processor = time.process_time() - used
        spent.peak = peak_memory()


def peak_memory() -> int | None:
    """The process's largest resident memory so far in bytes (Linux's VmHWM); None elsewhere."""
    try:
        for line in Path("/proc/self/status").read_text().splitlines():
            if line.startswith("VmHWM:"):
                return int(line.split()[1]) * 1024
    except OSError:
        pass
    return None


def side_by_side(
    work: Callable[..., Result], tasks: Sequence[dict[str, Any]], jobs: int
) -> Iterator[Result | InputError]:
    """Call `work(**task)` for each task in a fresh process, `jobs` at a time; results in the tasks' order.

    A fresh process each: what one conversion leaves in memory does not add to the next one's. A task that
    cannot be done yields its error, and the others go on.
    """

    def one(task: dict[str, Any]) -> Result | InputError:
        # Ctrl-C ends it without a traceback.
        with ProcessPoolExecutor(
            1,
            mp_context=get_context("spawn"),
            initializer=signal.signal,
            initargs=(signal.SIGINT, signal.SIG_DFL),
        ) as pool:
            try:
                return pool.submit(work, **task).result()
            except InputError as error:
                return error
            except BrokenProcessPool:
                name = task.get("name", "a model")
                return InputError(
                    f"{name}: its process was killed, most likely for want of memory; give fewer --jobs"
                )

    threads = ThreadPoolExecutor(max(1, jobs))
    try:
        for future in [threads.submit(one, task) for task in tasks]:
            yield future.result()
    finally:
        # After an interruption the tasks that wait must not start.
        threads.shutdown(cancel_futures=True)


def write_untrained(
    name: str,
    data: Path,
    precisions: Sequence[str],
    folder: Path,
    per_class: int,
    check: int,
    size: int,
    seed: int,
    head: str | None = None,
) -> list[dict[str, Any]]:
    """Write model files with random weights, and measure the conversion and how well each agrees with Keras.

    Weights are drawn from `seed` and settled (`convert.architecture.settle`) on calibration photographs, so
    that the network tells photographs apart and agreement means something. The files serve to measure time
    and size; their contracts say that they were never trained.

    Args:
        check: photographs of the test part of the random split, drawn per class, to compare outputs on.
        size: pixels a side.

    Returns:
        A row for each precision: model, precision, bytes, parameters, macs, seconds, processor_seconds,
        peak_bytes, images, labels_seen (different labels Keras gave), agreement, largest_difference, and of
        the export that all precisions share export_seconds, export_processor_seconds, export_peak_bytes.

    Raises:
        InputError: unusable data or arguments.
    """
    import numpy as np

    from convert.architecture import build, multiply_accumulates, parameters, settle
    from convert.backend import keras
    from convert.dataset import index
    from convert.parity import run_model
    from convert.split import make_split
    from convert.tflite import (
        CALIBRATED,
        CALIBRATION_SEED,
        convert_graph,
        exported,
        package_versions,
        representative_photographs,
        tensors,
    )
    from convert.training import load_pictures, predict
    from edge.classifier import Classifier
    from edge.console import complain
    from edge.contract import Contract, write_model
    from edge.preprocessing import InputSpec

    dataset, spec = index(data), InputSpec(height=size, width=size)
    split = make_split("random", dataset, seed)
    drawn = representative_photographs(dataset, split, per_class)
    representative, _ = load_pictures(dataset, drawn, spec)
    keras.utils.set_random_seed(seed)
    model = build(name, len(dataset.labels), spec, head)
    settle(model, representative)
    test = representative_photographs(
        dataset, split, -(-check // len(dataset.labels)), CALIBRATION_SEED, "test"
    )
    pictures, _ = load_pictures(dataset, test, spec)
    original = predict(model, pictures, batch=8)
    rows = []
    with measured() as exporting, contextlib.ExitStack() as stack:
        graph = stack.enter_context(exported(model))
        kept = stack.pop_all()
    with kept:
        for precision in precisions:
            path = folder / f"{model.name}-{RANDOM}-{precision}.tflite"
            complain(f"{path.name}: converting")
            with measured() as converting:
                flatbuffer = convert_graph(graph, precision, representative)
            input_tensor, output_tensor = tensors(flatbuffer)
            contract = Contract(
                labels=dataset.labels,
                input=spec,
                precision=precision,
                architecture=model.name,
                parameters=parameters(model),
                macs=multiply_accumulates(model),
                input_tensor=input_tensor,
                output_tensor=output_tensor,
                calibration={
                    "images": len(drawn),
                    "per_class": per_class,
                    "seed": CALIBRATION_SEED,
                    "part": "training",
                }
                if precision in CALIBRATED
                else None,
                versions=package_versions(),
            )
            write_model(path, flatbuffer, contract)
            output = run_model(Classifier.open(path), pictures)
            rows.append(
                {
                    "model": model.name,
                    "precision": precision,
                    "bytes": len(flatbuffer),
                    "parameters": contract.parameters,
                    "macs": contract.macs,
                    "export_seconds": exporting.seconds,
                    "export_processor_seconds": exporting.processor,
                    "export_peak_bytes": exporting.peak,
                    "seconds": converting.seconds,
                    "processor_seconds": converting.processor,
                    "peak_bytes": converting.peak,
                    "images": len(pictures),
                    "labels_seen": len(set(original.argmax(axis=1).tolist())),
                    "agreement": float((output.argmax(axis=1) == original.argmax(axis=1)).mean()),
                    "largest_difference": float(np.abs(output - original).max()),
                }
            )
            complain(f"{path.name}: {len(flatbuffer):,} bytes, agreement {rows[-1]['agreement']:.4f}")
    return rows
