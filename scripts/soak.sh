#!/usr/bin/env bash
# Reads many images in one job and watches the program's memory: it must be flat after the first twentieth.
# usage: scripts/soak.sh [COUNT [FOLDER]]    COUNT images (default 10,000) of FOLDER, in turn and again; without FOLDER
#                                            small pages are drawn for it: 1,600 sizes, lines of every width
# Prints pages done against resident memory, then a verdict; exits 1 when the memory grew by more than a tenth.
# SOAK_INTERVAL: seconds between samples (5). SOAK_ARGS: further arguments of `ocr infer`.
set -euo pipefail
# shellcheck source=scripts/common.sh
. "$(dirname "$0")/common.sh"
usage_if_asked "$@"
count=${1:-10000}
folder=${2:-}
[[ $count =~ ^[0-9]+$ ]] || die "COUNT is a number, not $count"
ocr=${OCR:-build/release/apps/ocr}
[ -x "$ocr" ] || die "$ocr is missing; build first: cmake --preset release && cmake --build --preset release"
work=$(mktemp -d)
pid=
trap '[ -z "$pid" ] || kill "$pid" 2>/dev/null || true; rm -rf "$work"' EXIT
read -r -a args <<<"${SOAK_ARGS:-}"

if [ -n "$folder" ]; then
  find "$folder" -type f \( -iname '*.jpg' -o -iname '*.png' \) | sort >"$work/all"
  [ -s "$work/all" ] || die "no .jpg or .png under $folder"
  : >"$work/list"
  while [ "$(wc -l <"$work/list")" -lt "$count" ]; do cat "$work/all" >>"$work/list"; done
  head -n "$count" "$work/list" >"$work/jobs"
else
  maker=${MAKE_PAGES:-build/release/apps/bench/make_pages}
  [ -x "$maker" ] || die "$maker is missing; build it: cmake --build --preset release --target make_pages"
  "$maker" "$work/pages" "$count" >"$work/jobs"
  args+=(--det_limit_type min --det_limit_side_len 64)   # at the size they are drawn at
fi

"$ocr" infer --list "$work/jobs" --format jsonl "${args[@]}" -q >"$work/out.jsonl" &
pid=$!
printf '%8s %8s %8s\n' seconds pages MiB
start=$SECONDS
while kill -0 "$pid" 2>/dev/null; do
  rss=$(awk '/^VmRSS/ {print int($2 / 1024)}' "/proc/$pid/status" 2>/dev/null || true)
  done_pages=$(wc -l <"$work/out.jsonl")
  if [ -n "$rss" ]; then printf '%8d %8d %8d\n' $((SECONDS - start)) "$done_pages" "$rss" | tee -a "$work/curve"; fi
  sleep "${SOAK_INTERVAL:-5}"
done
wait "$pid"
pid=
awk -v count="$count" '
  $2 >= count / 20 && !early { early = $3 }
  early && $3 > late { late = $3 }
  END {
    if (!early) { print "too few samples: give more images"; exit 1 }
    printf "after a twentieth %d MiB, most afterwards %d MiB\n", early, late
    exit late > early * 1.1 }' "$work/curve"
