#!/usr/bin/env bash
# From a fresh checkout on Debian 12 to recognised text: installs what is needed, builds, fetches the models and reads
# a picture. Asks for the administrator's password (sudo) only when packages are missing.
# usage: scripts/quickstart.sh [IMAGE]      default: datasets/sample/receipt.jpg
set -euo pipefail
image=${1:-}
[ "${image#-}" != "$image" ] || [ -z "$image" ] || image=$(realpath "$image")
# shellcheck source=scripts/common.sh
. "$(dirname "$0")/common.sh"
usage_if_asked "$@"
image=${image:-$top/datasets/sample/receipt.jpg}
[ -f "$image" ] || die "no such file: $image"

ensure_sets build run
step "building (a few minutes the first time)"
build release -- ocr
step "models"
scripts/fetch_models.sh
step "reading $image"
ocr=$top/build/release/apps/ocr
"$ocr" infer "$image" --visualize "$top/out" </dev/null
step "done"
echo "annotated picture: $(find "$top/out" -name "$(basename "$image")*" -newer "$ocr" | head -1)"
echo "program:           $ocr   (try: $ocr infer --help)"
