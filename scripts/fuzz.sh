#!/usr/bin/env bash
# Runs the fuzzers of tests/fuzz with libFuzzer, AddressSanitizer and UndefinedBehaviorSanitizer. New inputs gather in
# build/fuzz/corpus; an input that crashes is left in build/fuzz/findings: fix it and add it to tests/fuzz/corpus.
# usage: scripts/fuzz.sh [SECONDS [NAME...]]      default: 60 seconds each, all of them
set -euo pipefail
# shellcheck source=scripts/common.sh
. "$(dirname "$0")/common.sh"
usage_if_asked "$@"
seconds=${1:-60}
names=("${@:2}")
[ "${#names[@]}" -gt 0 ] || mapfile -t names < <(fuzzers | sed 's/^fuzz_//')
ensure_sets build fuzz
build fuzz -- "${names[@]/#/fuzz_}"
for name in "${names[@]}"; do
  mkdir -p "build/fuzz/corpus/$name" build/fuzz/findings
  mapfile -t seeds < <(fuzz_seeds "$name")
  check "fuzz_$name for $seconds s" "build/fuzz/tests/fuzz_$name" -max_total_time="$seconds" -timeout=20 -rss_limit_mb=4096 \
    -print_final_stats=1 -artifact_prefix="build/fuzz/findings/$name-" "build/fuzz/corpus/$name" "${seeds[@]}"
done
report
