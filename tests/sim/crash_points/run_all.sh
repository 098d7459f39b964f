#!/bin/sh
# Usage: run_all.sh PROGRAM JOBS
# Every test of the crash enumeration with all its cases, JOBS at a time.
# Prints what each counted and how long it took; fails if one fails.
set -u
program=$1
jobs=$2
log=$(mktemp -d)
trap 'rm -rf "$log"' EXIT
export CAIRN_CRASH_POINTS=all
"$program" --gtest_list_tests --gtest_filter='CrashPoints.*' |
  sed -n 's/^  /CrashPoints./p' |
  xargs -P "$jobs" -I{} sh -c \
    '"$0" --gtest_filter="$1" >"$2/$1" 2>&1 || touch "$2/failed"' \
    "$program" {} "$log"
grep -hv '^\(Note: Google Test\|Running main\|\[[-=]*\]\|\[  PASSED\)' "$log"/Crash* |
  grep -v '^$'
test ! -e "$log/failed"
