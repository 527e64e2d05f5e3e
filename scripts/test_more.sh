#!/usr/bin/env bash
# The slower checks: threads under ThreadSanitizer, kernels on emulated old CPUs, the AVX-512 kernels on emulated
# instructions, replay of the fuzzers' inputs, CUDA compile, the official ONNX node tests, the Debian package in a clean
# root. What this machine cannot do is skipped and said.
# usage: scripts/test_more.sh [PART]...      parts: tsan cpus avx512 fuzz onnx cuda deb (default: all)
set -euo pipefail
# shellcheck source=scripts/common.sh
. "$(dirname "$0")/common.sh"
usage_if_asked "$@"
parts=("$@")
[ $# -gt 0 ] || parts=(tsan cpus avx512 fuzz onnx cuda deb)
ensure_sets test more

part_tsan() {
  local targets
  mapfile -t targets < <(test_targets core graph pipeline loader dist)
  step "threads under ThreadSanitizer"
  build tsan -- "${targets[@]}"
  run_ctest build/tsan --label-exclude program --exclude-regex '_NOT_BUILT$|^check_|^fuzz_'
}

# Run-time dispatch: the same test programs on CPUs without AVX, and with AVX2 but without AVX-512.
part_cpus() {
  local cpu target targets
  mapfile -t targets < <(test_targets cpu ops)
  [ "${#targets[@]}" -gt 0 ] || { skip "old CPUs" "no kernel tests"; return; }
  build release -- "${targets[@]}"
  for cpu in Nehalem Haswell; do
    for target in "${targets[@]}"; do
      check "$target on $cpu" qemu-x86_64-static -cpu "$cpu" "build/release/tests/$target" --gtest_brief=1
    done
  done
}

# Everything that runs on the kernels, over the AVX-512 ones built from AVX2 instructions (tests/support/avx512_emulated.h).
part_avx512() {
  local targets
  grep -qw avx2 /proc/cpuinfo || { skip "AVX-512 kernels, emulated" "this CPU has no AVX2"; return; }
  mapfile -t targets < <(test_targets emulation cpu ops graph autograd onnx)
  step "AVX-512 kernels, emulated"
  build emulated -- "${targets[@]}"
  OCR_ISA=avx512 run_ctest build/emulated --label-exclude program --exclude-regex '_NOT_BUILT$|^check_|^fuzz_|^inference_'
}

# The corpus, and more mutations of it than the ordinary tests run, under AddressSanitizer.
part_fuzz() {
  local name seeds
  mapfile -t names < <(fuzzers)
  step "building the fuzzers"
  build asan -- "${names[@]}"
  for name in "${names[@]}"; do
    mapfile -t seeds < <(fuzz_seeds "${name#fuzz_}")
    check "$name" "build/asan/tests/$name" --seed 2 --mutations 20000 "${seeds[@]}"
  done
}

part_onnx() {
  build release -- test_onnx
  check "official ONNX node tests" scripts/onnx_node_tests.sh --check build/release
}

part_cuda() {
  if ! command -v nvcc >/dev/null; then skip "CUDA compile" "no nvcc here"
  elif [ ! -d libtrain/cuda ]; then skip "CUDA compile" "no CUDA sources in the tree"
  else check "CUDA compile" build cuda
  fi
}

part_deb() {
  local status=0
  step "Debian package in a clean root"
  scripts/test_deb.sh </dev/null || status=$?
  case $status in
    0) add_results 1 0 ;;
    77) skip "Debian package" "see above" ;;
    *) echo "FAILED: Debian package" >&2; add_results 0 1 ;;
  esac
}

for part in "${parts[@]}"; do
  declare -F "part_$part" >/dev/null || die "unknown part $part (try --help)"
  "part_$part"
done
report
