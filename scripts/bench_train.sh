#!/usr/bin/env bash
# Measures training steps against PyTorch on the CPU and prints a Markdown table for docs/benchmarks.md.
# usage: scripts/bench_train.sh [--quick] [--cpu-time] [--bf16] [--threads 1,2] [--rounds N] [--steps N] [--only NAME]
# --quick: small batches, within ten minutes. --cpu-time: one thread, processor time, for a machine that does other things too.
# --bf16: both in mixed precision.
# OCR_TORCH   a Python virtual environment with PyTorch: python3 -m venv DIR && DIR/bin/pip install torch numpy
# TRAIN_NETS  the program: cmake --build --preset release --target train_nets   [build/release/apps/bench/train_nets]
set -euo pipefail
# shellcheck source=scripts/common.sh
. "$(dirname "$0")/common.sh"
usage_if_asked "$@"
program=${TRAIN_NETS:-build/release/apps/bench/train_nets}
python=${OCR_TORCH:?name a virtual environment with PyTorch; scripts/bench_train.sh --help has the commands}/bin/python
[ -x "$program" ] || die "$program is missing; build first: cmake --preset release && cmake --build --preset release --target train_nets"
[ -x "$python" ] || die "$python is missing"
"$python" -c 'import torch' || die "PyTorch is missing in $OCR_TORCH (--help has the commands)"
echo "$(uname -sm), load $(cut -d' ' -f1 /proc/loadavg), PyTorch $("$python" -c 'import torch; print(torch.__version__)')"
exec "$python" scripts/bench/train.py "$program" "$@"
