"""Section on latency: how fast each model is on each machine, where the time goes, and what the machine was like."""

from __future__ import annotations

import csv
import io
import math
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

import numpy as np

from bench.latency import STAGES
from bench.machine import board_name
from bench.operator_profile import by_kind
from bench.plot import MARKERS, PALETTE, new_figure, plain_numbers, to_svg
from bench.result import Entry, pictures_text
from bench.sample import CONFIDENCE, Interval, end_to_end, p90_interval, percentile
from bench.section import Cell, Figure, Section, Table
from edge.thermal import THROTTLE_BITS

_STEPS = ("interpreter", "import", "load", "allocate", "prepare", "first invoke", "answer")

_LINES = ("-", "--", "-.", ":")


def section(entries: Sequence[Entry]) -> Section:
    """Tables and drawings of all latency entries, and every warning."""
    labels = _labels(entries)
    tables = [
        _times(entries),
        _boards(entries),
        _stage_table(entries, labels),
        _operators(entries, labels),
        _cold_starts(entries, labels),
        _peer(entries, labels),
        _machines(entries),
        _states(entries, labels),
    ]
    figures = [
        _distribution(entries, labels),
        _stage_bars(entries, labels),
        _thread_lines(entries),
        *(_soak(entry, label) for entry, label in zip(entries, labels, strict=True) if entry.body["soak"]),
    ]
    return Section(
        title="Latency",
        anchor="latency",
        paragraphs=tuple(_explanations(entries)),
        tables=tuple(table for table in tables if table is not None),
        figures=tuple(figure for figure in figures if figure is not None),
        warnings=tuple(_warnings(entries, labels)),
    )


def _labels(entries: Sequence[Entry]) -> list[str]:
    """A short name for each entry: the model, and of the rest what differs between the entries."""
    parts = []
    for entry in entries:
        body = entry.body
        parts.append(
            (
                str((entry.model or {}).get("name")),
                board_name(entry.machine or {}),
                f"{body['runtime']['name']} {body['runtime']['version']}",
                f"{body['threads']} thread" + ("s" if body["threads"] > 1 else ""),
                "XNNPACK" if body["xnnpack"] else "no XNNPACK",
                pictures_text(entry.data),
            )
        )
    varies = [len(set(column)) > 1 for column in zip(*parts, strict=True)]
    varies[0] = True
    return [", ".join(part for part, kept in zip(row, varies, strict=True) if kept) for row in parts]


def _explanations(entries: Sequence[Entry]) -> Iterable[str]:
    yield (
        "One picture after the other goes from file to label. The end-to-end time is the sum of the stages, each"
        " timed by itself; percentiles are observed times, and the interval of the p90 (by order statistics)"
        f" supposes nothing about their distribution but independence. It is made at {CONFIDENCE:.0%}, because counting"
        " ends when it is narrow: so it holds the true p90 in at least 95 of 100 runs (simulated). Queries before the"
        " running median came to rest are not counted. Reading is from the page cache."
    )
    sources = {(entry.data or {}).get("source") for entry in entries}
    if "drawn leaves" in sources:
        yield (
            "Some or all of these times were taken with drawn leaves; decoding a photograph of another size or"
            " format takes another time, the network does not."
        )
    if len({pictures_text(entry.data) for entry in entries}) > 1:
        yield (
            "Not all runs went round the same pictures. Larger ones take longer to read and decode: compare times from"
            " file to label only between runs on the same pictures."
        )
    share = max(
        entry.body["harness"]["timed_p50_us"] / 1e3 / entry.body["end_to_end"]["p50"] for entry in entries
    )
    costs = [entry.body["harness"] for entry in entries]
    yield (
        "The harness itself, measured with stages that do nothing, adds"
        f" {max(cost['timed_p50_us'] for cost in costs):.2f} µs to a query at most, {share:.3%} of the fastest"
        f" model's; with everything between two queries it takes"
        f" {max(cost['per_query_us'] for cost in costs):.2f} µs. The garbage collector runs before and is off while"
        " queries are timed."
    )
    readings = [entry.body["operators"] for entry in entries]
    for reason in sorted(
        {str(one["reason"]) for one in readings if one["value"] is None} - {"not asked for"}
    ):
        yield f"No operators of some or all runs: {reason}."


def _warnings(entries: Sequence[Entry], labels: Sequence[str]) -> Iterable[str]:
    """Every warning; runs that share one are named together, the worst of them with its figure."""
    found: dict[str, list[tuple[float, str, str]]] = {}

    def warn(kind: str, label: str, severity: float, text: str) -> None:
        found.setdefault(kind, []).append((severity, label, text))

    for entry, label in zip(entries, labels, strict=True):
        machine, body = entry.machine or {}, entry.body
        for reason in machine.get("suspect", ()):
            kind, _, detail = reason.partition(": ")
            load = machine.get("other_load_cores", {}).get("value") or 0.0
            warn(f"Suspect times, {kind}", label, load if kind == "busy" else 0.0, detail)
        cores = machine.get("cores", {}).get("value")
        if cores is not None and body["threads"] > cores:
            warn("More threads than cores", label, body["threads"], f"{body['threads']} on {cores}")
        width = _interval(entry).width(body["end_to_end"]["p90"])
        if body["ended"] != "precision" and width >= body["protocol"]["precision"]:
            share = f"{width:.1%} of the p90" if math.isfinite(width) else "unknown"
            warn(
                f"Ended by the {body['ended']} before the p90's interval was below {body['protocol']['precision']:.0%}",
                label,
                width,
                f"the interval is {share}",
            )
        if body["warm_up"]["ended"] != "settled":
            ended = body["warm_up"]["ended"]
            warn(f"Warm-up ended by its {ended} before the median had come to rest", label, 0.0, ended)
        if body["cold_start"].get("total_ms") is None:
            warn("No cold start", label, 0.0, body["cold_start"]["reason"])
        if body["soak"] and body["soak"]["drift"] > 1.05:
            drift = body["soak"]["drift"]
            warn("Slower at the end of the sustained run", label, drift, f"by {drift - 1:.0%}")
    for kind, members in found.items():
        _, label, text = max(members)
        if len(members) == 1:
            yield f"{kind}: {label} ({text})."
        elif len(members) == len(entries):
            yield f"{kind}: all {len(entries)} runs, at worst {label} ({text})."
        else:
            names = "; ".join(name for _, name, _ in members)
            yield f"{kind}: {len(members)} of {len(entries)} runs, at worst {label} ({text}): {names}."


def _interval(entry: Entry) -> Interval:
    """The interval of the p90 from the samples: older files state one that misses it too often."""
    return p90_interval(end_to_end(entry.body["samples"]))


def _times(entries: Sequence[Entry]) -> Table:
    rows: list[list[Cell]] = []
    for entry in entries:
        model, body = entry.model or {}, entry.body
        times, interval = body["end_to_end"], _interval(entry)
        shown = " to ".join(
            "?" if bound is None else f"{bound:.4g}" for bound in (interval.lower, interval.upper)
        )
        rows.append(
            [
                model.get("name"),
                model.get("precision"),
                board_name(entry.machine or {}),
                f"{body['runtime']['name']} {body['runtime']['version']}",
                body["threads"],
                "on" if body["xnnpack"] else "off",
                times["p50"],
                times["p90"],
                shown,
                times["p95"],
                times["p99"],
                times["minimum"],
                times["mean"],
                times["deviation"],
                body["throughput_per_s"],
                body["queries"],
                body["ended"],
                pictures_text(entry.data),
                "suspect" if (entry.machine or {}).get("suspect") else "clean",
            ]
        )
    columns = (
        "model", "precision", "board", "runtime", "threads", "XNNPACK", "p50", "p90", "p90, 95 % interval", "p95",
        "p99", "minimum", "mean", "standard deviation", "pictures/s", "queries", "ended by", "pictures", "machine",
    )  # fmt: skip
    return Table("Warm latency end to end, milliseconds", columns, rows)


def _boards(entries: Sequence[Entry]) -> Table | None:
    boards = list(dict.fromkeys(board_name(entry.machine or {}) for entry in entries))
    if len(boards) < 2:
        return None
    best: dict[tuple[str, str], dict[str, float]] = {}
    for entry in entries:
        times = best.setdefault((str((entry.model or {}).get("name")), pictures_text(entry.data)), {})
        board, p90 = board_name(entry.machine or {}), float(entry.body["end_to_end"]["p90"])
        times[board] = min(p90, times.get(board, math.inf))
    rows = [
        [name, *(times.get(board) for board in boards), pictures] for (name, pictures), times in best.items()
    ]
    note = "The fastest configuration that was measured on each, on the same pictures."
    columns = ("model", *boards, "pictures")
    return Table("Devices side by side: p90 end to end, milliseconds", columns, rows, note)


def _stage_table(entries: Sequence[Entry], labels: Sequence[str]) -> Table:
    rows = [
        [label, *(entry.body["stages"][stage]["p50"] for stage in STAGES), entry.body["end_to_end"]["p50"]]
        for entry, label in zip(entries, labels, strict=True)
    ]
    note = "Medians of each stage by itself; they need not add up to the median of the whole."
    return Table("Where the time goes: medians, milliseconds", ("run", *STAGES, "end to end"), rows, note)


def _operators(entries: Sequence[Entry], labels: Sequence[str]) -> Table | None:
    rows: list[list[Cell]] = []
    for entry, label in zip(entries, labels, strict=True):
        operators = entry.body["operators"]["value"]
        if operators is None:
            continue
        kinds = by_kind(operators)
        elsewhere = [one for one in operators if one["part"] != "Delegate"]
        cells: list[Cell] = []
        for place in range(3):
            if place < len(kinds):
                name, count, ms, share = kinds[place]
                cells += [f"{count} x {name.removeprefix('Delegate/')}", ms, share]
            else:
                cells += [None, None, None]
        rows.append(
            [
                label,
                *cells,
                sum(one["ms"] for one in operators),
                sum(one["share"] for one in elsewhere),
            ]
        )
    if not rows:
        return None
    columns = (
        "run", "slowest kind of operator", "ms", "share", "second", "ms (second)", "share (second)", "third",
        "ms (third)", "share (third)", "sum, ms", "share outside XNNPACK",
    )  # fmt: skip
    note = (
        "Means of one inference, profiled in a process of its own after the timed queries; the profiler costs time,"
        " so the sum may exceed our invoke. The result file holds every operator in order."
    )
    return Table("Operators, from the runtime's profiler", columns, rows, note)


def _cold_starts(entries: Sequence[Entry], labels: Sequence[str]) -> Table:
    rows: list[list[Cell]] = []
    for entry, label in zip(entries, labels, strict=True):
        cold = entry.body["cold_start"]
        steps = cold.get("median", {})
        peak = cold.get("peak_memory_bytes")
        rows.append(
            [
                label,
                *(steps.get(step) for step in _STEPS),
                cold.get("total_ms"),
                None if peak is None else peak / 1e6,
            ]
        )
    note = (
        "Fresh processes, each step the median of several; the files were in the page cache. Peak memory (VmHWM) is"
        " that of such a process after its first answer: inference alone, without the benchmark."
    )
    columns = ("run", *_STEPS, "total", "peak memory, MB")
    return Table("Cold start, milliseconds", columns, rows, note)


def _peer(entries: Sequence[Entry], labels: Sequence[str]) -> Table | None:
    rows: list[list[Cell]] = []
    for entry, label in zip(entries, labels, strict=True):
        peer, body = entry.body["peer"], entry.body
        if peer is None:
            continue
        ours = body["stages"]["invoke"]
        rows.append(
            [
                label,
                peer["invoke"]["count"],
                peer["invoke"]["p50"],
                peer["invoke"]["p90"],
                ours["p50"],
                ours["p90"],
                body["end_to_end"]["p50"],
                body["end_to_end"]["p90"],
                body["end_to_end"]["p50"] - peer["invoke"]["p50"],
            ]
        )
    if not rows:
        return None
    columns = (
        "run", "peer's queries", "peer's loop p50", "peer's loop p90", "our invoke p50", "our invoke p90",
        "our end to end p50", "our end to end p90", "unseen by the peer's loop",
    )  # fmt: skip
    note = (
        "The peer's way, in the same process right after ours: 10 inferences, then 400, the interpreter's invoke alone"
        " (fewer where the time ran out). Our invoke includes handing the tensors over."
    )
    return Table("The nearest public script's loop beside ours, milliseconds", columns, rows, note)


def _value(reading: Mapping[str, Any] | None) -> str:
    if reading is None:
        return "not recorded"
    value = reading["value"]
    if value is None:
        return f"– ({reading['reason']})"
    if isinstance(value, list):
        return " to ".join(f"{number:,.0f}" for number in value)
    if isinstance(value, int) and value > 10**6:
        return f"{value / 1e6:,.0f} MB"
    return str(value)


def _machines(entries: Sequence[Entry]) -> Table:
    properties = {
        "board": "board",
        "soc": "system on chip",
        "processor": "processor",
        "cores": "cores",
        "clock_limits_mhz": "clock limits, MHz",
        "memory_bytes": "memory",
        "swap_bytes": "swap",
        "kernel": "kernel",
        "os": "operating system",
        "image": "image",
        "python": "Python",
    }
    machines: dict[tuple[str, ...], str] = {}
    for entry in entries:
        machine = entry.machine or {}
        values = tuple(_value(machine.get(name)) for name in properties)
        machines.setdefault(values, board_name(machine))
    rows = [[title, *(values[row] for values in machines)] for row, title in enumerate(properties.values())]
    names = [
        f"{name} ({number})" if len(machines) > 1 else name
        for number, name in enumerate(machines.values(), 1)
    ]
    return Table(
        "Machines", ("property", *names), rows, "A dash stands where there is no sensor, with the reason."
    )


def _states(entries: Sequence[Entry], labels: Sequence[str]) -> Table:
    rows: list[list[Cell]] = []
    for entry, label in zip(entries, labels, strict=True):
        machine = entry.machine or {}
        seen = [machine.get("before", {}), *machine.get("during", ()), machine.get("after", {})]

        def over(name: str, pick: Any, seen: Sequence[Mapping[str, Any]] = seen) -> Cell:
            values = [one[name]["value"] for one in seen if name in one and one[name]["value"] is not None]
            flat = [number for value in values for number in (value if isinstance(value, list) else [value])]
            return float(pick(flat)) if flat else None

        flags = 0
        for one in seen:
            flags |= one.get("throttle_flags", {}).get("value") or 0
        known = any(one.get("throttle_flags", {}).get("value") is not None for one in seen)
        names = [name for bit, name in THROTTLE_BITS.items() if (flags | flags >> 16) >> bit & 1]
        rows.append(
            [
                label,
                _number(seen[0], "temperature_c"),
                over("temperature_c", max),
                _number(seen[-1], "temperature_c"),
                over("clock_mhz", min),
                over("clock_mhz", max),
                seen[-1].get("governor", {}).get("value"),
                (", ".join(names) or "none") if known else None,
                over("undervoltage", max),
                machine.get("other_load_cores", {}).get("value"),
                _swapped(seen),
                "; ".join([*machine.get("suspect", ()), *machine.get("notes", ())]) or "nothing to remark",
            ]
        )
    columns = (
        "run", "°C before", "°C highest", "°C after", "MHz lowest", "MHz highest", "governor", "throttling",
        "under-voltage", "other load, cores", "pages swapped", "remarks",
    )  # fmt: skip
    note = "A dash stands where the machine has no such sensor; the result file holds the reason for each."
    return Table("State of the machine before, while and after measuring", columns, rows, note)


def _number(seen: Mapping[str, Any], name: str) -> Cell:
    value = seen.get(name, {}).get("value")
    return None if value is None else float(value)


def _swapped(seen: Sequence[Mapping[str, Any]]) -> Cell:
    first, last = (seen[end].get("swapped_pages", {}).get("value") for end in (0, -1))
    return None if first is None or last is None else int(last) - int(first)


def _csv(header: Sequence[str], rows: Iterable[Sequence[Cell]]) -> str:
    buffer = io.StringIO()
    table = csv.writer(buffer, lineterminator="\n")
    table.writerow(header)
    table.writerows(rows)
    return buffer.getvalue()


def _networks(entries: Sequence[Entry]) -> dict[str, list[int]]:
    """Positions of the entries of each network, in order of appearance."""
    groups: dict[str, list[int]] = {}
    for position, entry in enumerate(entries):
        groups.setdefault(str((entry.model or {}).get("architecture")), []).append(position)
    return groups


def _distribution(entries: Sequence[Entry], labels: Sequence[str]) -> Figure:
    figure, axis = new_figure(7.0, 1.1 + 0.34 * len(entries))
    rows: list[list[Cell]] = []
    percents = range(101)
    networks = list(_networks(entries))
    for row, (entry, label) in enumerate(zip(entries, labels, strict=True)):
        whole = end_to_end(entry.body["samples"])
        values = [percentile(whole, percent) for percent in percents]
        colour = PALETTE[networks.index(str((entry.model or {}).get("architecture"))) % len(PALETTE)]
        # How often each time occurred, on the logarithmic scale of the axis.
        counts, edges = np.histogram(np.log10(whole), bins=40)
        heights = 0.8 * counts / counts.max()
        axis.fill_between(
            10**edges, row, row - np.append(heights, heights[-1]), step="post", color=colour, alpha=0.5
        )
        axis.plot([values[50]] * 2, [row - 0.8, row], color=colour, linewidth=1.5)
        interval = _interval(entry)
        axis.plot([values[90]], [row], marker="D", color=colour, markersize=4)
        if interval.lower is not None and interval.upper is not None:
            axis.plot([interval.lower, interval.upper], [row, row], color=colour, linewidth=3, alpha=0.6)
        rows += [[label, percent, value] for percent, value in zip(percents, values, strict=True)]
    axis.set_yticks(range(len(entries)), [_two_lines(label) for label in labels], fontsize=7)
    axis.set_ylim(len(entries) - 0.6, -1.0)
    axis.set_xscale("log")
    axis.set_xlabel("end to end, ms")
    plain_numbers(axis.xaxis)
    slowest = max(range(len(entries)), key=lambda position: entries[position].body["end_to_end"]["p90"])
    fastest = min(range(len(entries)), key=lambda position: entries[position].body["end_to_end"]["p90"])
    return Figure(
        title="Distribution of the end-to-end latency: how often each time occurred. The upright line is the median,"
        " the diamond the p90 with its 95 % interval as a bar; colour tells the network.",
        alternative=f"Distributions of {len(entries)} runs. Fastest by p90: {labels[fastest]},"
        f" {entries[fastest].body['end_to_end']['p90']:.1f} ms; slowest: {labels[slowest]},"
        f" {entries[slowest].body['end_to_end']['p90']:.1f} ms.",
        svg=to_svg(figure),
        csv=_csv(("run", "percent", "ms"), rows),
    )


def _two_lines(label: str) -> str:
    """A run's label with the model above and the rest below, so that it leaves room for the drawing."""
    return label.replace(", ", "\n", 1)


def _stage_bars(entries: Sequence[Entry], labels: Sequence[str]) -> Figure:
    groups = _networks(entries)
    heights = [0.7 + 0.32 * len(members) for members in groups.values()]
    figure, axes = new_figure(7.0, 0.6 + sum(heights), rows=len(groups))
    figure.axes[0].get_gridspec().set_height_ratios(heights)
    rows: list[list[Cell]] = []
    for axis, (network, members) in zip(np.atleast_1d(axes), groups.items(), strict=True):
        left = np.zeros(len(members))
        for place, stage in enumerate(STAGES):
            widths = np.array([entries[position].body["stages"][stage]["p50"] for position in members])
            axis.barh(range(len(members)), widths, left=left, color=PALETTE[place], label=stage, height=0.7)
            left += widths
        axis.set_yticks(
            range(len(members)), [_two_lines(labels[position]) for position in members], fontsize=7
        )
        axis.invert_yaxis()
        axis.set_title(network, loc="left", fontsize=10)
        axis.grid(axis="y", visible=False)
    for position, entry in enumerate(entries):
        rows += [[labels[position], stage, entry.body["stages"][stage]["p50"]] for stage in STAGES]
    first = np.atleast_1d(axes)[0]
    figure.legend(
        *first.get_legend_handles_labels(), loc="outside lower center", ncols=len(STAGES), fontsize=8
    )
    np.atleast_1d(axes)[-1].set_xlabel("median, ms")
    shares = [entry.body["stages"]["invoke"]["p50"] / entry.body["end_to_end"]["p50"] for entry in entries]
    return Figure(
        title="Where the time goes: medians of the stages, one panel a network, each with its own scale.",
        alternative=f"Stacked bars of {len(STAGES)} stages for {len(entries)} runs. The network itself takes"
        f" {min(shares):.0%} to {max(shares):.0%} of a query.",
        svg=to_svg(figure),
        csv=_csv(("run", "stage", "p50_ms"), rows),
    )


def _thread_lines(entries: Sequence[Entry]) -> Figure | None:
    series: dict[tuple[str, str, str, str, str], dict[int, float]] = {}
    for entry in entries:
        body = entry.body
        key = (
            str((entry.model or {}).get("name")),
            board_name(entry.machine or {}),
            f"{body['runtime']['name']} {body['runtime']['version']}",
            "XNNPACK" if body["xnnpack"] else "no XNNPACK",
            pictures_text(entry.data),
        )
        series.setdefault(key, {})[body["threads"]] = body["end_to_end"]["p90"]
    drawn = {key: points for key, points in series.items() if len(points) > 1}
    if not drawn:
        return None
    figure, axis = new_figure(7.0, 3.6)
    varies = [len({key[part] for key in drawn}) > 1 for part in range(5)]
    varies[0] = True
    rows: list[list[Cell]] = []
    for place, (key, points) in enumerate(drawn.items()):
        name = ", ".join(part for part, kept in zip(key, varies, strict=True) if kept)
        threads = sorted(points)
        axis.plot(
            threads,
            [points[count] for count in threads],
            color=PALETTE[place % len(PALETTE)],
            marker=MARKERS[place % len(MARKERS)],
            linestyle=_LINES[place // len(PALETTE) % len(_LINES)],
            label=name,
        )
        rows += [[*key, count, points[count]] for count in threads]
    axis.set_yscale("log")
    plain_numbers(axis.yaxis)
    axis.set_xticks(sorted({count for points in drawn.values() for count in points}))
    axis.set_xlabel("threads")
    axis.set_ylabel("p90 end to end, ms")
    axis.legend(fontsize=7)
    best = [min(points, key=lambda count: points[count]) for points in drawn.values()]
    return Figure(
        title="Threads: the p90 against the number of threads of one inference.",
        alternative=f"{len(drawn)} lines; the fastest number of threads is {min(best)} to {max(best)}.",
        svg=to_svg(figure),
        csv=_csv(("model", "board", "runtime", "delegate", "pictures", "threads", "p90_ms"), rows),
    )


def _soak(entry: Entry, label: str) -> Figure:
    soak = entry.body["soak"]
    series = soak["series"]
    names = {"temperature_c": "°C", "clock_mhz": "MHz"}
    shown = [name for name in names if any(value is not None for value in series[name])]
    figure, axes = new_figure(7.0, 2.6 + 1.3 * len(shown), rows=1 + len(shown))
    panels = np.atleast_1d(axes)
    minutes = [second / 60 for second in series["t_s"]]
    panels[0].plot(minutes, series["p50_ms"], color=PALETTE[0], label="p50")
    panels[0].plot(minutes, series["p90_ms"], color=PALETTE[1], linestyle="--", label="p90")
    panels[0].set_ylabel("end to end, ms")
    panels[0].set_ylim(bottom=0)
    panels[0].legend(fontsize=8)
    for axis, name in zip(panels[1:], shown, strict=True):
        values = [math.nan if value is None else value for value in series[name]]
        axis.plot(minutes, values, color=PALETTE[2])
        axis.set_ylabel(names[name])
    held = [
        bool((flags or 0) & 0xF) or bool(state)
        for flags, state in zip(series["throttle_flags"], series["cooling_state"], strict=True)
    ]
    for axis in panels:
        for minute, throttled in zip(minutes, held, strict=True):
            if throttled:
                axis.axvspan(
                    minute - soak["interval_s"] / 60, minute, color=PALETTE[4], alpha=0.25, linewidth=0
                )
    panels[-1].set_xlabel("minutes")
    absent = "".join(f" No {names[name]}: {soak['reasons'][name]}." for name in names if name not in shown)
    checked = [name for name in ("throttle_flags", "cooling_state") if name not in soak["reasons"]]
    throttling = f"{sum(held)} of {len(held)} points throttled (shaded)" if checked else "throttling unknown"
    return Figure(
        title=f"Sustained run of {label}, {soak['seconds'] / 60:.1f} minutes; {throttling}.{absent}",
        alternative=f"Latency against time over {soak['queries']} queries; the median of the last tenth is"
        f" {soak['drift']:.2f} times that of the first.",
        svg=to_svg(figure),
        csv=_csv(list(series), zip(*series.values(), strict=True)),
    )
