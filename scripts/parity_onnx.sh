#!/usr/bin/env bash
# Compares whole models with ONNX Runtime: every model under models/ (scripts/fetch_models.sh), those given, and the graphs of
# docTR and EasyOCR with seeded random weights. Fails where a difference exceeds 1e-4 of the range before the last sigmoid or
# softmax. ONNX Runtime comes by pip into a virtual environment under build/, unless --python names an interpreter that
# has onnx, onnxruntime and numpy.
# usage: scripts/parity_onnx.sh [--python PYTHON] [--onnx-run PROGRAM] [MODEL...]
set -euo pipefail
# shellcheck source=scripts/common.sh
. "$(dirname "$0")/common.sh"
usage_if_asked "$@"
python='' runner=''
while [ $# -gt 0 ]; do
  case $1 in
    --python) python=${2:?}; shift 2 ;;
    --onnx-run) runner=${2:?}; shift 2 ;;
    *) break ;;
  esac
done
if [ -z "$python" ]; then
  python=build/parity-venv/bin/python
  if [ ! -x "$python" ]; then
    ensure_packages python3-venv
    python3 -m venv build/parity-venv
    "$python" -m pip install --quiet --disable-pip-version-check onnxruntime==1.26.0 onnx==1.19.1 numpy
  fi
fi
if [ -z "$runner" ]; then
  build release -- onnx_run
  runner=build/release/tests/onnx_run
fi
mkdir -p build/parity
"$python" scripts/fixtures/make_onnx_nets.py build/parity
mapfile -t found < <(find -L models -name '*.onnx' 2>/dev/null | sort)
"$python" scripts/fixtures/onnx_parity.py "$runner" 1e-4 build/parity/*.onnx "${found[@]}" "$@"
