#!/usr/bin/env bash
# Checks that a program holds nothing that only training needs: no function or variable that one of the given
# training libraries defines may be in it. Exit 1 and the symbols' names when there are any.
# usage: scripts/check_symbols.sh PROGRAM LIBRARY.a...
set -euo pipefail
case "${1:---help}" in -h|--help) sed -n '2,4s/^# //p' "$0"; exit 0 ;; esac
program=$1
shift
# Strong definitions only: weak ones are templates and inline functions, which anyone may share.
symbols() { nm --defined-only "$@" | awk 'NF == 3 && $2 ~ /^[TDB]$/ {print $3}' | sort -u; }
training=$(symbols "$@")
[ "$(wc -l <<<"$training")" -ge 5 ] || { echo "error: hardly a symbol in $*: the check is broken" >&2; exit 2; }
own=$(symbols "$program")
[ "$(wc -l <<<"$own")" -ge 20 ] || { echo "error: hardly a symbol in $program: the check is broken" >&2; exit 2; }
shared=$(comm -12 <(echo "$training") <(echo "$own"))
if [ -n "$shared" ]; then
  echo "$program links training code:" >&2
  c++filt <<<"$shared" | head -20 >&2
  exit 1
fi
echo "$(wc -l <<<"$own") symbols, none of the $(wc -l <<<"$training") of training"
