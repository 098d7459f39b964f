#!/usr/bin/env bash
# Installs the packages of tools/packages.txt that are missing (Debian 12).
set -euo pipefail
cd "$(dirname "$0")"
missing=()
while read -r name; do
  [[ -z $name || $name == \#* ]] && continue
  dpkg-query -W -f='${Status}' "$name" 2>/dev/null |
    grep -q 'install ok installed' || missing+=("$name")
done < packages.txt
((${#missing[@]} == 0)) && exit 0
echo "installing: ${missing[*]}"
sudo=()
if ((EUID != 0)); then
  command -v sudo >/dev/null || {
    echo "missing packages and neither root nor sudo: apt-get install ${missing[*]}" >&2
    exit 1
  }
  sudo=(sudo)
fi
export DEBIAN_FRONTEND=noninteractive
"${sudo[@]}" apt-get update -qq
"${sudo[@]}" apt-get install -y -qq --no-install-recommends "${missing[@]}"
