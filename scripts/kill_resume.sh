#!/usr/bin/env bash
# Kills a small training at random moments (kill -9), resumes it each time, and compares the final checkpoint
# byte for byte with that of an undisturbed run.
# usage: scripts/kill_resume.sh [KILLS] [BUILD_DIR]      default: 20, build/release
set -euo pipefail
case "${1:-}" in -h|--help) sed -n '2,4s/^# //p' "$0"; exit 0 ;; esac
kills=${1:-20}
probe=${2:-$(dirname "$0")/../build/release}/tests/resume_probe
[ -x "$probe" ] || { echo "error: $probe is not built (ninja -C build/release resume_probe)" >&2; exit 2; }
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
epochs=20
begin=$(date +%s%N)
expected=$("$probe" "$work/whole" "$epochs")
ms=$((($(date +%s%N) - begin) / 1000000))
echo "undisturbed: $ms ms, checkpoint $expected"
hit=0
for ((i = 0; i < kills; i++)); do
  "$probe" "$work/killed" "$epochs" >/dev/null & pid=$!
  wait_ms=$((RANDOM % (2 * ms / kills + 30)))
  sleep "$(printf '%d.%03d' $((wait_ms / 1000)) $((wait_ms % 1000)))"
  if kill -9 "$pid" 2>/dev/null; then hit=$((hit + 1)); fi
  wait "$pid" 2>/dev/null || true
done
got=$("$probe" "$work/killed" "$epochs")
echo "killed $hit times, then finished: checkpoint $got"
grep -c 'resumed from' "$work/killed/train.log" | sed 's/$/ times resumed/'
[ "$got" = "$expected" ] || { echo "error: the checkpoints differ" >&2; exit 1; }
echo "the same bytes"
