"""Time of each operator of a network, from the profiler of LiteRT's C interface.

Of the runtimes this kit opens only ai-edge-litert has a profiler that can be reached, and not through its Python
interpreter: `libLiteRt.so` offers `LiteRtCompiledModelGetProfiler` and `LiteRtGetProfileSummary`. They are called
through ctypes in a process of their own, so that a release with another binary interface can end that process and
no more. The profiled network must give the interpreter's output for the same picture, else the profile is refused.
Profiling costs time: the sum of the operators may exceed an invoke that is not profiled.
"""

from __future__ import annotations

import ctypes
import importlib.util
import json
import re
import sys
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np

from bench.fresh_process import ProcessError, ask
from bench.machine import Reading, known, missing

RUNS, WARM_UPS = 20, 3
"""Profiled inferences, if they take no more than `SECONDS`; and those before them."""

SECONDS = 10.0

_TIMEOUT = 300
_PROGRAM = "from bench.operator_profile import child; child()"
_ROW = re.compile(
    r"^\s*(?P<operator>\S.*?)\s+[\d.]+\s+[\d.]+\s+(?P<ms>[\d.]+)\s+[\d.]+%\s+[\d.]+%\s+[\d.]+\s+(?P<times>\d+)\s+"
    r"\[(?P<part>[^\]]*)\]:(?P<index>\d+)\s*$"
)


def operator_profile(
    model: Path, picture: Path, runtime: str, version: str, threads: int, xnnpack: bool
) -> Reading:
    """Profile the operators of a model file.

    Args:
        model: the model file.
        picture: a readable picture.
        runtime, version: the runtime that was measured.
        threads: of one inference.
        xnnpack: whether operators are delegated to XNNPACK.

    Returns:
        Operators in the order in which they run: {"operator", "part" ("Builtin" or "Delegate"), "ms" (mean of one
        inference), "share" (of the sum)}; or None and the reason.
    """
    if runtime != "ai-edge-litert":
        return missing(f"{runtime} {version} offers Python no per-operator times")
    request = {
        "model": str(model.resolve()),
        "picture": str(picture.resolve()),
        "threads": threads,
        "xnnpack": xnnpack,
    }
    try:
        answer = ask(_PROGRAM, request, _TIMEOUT)
    except ProcessError as failure:
        return missing(f"the profiler of {runtime} {version} failed ({failure})")
    operators = parse_summary(answer["summary"])
    if not operators:
        return missing(f"the profile of {runtime} {version} has an unknown form")
    return known(
        operators, f"LiteRtGetProfileSummary of {runtime} {version}, mean of up to {RUNS} inferences"
    )


def parse_summary(text: str) -> list[dict[str, Any]]:
    """The operators in the "Run Order" table of LiteRtGetProfileSummary's text; see `operator_profile`."""
    operators: list[dict[str, Any]] = []
    inside = False
    for line in text.splitlines():
        if line.startswith("="):
            if inside:
                break
            inside = "Run Order" in line
        found = _ROW.match(line) if inside else None
        if found is not None:
            operators.append({"operator": found["operator"], "part": found["part"], "ms": float(found["ms"])})
    total = sum(operator["ms"] for operator in operators)
    for operator in operators:
        operator["share"] = operator["ms"] / total if total else 0.0
    return operators


def by_kind(operators: Sequence[dict[str, Any]]) -> list[tuple[str, int, float, float]]:
    """Kinds of operators with their number, milliseconds of one inference and share, the slowest first."""
    kinds: dict[str, tuple[int, float, float]] = {}
    for operator in operators:
        count, ms, share = kinds.get(operator["operator"], (0, 0.0, 0.0))
        kinds[operator["operator"]] = (count + 1, ms + operator["ms"], share + operator["share"])
    rows = [(name, *values) for name, values in kinds.items()]
    return sorted(rows, key=lambda row: -row[2])


def child() -> None:
    """What the process of its own does: profile, compare the output with the interpreter's, print a line of JSON."""
    request = json.loads(sys.argv[1])
    from edge.classifier import Classifier
    from edge.preprocessing import fit, read_photograph

    classifier = Classifier.open(request["model"], "ai-edge-litert", request["threads"], request["xnnpack"])
    spec = classifier.contract.input
    tensor = classifier.quantise(fit(read_photograph(request["picture"], spec.exif), spec))
    expected = classifier.invoke(tensor)
    output, summary = _profile(
        classifier.model.flatbuffer, tensor, expected, request["threads"], request["xnnpack"]
    )
    step = classifier.contract.output_tensor.scale or 1e-4
    scale = step if classifier.contract.output_tensor.scale else 1.0
    largest = float(np.abs(output.astype(np.float64) - expected.astype(np.float64)).max()) * scale
    if largest > 1.5 * step:
        sys.exit(f"its output differs from the interpreter's by {largest:.3g}")
    print(json.dumps({"summary": summary}))


def _profile(flatbuffer: bytes, tensor: Any, expected: Any, threads: int, xnnpack: bool) -> tuple[Any, str]:
    spec = importlib.util.find_spec("ai_edge_litert")
    assert spec is not None
    assert spec.origin is not None
    library = ctypes.CDLL(str(Path(spec.origin).parent / "libLiteRt.so"))
    libc = ctypes.CDLL(None)
    libc.strdup.restype = ctypes.c_void_p
    handle, size, pointer = ctypes.c_void_p, ctypes.c_size_t, ctypes.byref

    def call(name: str, *arguments: Any) -> None:
        status = getattr(library, name)(*arguments)
        if status != 0:
            sys.exit(f"{name} returned {status}")

    environment, model, options = handle(), handle(), handle()
    call("LiteRtCreateEnvironment", 0, None, pointer(environment))
    data = ctypes.create_string_buffer(flatbuffer, len(flatbuffer))
    call("LiteRtCreateModelFromBuffer", environment, data, size(len(flatbuffer)), pointer(model))
    call("LiteRtCreateOptions", pointer(options))
    processor = 1
    call("LiteRtSetOptionsHardwareAccelerators", options, processor)
    builtin = 2
    settings = {
        b"runtime_options_string": "enable_profiling = true\n",
        b"xnnpack": f"num_threads = {threads}\n" + ("" if xnnpack else f"kernel_mode = {builtin}\n"),
    }
    for identifier, text in settings.items():
        opaque = handle()
        # The runtime takes the text over and frees it with the function that stands beside it.
        payload = handle(libc.strdup(text.encode()))
        call(
            "LiteRtCreateOpaqueOptions", identifier, payload, ctypes.cast(libc.free, handle), pointer(opaque)
        )
        call("LiteRtAddOpaqueOptions", options, opaque)
    compiled, signature = handle(), handle()
    call("LiteRtCreateCompiledModel", environment, model, options, pointer(compiled))
    call("LiteRtGetModelSignature", model, size(0), pointer(signature))

    def buffer(side: str, array: Any) -> ctypes.c_void_p:
        found, requirements, made = handle(), handle(), handle()
        call(f"LiteRtGetSignature{side}TensorByIndex", signature, size(0), pointer(found))
        # Element type, rank, then up to eight dimensions (32-bit); an open batch dimension is -1.
        kind = (ctypes.c_int32 * 64)()
        call("LiteRtGetRankedTensorType", found, kind)
        for place, length in enumerate(array.shape):
            kind[2 + place] = length
        call(
            f"LiteRtGetCompiledModel{side}BufferRequirements",
            compiled,
            size(0),
            size(0),
            pointer(requirements),
        )
        call(
            "LiteRtCreateManagedTensorBufferFromRequirements", environment, kind, requirements, pointer(made)
        )
        return made

    def with_memory(made: ctypes.c_void_p, mode: int, use: Any) -> None:
        address = handle()
        call("LiteRtLockTensorBuffer", made, pointer(address), mode)
        use(address)
        call("LiteRtUnlockTensorBuffer", made)

    read, write = 0, 1
    source, target = buffer("Input", tensor), buffer("Output", expected)
    values = np.ascontiguousarray(tensor)
    with_memory(source, write, lambda address: ctypes.memmove(address, values.ctypes.data, values.nbytes))
    inputs, outputs = (handle * 1)(source), (handle * 1)(target)

    def infer() -> None:
        call("LiteRtRunCompiledModel", compiled, size(0), size(1), inputs, size(1), outputs)

    profiler, report = handle(), ctypes.c_char_p()
    call("LiteRtCompiledModelGetProfiler", compiled, pointer(profiler))
    for _ in range(WARM_UPS):
        infer()
    call("LiteRtStartProfiler", profiler)
    start = time.perf_counter()
    for _ in range(RUNS):
        infer()
        if time.perf_counter() - start > SECONDS:
            break
    call("LiteRtStopProfiler", profiler)
    call("LiteRtGetProfileSummary", profiler, compiled, pointer(report))
    output = np.empty_like(expected)
    with_memory(target, read, lambda address: ctypes.memmove(output.ctypes.data, address, output.nbytes))
    return output, (report.value or b"").decode(errors="replace")
