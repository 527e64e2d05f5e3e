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

# test_targets FOLDER...: the test programs of those folders of tests/ that have any.
test_targets() {
  local folder
  for folder in "$@"; do
    if compgen -G "tests/$folder/*_test.cpp" >/dev/null; then echo "test_${folder//\//_}"; fi
  done
}

# fuzzers: the fuzzers' names.
fuzzers() { basename -a -s .cpp tests/fuzz/fuzz_*.cpp; }

# fuzz_seeds NAME: the files and folders that the fuzzer starts from, as tests/CMakeLists.txt has them.
fuzz_seeds() {
  sed -nE "s/^ocr_fuzz\\($1 [a-z_]+ SEEDS (.*)\\)\$/\\1/p" tests/CMakeLists.txt | tr ' ' '\n' | sed 's|^|tests/|'
}

passed=0 failed=0 skipped=0

# run_ctest BUILD_DIR [CTEST_OPTION...]: runs the tests that were built there and adds up their results.
run_ctest() {
  local dir=$1 xml=$1/ctest.xml field value status=0 counts=()
  shift
  rm -f "$xml"
  ctest --test-dir "$dir" --parallel "$(nproc)" --timeout 900 --output-on-failure --progress \
    --exclude-regex '_NOT_BUILT$' --output-junit ctest.xml "$@" </dev/null || status=$?
  [ -s "$xml" ] || die "ctest wrote no results in $dir"
  for field in tests failures skipped disabled; do
    value=$(grep -oE -m1 "^[[:space:]]*$field=\"[0-9]+\"" "$xml" | tr -dc 0-9)
    [ -n "$value" ] || die "$xml: no count of $field"
    counts+=("$value")
  done
  local total=${counts[0]} fails=${counts[1]} skips=$((counts[2] + counts[3]))
  [ "$status" -eq 0 ] || [ "$fails" -gt 0 ] || fails=1   # e.g. a program that could not start
  [ $((total - skips)) -gt 0 ] || die "no test ran in $dir"
  add_results $((total - fails - skips)) "$fails" "$skips"
}

# add_results PASSED FAILED [SKIPPED]
add_results() { passed=$((passed + $1)) failed=$((failed + $2)) skipped=$((skipped + ${3:-0})); }

# check NAME COMMAND...: one more test, which passes when the command does.
check() {
  local name=$1
  shift
  step "$name"
  if "$@" </dev/null; then add_results 1 0; else echo "FAILED: $name" >&2; add_results 0 1; fi
}

# skip NAME REASON: says plainly that something was not tested.
skip() { step "$1"; echo "skipped: $2"; skipped=$((skipped + 1)); }

# report: the closing line, and the exit status.
report() {
  [ "$skipped" -eq 0 ] || printf '\n%d skipped\n' "$skipped"
  printf '\n%d passed, %d failed\n' "$passed" "$failed"
  [ "$failed" -eq 0 ] && [ "$passed" -gt 0 ]
}
