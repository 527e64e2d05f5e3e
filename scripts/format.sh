#!/usr/bin/env bash
# Formats the C++ sources with clang-format, or checks them.
# usage: scripts/format.sh [--check] [FILE...]      default: every source file under version control
set -euo pipefail
# shellcheck source=scripts/common.sh
. "$(dirname "$0")/common.sh"
usage_if_asked "$@"
ensure_sets format
mode=(-i)
if [ "${1:-}" = --check ]; then mode=(--dry-run --Werror); shift; fi
files=("$@")
[ $# -gt 0 ] || mapfile -t files < <(git ls-files -- '*.cpp' '*.h' '*.cu' '*.cuh')
[ "${#files[@]}" -gt 0 ] || die "no source files"
clang-format "${mode[@]}" "${files[@]}"
shellcheck -x scripts/*.sh .ci/run
echo "${#files[@]} files, shell scripts: fine"
