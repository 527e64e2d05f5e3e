#!/usr/bin/env bash
# Helpers shared by the scripts beside it; sourced, not run. Sets `top` (the repository) and goes there.
# shellcheck source=scripts/packages.sh
top=$(cd "$(dirname "${BASH_SOURCE[0]}")/.." && pwd)
cd "$top" || exit 1
. "$top/scripts/packages.sh"

die() { echo "error: $*" >&2; exit 1; }
step() { printf '\n== %s\n' "$*"; }

# usage_if_asked "$@": prints the calling script's header comment for --help.
usage_if_asked() {
  case "${1:-}" in -h|--help) sed -n '2,/^[^#]/s/^# \{0,1\}//p' "$0"; exit 0 ;; esac
}

# build_jobs: as many compilers at once as there are CPUs allowed, but no more than one per GiB of free memory.
build_jobs() {
  local cpus free_gib
  cpus=$(nproc)
  free_gib=$(awk '/^MemAvailable:/ {print int($2 / 1048576)}' /proc/meminfo)
  [ "$free_gib" -ge 1 ] || free_gib=1
  echo $((cpus < free_gib ? cpus : free_gib))
}

# build PRESET [CMAKE_OPTION...] -- [TARGET...]: configures and builds one preset.
build() {
  local preset=$1 options=() targets=()
  shift
  while [ $# -gt 0 ] && [ "$1" != -- ]; do options+=("$1"); shift; done
  [ $# -eq 0 ] || { shift; [ $# -eq 0 ] || targets=(--target "$@"); }
  cmake --preset "$preset" "${options[@]}" >"$top/build-$preset.log" 2>&1 || { cat "$top/build-$preset.log" >&2; die "cmake failed"; }
  rm -f "$top/build-$preset.log"
  cmake --build --preset "$preset" --parallel "$(build_jobs)" "${targets[@]}"
}
