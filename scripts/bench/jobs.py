#!/usr/bin/env python3
"""What pages side by side gain: `ocr infer --jobs 1` and `--jobs N` in turn on the same images, medians, with the share of
the cores that stood idle for want of work. On a machine that others use too, time spent waiting for a core (from
/proc/PID/task/*/schedstat) counts as work, and `alone` is what the gain would be without the others.

usage: jobs.py --ocr build/release/apps/ocr [--jobs 2] [--rounds 3] LIST     LIST: one image path a line"""
import argparse
import glob
import os
import statistics
import subprocess
import time


def run(ocr, images, jobs):
    start = time.time()
    process = subprocess.Popen([ocr, "infer", "--list", images, "--jobs", str(jobs), "--threads", "1", "--format", "jsonl",
                                "-q"], stdout=subprocess.DEVNULL)
    threads = {}  # by thread: nanoseconds on a core, and waiting for one
    while True:
        done, _, usage = os.wait4(process.pid, os.WNOHANG)
        if done:
            break
        for path in glob.glob(f"/proc/{process.pid}/task/*/schedstat"):
            try:
                with open(path) as file:
                    on, waiting, _ = file.read().split()
                threads[path] = int(on) + int(waiting)
            except (OSError, ValueError):
                pass
        time.sleep(0.05)
    wall = time.time() - start
    return {"wall": wall, "cpu": usage.ru_utime + usage.ru_stime, "mib": usage.ru_maxrss / 1024,
            "idle": max(0.0, 1 - sum(threads.values()) / 1e9 / (jobs * wall))}


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--ocr", required=True)
    parser.add_argument("--jobs", type=int, default=2)
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("list")
    args = parser.parse_args()
    pages = sum(1 for line in open(args.list, encoding="utf-8") if line.strip())
    runs = {1: [], args.jobs: []}
    for _ in range(args.rounds):
        for jobs, results in runs.items():
            results.append(run(args.ocr, args.list, jobs))
    mid = {j: {k: statistics.median(r[k] for r in results) for k in results[0]} for j, results in runs.items()}
    for jobs, m in mid.items():
        print(f"jobs {jobs}: {pages / m['wall']:.2f} pages/s, {m['cpu'] / pages * 1000:.0f} ms of CPU a page, "
              f"idle {100 * m['idle']:.1f} %, peak {m['mib']:.0f} MiB")
    one, many = mid[1], mid[args.jobs]
    alone = args.jobs * (1 - many["idle"]) / (1 - one["idle"]) * one["cpu"] / many["cpu"]
    print(f"gain of {args.jobs} jobs: {one['wall'] / many['wall']:.2f} as measured, {alone:.2f} alone")


if __name__ == "__main__":
    main()
