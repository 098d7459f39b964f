#!/usr/bin/env bash
# Runs every libFuzzer program of a build for some seconds each; stops at the
# first finding. usage: run.sh BUILD_DIR SECONDS
set -euo pipefail
build=$1 seconds=$2
golden=$(cd "$(dirname "$0")/../golden" && pwd)
corpus=$(mktemp -d)
trap 'rm -rf "$corpus"' EXIT
for program in "$build"/tests/fuzz/*_fuzz; do
  echo "== $(basename "$program"), $seconds s"
  "$program" -max_total_time="$seconds" -print_final_stats=1 "$corpus" "$golden"
done
