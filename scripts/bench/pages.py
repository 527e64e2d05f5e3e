#!/usr/bin/env python3
"""Whole pages, from the file to the text: ours (RapidOCR's settings; our defaults), RapidOCR, Tesseract where it is installed.
Alternating processes, medians of the rounds.

usage: pages.py OCR MODELS_DIR LIST... [--threads 1,2] [--rounds 3] [--limit N] [--quick]
LIST: a file of image paths, one a line; its name names the row. With T threads: ours at its defaults and Tesseract read T pages at
once, ours at RapidOCR's settings and RapidOCR one page with T threads. Loading models is not counted, starting Tesseract is: it
has no way to keep them. Needs rapidocr 3.10.0 and onnxruntime in the Python that runs it."""
import argparse
import concurrent.futures
import json
import os
import resource
import shutil
import statistics
import subprocess
import sys
import time

ap = argparse.ArgumentParser()
ap.add_argument("ocr")
ap.add_argument("models")
ap.add_argument("lists", nargs="+")
ap.add_argument("--threads", default="1,2")
ap.add_argument("--rounds", type=int, default=3)
ap.add_argument("--limit", type=int, default=50, help="pages of each list")
ap.add_argument("--quick", action="store_true", help="three pages, one thread, the smallest models, one round")
ap.add_argument("--one", nargs=5, metavar=("PEER", "SET", "THREADS", "LIST", "LIMIT"), help=argparse.SUPPRESS)
a = ap.parse_args()
SETS = [("v6 tiny", "ppocrv6_tiny"), ("v6 small", "ppocrv6_small")]
if a.quick:
    a.threads, a.rounds, a.limit, SETS = "1", 1, 3, SETS[:1]


def pages_of(path, limit):
    return [line for line in open(path, encoding="utf-8").read().split("\n") if line][:limit]


def our_pages(settings, models, threads, pages, jobs):
    command = [a.ocr, "bench", "--json", "--runs", "1", "--models", models, "--jobs", str(jobs), "--threads", str(threads)]
    out = subprocess.run([*command, *settings, "--", *pages], capture_output=True, text=True)
    if out.returncode:
        sys.exit(out.stderr)
    result = json.loads(out.stdout)
    return result["pages_per_s"], result["peak_mib"]


def rapidocr_pages(models, threads, pages):
    from rapidocr import RapidOCR
    params = {"Global.log_level": "critical", "Det.model_path": f"{models}/det.onnx", "Rec.model_path": f"{models}/rec.onnx",
              "Cls.model_path": f"{a.models}/cls_v2/cls.onnx", "EngineConfig.onnxruntime.intra_op_num_threads": threads,
              "EngineConfig.onnxruntime.inter_op_num_threads": 1}
    for name in sorted(os.listdir(models)):
        if name.endswith(".txt"):
            params["Rec.rec_keys_path"] = f"{models}/{name}"
    engine = RapidOCR(params=params)
    engine(pages[0])  # first touch of memory
    start = time.perf_counter()
    for page in pages:
        engine(page)
    return len(pages) / (time.perf_counter() - start), resource.getrusage(resource.RUSAGE_SELF).ru_maxrss // 1024


def tesseract_pages(threads, pages):
    def read(page):
        subprocess.run(["tesseract", page, "-"], stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL, check=True,
                       env={**os.environ, "OMP_THREAD_LIMIT": "1"})

    start = time.perf_counter()
    with concurrent.futures.ThreadPoolExecutor(threads) as pool:
        list(pool.map(read, pages))
    return len(pages) / (time.perf_counter() - start), resource.getrusage(resource.RUSAGE_CHILDREN).ru_maxrss // 1024


def one(peer, models, threads, path, limit):
    """What a process of its own measures: prints [pages per second, peak MiB]."""
    pages, threads = pages_of(path, int(limit)), int(threads)
    if peer == "RapidOCR":
        result = rapidocr_pages(models, threads, pages)
    elif peer == "Tesseract":
        result = tesseract_pages(threads, pages)
    elif peer == "ours, its settings":
        cls = ["--cls_model_dir", f"{a.models}/cls_v2/cls.onnx"]
        result = our_pages(["--preset", "rapidocr", "--use_angle_cls", "true", *cls], models, threads, pages, 1)
    else:
        result = our_pages([], models, 1, pages, threads)
    print(json.dumps(result))


def measure(peer, models, threads, path):
    command = [sys.executable, __file__, a.ocr, a.models, path, "--one", peer, models, str(threads), path, str(a.limit)]
    out = subprocess.run(command, capture_output=True, text=True)
    if out.returncode:
        sys.exit(f"{peer}: {out.stderr.strip()[-600:]}")
    return json.loads(out.stdout.splitlines()[-1])


def row(name, path, label, models, threads, peers):
    speed, peak = {p: [] for p in peers}, {p: 0 for p in peers}
    for _ in range(a.rounds):
        for peer in peers:
            rate, mib = measure(peer, models, threads, path)
            speed[peer].append(rate)
            peak[peer] = max(peak[peer], mib)
    ratio = {p: statistics.median(x / y for x, y in zip(speed[p], speed["RapidOCR"])) for p in peers}
    cells = [f"{statistics.median(speed[p]):.2f} ({peak[p]} MiB)" if p in peers else "-" for p in PEERS]
    print(f"| {name}, {len(pages_of(path, a.limit))} pages | {label} | {threads} | " + " | ".join(cells) +
          f" | {ratio['ours, its settings']:.2f} | {ratio['ours, default']:.2f} |", flush=True)


PEERS = ["ours, its settings", "ours, default", "RapidOCR", "Tesseract"]


def main():
    peers = [p for p in PEERS if p != "Tesseract" or shutil.which("tesseract")]
    print("Pages per second (peak memory):\n")
    print("| pages | models | threads | ours, RapidOCR's settings | ours, default | RapidOCR | Tesseract | its settings / RapidOCR | "
          "default / RapidOCR |\n" + "|---" * 9 + "|", flush=True)
    for path in a.lists:
        name = os.path.splitext(os.path.basename(path))[0]
        for label, folder in SETS:
            for threads in map(int, a.threads.split(",")):
                row(name, path, label, os.path.join(a.models, folder), threads, peers)


one(*a.one) if a.one else main()
