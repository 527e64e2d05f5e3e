#!/usr/bin/env bash
# Runs the official ONNX node tests against the importer and writes docs/onnx.md's table of operators anew. The test data
# comes out of the public Python wheel onnx 1.19.1, by checksum, into build/onnx-node-tests (not in git); later versions of
# the wheel carry none.
# usage: scripts/onnx_node_tests.sh [--check] [--wheel FILE] [BUILD_DIR]      default: builds build/release
#   --check       fail when the table is not up to date, instead of writing it
set -euo pipefail
# shellcheck source=scripts/common.sh
. "$(dirname "$0")/common.sh"
usage_if_asked "$@"
sha=1839af08ab4a909e4af936b8149c27f8c64b96138981024e251906e0539d8bf9
data=$top/build/onnx-node-tests
wheel='' mode=write
if [ "${1:-}" = --check ]; then mode=check; shift; fi
if [ "${1:-}" = --wheel ]; then wheel=${2:?--wheel needs a file}; shift 2; fi

if [ ! -d "$data/node" ]; then
  mkdir -p "$data"
  if [ -z "$wheel" ]; then
    ensure_sets models
    python3 -m pip download --quiet --disable-pip-version-check --no-deps --only-binary :all: --python-version 3.11 \
      --platform manylinux2014_x86_64 --dest "$data" onnx==1.19.1 </dev/null || die "pip could not fetch onnx 1.19.1; pass --wheel FILE"
    wheel=$(echo "$data"/onnx-1.19.1-*.whl)
  fi
  [ "$(sha256sum "$wheel" | cut -d' ' -f1)" = "$sha" ] || die "$wheel is not onnx 1.19.1 for Python 3.11 on x86-64 as released"
  python3 - "$wheel" "$data" <<'PYTHON'
import sys, zipfile
inside = "onnx/backend/test/data/"
with zipfile.ZipFile(sys.argv[1]) as wheel:
    for info in wheel.infolist():
        if info.filename.startswith(inside + "node/") and ".." not in info.filename:
            info.filename = info.filename[len(inside):]
            wheel.extract(info, sys.argv[2])
PYTHON
fi

if [ $# -gt 0 ]; then
  dir=$1
else
  build release -- test_onnx
  dir=build/release
fi
table=$data/table.md
ONNX_NODE_TESTS=$data/node ONNX_NODE_TABLE=$table "$dir/tests/test_onnx" --gtest_brief=1 --gtest_filter='OnnxNodeTests.*'
python3 - docs/onnx.md "$table" "$mode" <<'PYTHON'
import re, sys
page, table = (open(p, encoding="utf-8").read() for p in sys.argv[1:3])
begin, end = "<!-- operators: scripts/onnx_node_tests.sh -->", "<!-- end of operators -->"
new = re.sub(f"{begin}.*?{end}", lambda _: f"{begin}\n{table}{end}", page, flags=re.S)
if sys.argv[3] == "write":
    open(sys.argv[1], "w", encoding="utf-8").write(new)
elif new != page:
    sys.exit("docs/onnx.md: the table of operators is not up to date; run scripts/onnx_node_tests.sh")
PYTHON
