#!/usr/bin/env bash
# Installs what is needed, builds a release and runs every test, then builds kernels and parsers with AddressSanitizer
# and UndefinedBehaviorSanitizer and runs their tests. Ends with `N passed, N failed`; exits 0 only when something
# ran and nothing failed.
# usage: scripts/test.sh [--fast]      --fast: without the sanitizers
set -euo pipefail
# shellcheck source=scripts/common.sh
. "$(dirname "$0")/common.sh"
usage_if_asked "$@"
ensure_sets test

step "release build"
build release
step "tests"
run_ctest build/release

if [ "${1:-}" != --fast ]; then
  step "kernels and parsers under AddressSanitizer and UndefinedBehaviorSanitizer"
  mapfile -t targets < <(test_targets core cpu ops graph text image postprocess onnx config; fuzzers)
  build asan -- "${targets[@]}"
  run_ctest build/asan --label-exclude program
fi
report
