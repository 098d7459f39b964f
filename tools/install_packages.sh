#!/usr/bin/env bash
# Installs those packages of the lists that are missing (Debian 12).
#   tools/install_packages.sh [packages.txt [packages_dev.txt]]
set -euo pipefail
cd "$(dirname "$0")"
(($# > 0)) || set -- packages.txt
for list in "$@"; do
  [[ -r $list ]] || { echo "no list of packages: tools/$list" >&2; exit 2; }
done
missing=()
while read -r name; do
  [[ -z $name || $name == \#* ]] && continue
  dpkg-query -W -f='${Status}' "$name" 2>/dev/null |
    grep -q 'install ok installed' || missing+=("$name")
done < <(cat "$@")
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
