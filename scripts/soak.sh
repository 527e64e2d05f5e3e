#!/usr/bin/env bash
# Reads many images in one job and watches the program's memory: it must be flat after the first twentieth.
# usage: scripts/soak.sh FOLDER [COUNT]      COUNT images (default 10,000) from FOLDER, in turn and again
# Prints pages done against resident memory, then a verdict; exits 1 when the memory grew by more than a tenth.
set -euo pipefail
# shellcheck source=scripts/common.sh
. "$(dirname "$0")/common.sh"
usage_if_asked "$@"
folder=${1:?usage: scripts/soak.sh FOLDER [COUNT]}
count=${2:-10000}
ocr=${OCR:-build/release/apps/ocr}
[ -x "$ocr" ] || die "$ocr is missing; build first: cmake --preset release && cmake --build --preset release"
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT

find "$folder" -type f \( -iname '*.jpg' -o -iname '*.png' \) | sort >"$work/all"
[ -s "$work/all" ] || die "no .jpg or .png under $folder"
: >"$work/list"
while [ "$(wc -l <"$work/list")" -lt "$count" ]; do cat "$work/all" >>"$work/list"; done
head -n "$count" "$work/list" >"$work/jobs"

"$ocr" infer --list "$work/jobs" --format jsonl -o "$work/out.jsonl" -q &
pid=$!
printf '%8s %8s %8s\n' seconds pages MiB
start=$SECONDS
while kill -0 "$pid" 2>/dev/null; do
  rss=$(awk '/^VmRSS/ {print int($2 / 1024)}' "/proc/$pid/status" 2>/dev/null || true)
  done_pages=$({ cat "$work"/out.jsonl* 2>/dev/null || true; } | wc -l)
  if [ -n "$rss" ]; then printf '%8d %8d %8d\n' $((SECONDS - start)) "$done_pages" "$rss" | tee -a "$work/curve"; fi
  sleep "${SOAK_INTERVAL:-5}"
done
wait "$pid"
awk -v count="$count" '
  $2 >= count / 20 && !early { early = $3 }
  early && $3 > late { late = $3 }
  END {
    if (!early) { print "too few samples: give more images"; exit 1 }
    printf "after a twentieth %d MiB, most afterwards %d MiB\n", early, late
    exit late > early * 1.1 }' "$work/curve"
