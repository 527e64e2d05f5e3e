#!/usr/bin/env bash
# Formats the C++ sources with clang-format, or checks them; shell scripts are always checked only.
# usage: scripts/format.sh [--check] [FILE...]      default: every file under version control; others than these are left alone
set -euo pipefail
# shellcheck source=scripts/common.sh
. "$(dirname "$0")/common.sh"
usage_if_asked "$@"
ensure_sets format
mode=(-i)
if [ "${1:-}" = --check ]; then mode=(--dry-run --Werror); shift; fi
[ $# -gt 0 ] || mapfile -t all < <(git ls-files)
[ $# -eq 0 ] || all=("$@")
sources=() scripts=()
for file in "${all[@]}"; do
  [ -f "$file" ] || { [ $# -eq 0 ] && continue; die "$file: there is no such file"; }
  case "$file" in
    *.cpp | *.h | *.cu | *.cuh) sources+=("$file") ;;
    *.sh | .ci/run | */.ci/run) scripts+=("$file") ;;
  esac
done
[ $((${#sources[@]} + ${#scripts[@]})) -gt 0 ] || die "no C++ sources, no shell scripts"
[ "${#sources[@]}" -eq 0 ] || clang-format "${mode[@]}" "${sources[@]}"
[ "${#scripts[@]}" -eq 0 ] || shellcheck -x "${scripts[@]}"
echo "${#sources[@]} C++ files, ${#scripts[@]} shell scripts: fine"
