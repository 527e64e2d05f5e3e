#!/usr/bin/env python3
"""Draws a huge scan (small print all over, four lines of letters up to 600 pixels high), reads it with `ocr infer` and
prints the time, the peak memory and the lines that were missed. Exit 1 when memory passes --limit or a line in 20 is missed.

usage: huge_scan.py --ocr build/release/apps/ocr [--side 9000] [--format jpg|png|tif ...] [--limit 2000]
The scans of interest: --side 20000 --format jpg tif (a minute each). Needs numpy and opencv-python."""
import argparse
import json
import os
import subprocess
import sys
import tempfile
import time

import cv2
import numpy as np

WORDS = "harbour light ferry morning coat winter market garden silver bridge".split()


def draw(side):
    random = np.random.default_rng(1)
    page = np.full((side, side), 255, np.uint8)
    lines = []

    def put(text, x, y, height, thickness):
        cv2.putText(page, text, (x, y), cv2.FONT_HERSHEY_SIMPLEX, height / 22, 0, thickness, cv2.LINE_AA)
        lines.append(text)

    for y in range(120, side, 250):
        if not 3 * side // 10 < y < 6 * side // 10:
            put(" ".join(random.choice(WORDS, 4)), int(random.integers(50, side - 1500)), y, 35, 4)
    for k, height in enumerate([150, 250, 400, 600]):
        if height * 8 < side:
            put(f"{WORDS[k]} {WORDS[k + 4]}", side // 50 + 40 * k, 3 * side // 10 + int((k + 1) * .065 * side), height,
                height // 8)
    return page, lines


def read(ocr, path):
    start = time.time()
    process = subprocess.Popen([ocr, "infer", path, "--format", "jsonl", "-q"], stdout=subprocess.PIPE)
    out = process.stdout.read()
    usage = os.wait4(process.pid, 0)[2]
    page = json.loads(out.splitlines()[0])
    return [line["text"] for line in page["lines"]], page.get("tiles", 1), time.time() - start, usage.ru_maxrss / 1024


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--ocr", required=True)
    parser.add_argument("--side", type=int, default=9000)
    parser.add_argument("--format", nargs="+", default=["jpg"], choices=["jpg", "png", "tif"])
    parser.add_argument("--limit", type=float, default=2000, help="MiB")
    args = parser.parse_args()
    page, wanted = draw(args.side)
    failed = False
    with tempfile.TemporaryDirectory() as folder:
        for kind in args.format:
            path = f"{folder}/scan.{kind}"
            cv2.imwrite(path, page)
            got, tiles, seconds, peak = read(args.ocr, path)
            missed = [line for line in wanted if line not in got]
            print(f"{args.side} x {args.side} {kind}: {seconds:.1f} s, {tiles} tiles, peak {peak:.0f} MiB, "
                  f"{len(wanted) - len(missed)} of {len(wanted)} lines; missed: {missed}")
            failed |= peak > args.limit or len(missed) > len(wanted) / 20
    sys.exit(failed)


if __name__ == "__main__":
    main()
