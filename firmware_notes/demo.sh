#!/usr/bin/env bash
# The main job once, with the model that the kit ships: classify, time, report. Called by `make demo`.
set -euo pipefail
out=${OUT:-build/demo}
mkdir -p "$out"
if [ -n "${DATA:-}" ]; then
  pictures=$DATA
else
  pictures=$out/leaves
  mango-bench draw "$pictures"
  echo "The samples are drawn by a program: they try every step, they do not test the model's skill."
fi
mango-edge info
echo
mango-edge classify "$pictures" --csv >"$out/predictions.csv" || echo "some pictures could not be read; see above" >&2
head -n 9 "$out/predictions.csv"
echo "... all predictions: $out/predictions.csv"
mango-bench latency --pictures "$pictures" --out "$out/latency.json"
results=("$out/latency.json")
if [ -n "${DATA:-}" ]; then
  mango-bench robustness --data "$DATA" --images all --corruptions none --out "$out/score.json"
  results+=("$out/score.json")
fi
mango-bench report "${results[@]}" --out "$out"
