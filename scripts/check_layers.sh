#!/usr/bin/env bash
# Checks that every #include points in an allowed direction, that third-party headers stay in their corner, and that
# libraries neither print nor exit. The table mirrors docs/architecture.md. Exit 1 and one line per offence.
# usage: scripts/check_layers.sh [SOURCE_ROOT]
set -euo pipefail
case "${1:-}" in -h|--help) sed -n '2,4s/^# //p' "$0"; exit 0 ;; esac
cd "${1:-$(dirname "$0")/..}"

# layer | folders (a file belongs to the longest that fits) | layers it may include besides itself
layers='
train_core    | libtrain/core                                   |
train_config  | libtrain/config                                 | train_core
train_backend | libtrain/backend libtrain/cpu libtrain/cuda     | train_core
train_ops     | libtrain/ops                                    | train_backend
train_graph   | libtrain/graph                                  | train_ops
train_nn      | libtrain/autograd libtrain/nn libtrain/optim libtrain/amp | train_graph
train_run     | libtrain/data libtrain/dist libtrain/train      | train_nn train_config
ocr_text      | libocr/text                                     | train_core
ocr_image     | libocr/image                                    | train_core
ocr_post      | libocr/geometry libocr/postprocess              | ocr_text ocr_image
ocr_onnx      | libocr/onnx                                     | train_graph
ocr_base      | libocr/pipeline                                 | ocr_post ocr_onnx train_config
ocr_train     | libocr/models libocr/metrics libocr/data libocr/training | ocr_base train_run
app           | apps                                            | ocr_base ocr_train
'
# header prefix | the only folders that may include it
corners='
opencv2/         | libocr
yaml-cpp/        | libtrain/config libocr/pipeline
onnx/            | libocr/onnx
google/protobuf/ | libocr/onnx
CLI/             | apps
spdlog/          | apps
jpeglib.h        | libocr/image
png.h            | libocr/image
tiff             | libocr/image
webp/            | libocr/image
gif_lib.h        | libocr/image
poppler/         | libocr/image
ft2build.h       | libocr/image
lmdb.h           | libocr/data
omp.h            | libtrain/core libtrain/cpu
mpi.h            | libtrain/dist/mpi
'

roots=()
for root in libtrain libocr apps; do [ ! -d "$root" ] || roots+=("$root"); done
[ "${#roots[@]}" -gt 0 ] || { echo "error: no sources under $PWD" >&2; exit 2; }
# Every include and every call that prints or ends the process, as `file:line:text`.
pattern='^[[:space:]]*#[[:space:]]*include[[:space:]]|std::cout|std::cerr|[^a-z_]f?printf\(|[^a-z_](quick_|_)?exit\('
grep -rnE --include='*.h' --include='*.hpp' --include='*.cpp' --include='*.cu' --include='*.cuh' --include='*.inc' "$pattern" "${roots[@]}" |
awk -v layers="$layers" -v corners="$corners" '
  function trim(s) { gsub(/^[ \t]+|[ \t]+$/, "", s); return s }
  function layer_of(path,   folder, best, found) {
    for (folder in layer) if (index(path, folder "/") == 1 && length(folder) > best) { best = length(folder); found = layer[folder] }
    return found
  }
  function may(from, to,   i, n, next_layers) {   # is there a way down the arrows
    if (from == to) return 1
    n = split(arrows[from], next_layers, " ")
    for (i = 1; i <= n; i++) if (may(next_layers[i], to)) return 1
    return 0
  }
  function offence(message) { printf "%s:%s: %s\n", file, line, message; bad++ }
  BEGIN {
    n = split(layers, rows, "\n")
    for (i = 1; i <= n; i++) if (split(rows[i], cell, "|") == 3) {
      arrows[trim(cell[1])] = trim(cell[3])
      m = split(trim(cell[2]), names, " ")
      for (j = 1; j <= m; j++) layer[names[j]] = trim(cell[1])
    }
    n = split(corners, rows, "\n")
    for (i = 1; i <= n; i++) if (split(rows[i], cell, "|") == 2) corner[trim(cell[1])] = trim(cell[2])
  }
  {
    file = $0; sub(/:.*/, "", file)
    line = $0; sub(/^[^:]*:/, "", line); text = line; sub(/:.*/, "", line); sub(/^[^:]*:/, "", text)
    seen++
    from = layer_of(file)
    if (from == "") { offence("this folder belongs to no layer; add it to scripts/check_layers.sh and docs/architecture.md"); next }
    if (text !~ /^[ \t]*#[ \t]*include/) {
      if (file == "libtrain/core/child.cpp") next   # a copy of the process ends itself
      if (from != "app" && text !~ /^[ \t]*\/\//) offence("a library neither prints nor exits: throw a train::Error")
      next
    }
    if (!match(text, /[<"][^>"]+[>"]/)) next
    header = substr(text, RSTART + 1, RLENGTH - 2)
    if (header ~ /^(libtrain|libocr|apps)\//) {
      to = layer_of(header)
      if (to == "") offence("includes " header ", which belongs to no layer")
      else if (!may(from, to)) offence(from " must not include " header " (" to ")")
    }
    for (prefix in corner) if (index(header, prefix) == 1) {
      n = split(corner[prefix], allowed, " "); ok = 0
      for (i = 1; i <= n; i++) if (index(file, allowed[i] "/") == 1) ok = 1
      if (!ok) offence(header " belongs in " corner[prefix] " only")
    }
  }
  END {
    if (!seen) { print "error: no #include seen at all: the check is broken"; exit 2 }
    if (bad) exit 1
    print seen " lines looked at, every include points down"
  }'
