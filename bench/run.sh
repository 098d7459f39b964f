#!/usr/bin/env bash
# Every figure of the README and docs, each as a ratio to a baseline of the same
# run. usage: run.sh BUILD_DIR [--short]
# BENCH_DIR: where data goes (default ./bench-data; needs about 45 GB, or 2 GB
# with --short).
set -euo pipefail
build=$(cd "$1" && pwd)
dir=${BENCH_DIR:-./bench-data}
mkdir -p "$dir"
bytes=4G rounds=5 ranks=4096 operations=6400 stored=2147483648
if [[ ${2:-} == --short ]]; then
  bytes=128M rounds=1 ranks=64 operations=640 stored=268435456
fi

echo "== save and load against the bare path P (bench/path/bare_path.h)"
for scheme in replicate:1/4 rs:4+2/6; do
  "$build/bench/checkpoint_bench" --dir "$dir" --scheme "${scheme%/*}" \
    --targets "${scheme#*/}" --bytes $bytes --rounds $rounds
done
rm -f "$dir/bare"

echo "== metadata: names, and the publication of a set"
rm -rf "$dir/c"
"$build/server/cairnd" init --dir "$dir/c" --targets 2 --scheme replicate:1 \
  --capacity 1G > /dev/null
coproc server { exec "$build/server/cairnd" run --dir "$dir/c" --listen 127.0.0.1:0 2> "$dir/log"; }
trap 'kill $server_PID 2>/dev/null; wait; rm -rf "$dir/c"' EXIT
read -r _ address <&"${server[0]}"
"$build/bench/meta_bench" --cluster "$address" --dir "$dir" --rounds $rounds \
  --ranks $ranks --operations $operations

echo "== manifest: merge and lookup at scale"
if [[ ${2:-} == --short ]]; then
  "$build/bench/manifest_bench" --benchmark_filter='/1024' --benchmark_min_time=0.01
else
  "$build/bench/manifest_bench"
fi

echo "== rebuild of lost targets, alone and beside saves"
CAIRN_BIN=$build python3 "$(dirname "$0")/rebuild_bench.py" --dir "$dir" \
  --bytes $stored --rounds $rounds
