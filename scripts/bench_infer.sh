#!/usr/bin/env bash
# Measures nets and whole pages against other programs and prints Markdown tables for docs/benchmarks.md.
# usage: scripts/bench_infer.sh [--quick] [--nets|--pages] [--threads 1,2] [--rounds N] [LIST...]
# LIST: files of image paths, one a line; without one, the sample receipt. --quick ends within ten minutes.
# OCR_PEERS  a Python virtual environment with the peers; made by
#            python3 -m venv DIR && DIR/bin/pip install rapidocr==3.10.0 onnxruntime openvino onnx
# OCR_MODELS the models: ppocrv6_tiny, ppocrv6_small, ppocrv4 (optional), cls_v2   [models]
# OCR        the program                                                           [build/release/apps/ocr]
# Tesseract takes part where it is installed (Debian: tesseract-ocr). Use a machine that does nothing else.
set -euo pipefail
start_dir=$PWD
# shellcheck source=scripts/common.sh
. "$(dirname "$0")/common.sh"
usage_if_asked "$@"
nets=1 pages=1 quick=() rounds=() threads=1,2 lists=()
while [ $# -gt 0 ]; do
  case $1 in
    --quick) quick=(--quick) ;;
    --nets) pages=0 ;;
    --pages) nets=0 ;;
    --threads) threads=${2:?--threads needs a value}; shift ;;
    --rounds) rounds=(--rounds "${2:?--rounds needs a value}"); shift ;;
    -*) die "unknown option $1 (--help)" ;;
    *) lists+=("$(cd "$start_dir" && realpath -- "$1")") ;;
  esac
  shift
done
ocr=${OCR:-build/release/apps/ocr} models=${OCR_MODELS:-models}
python=${OCR_PEERS:?name a virtual environment with the peers; scripts/bench_infer.sh --help has the commands}/bin/python
[ -x "$ocr" ] || die "$ocr is missing; build first: cmake --preset release && cmake --build --preset release"
[ -x "$python" ] || die "$python is missing"
[ -d "$models/ppocrv6_tiny" ] || die "$models/ppocrv6_tiny is missing; scripts/fetch_models.sh brings it"
"$python" -c 'import rapidocr, onnxruntime, openvino, onnx' || die "a peer is missing in $OCR_PEERS (--help has the commands)"
if [ "${#lists[@]}" -eq 0 ]; then
  work=$(mktemp -d)
  trap 'rm -rf "$work"' EXIT
  for _ in 1 2 3; do echo "$top/datasets/sample/receipt.jpg"; done >"$work/receipt.txt"
  lists=("$work/receipt.txt")
fi

echo "$("$ocr" --version) on $(sed -n 's/^model name[^:]*: //p;T;q' /proc/cpuinfo), $(nproc) CPUs, load $(cut -d' ' -f1 /proc/loadavg)"
"$python" - <<'PYTHON'
import importlib.metadata as m
print(", ".join(f"{n} {m.version(n)}" for n in ("onnxruntime", "openvino", "rapidocr")))
PYTHON
if command -v tesseract >/dev/null; then tesseract --version 2>&1 | head -n 1; else echo "Tesseract is not installed: not measured"; fi
echo
if [ "$nets" = 1 ]; then "$python" scripts/bench/nets.py "$ocr" "$models" --threads "$threads" "${rounds[@]}" "${quick[@]}"; echo; fi
if [ "$pages" = 1 ]; then "$python" scripts/bench/pages.py "$ocr" "$models" "${lists[@]}" --threads "$threads" "${rounds[@]}" "${quick[@]}"; fi
