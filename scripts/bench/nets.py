#!/usr/bin/env python3
"""Nets against ONNX Runtime and OpenVINO (forced to fp32): alternating processes, equal threads, medians of the rounds.

usage: nets.py OCR MODELS_DIR [--threads 1,2] [--rounds 5] [--seconds 1.5] [--quick] [--cpu-time]
Prints the CPU, the probed peak and bandwidth, a Markdown table (ms, and the peers' time / ours), and the geometric means."""
import argparse
import json
import math
import os
import statistics
import subprocess
import sys

ap = argparse.ArgumentParser()
ap.add_argument("ocr")
ap.add_argument("models")
ap.add_argument("--threads", default="1,2")
ap.add_argument("--rounds", type=int, default=5)
ap.add_argument("--seconds", type=float, default=1.5)
ap.add_argument("--quick", action="store_true", help="the first shape of each model only")
ap.add_argument("--cpu-time", action="store_true",
                help="compare processor time (1 thread only): on a busy machine, waiting for a core is nobody's merit")
ap.add_argument("--only", default="", help="models whose name contains this")
a = ap.parse_args()
here = os.path.dirname(os.path.abspath(__file__))

DET = ["1x3x640x640", "1x3x960x960", "1x3x736x1312"]
REC = ["1x3x48x320", "6x3x48x320", "1x3x48x160", "1x3x48x1000"]
MODELS = [("v6 tiny det", "ppocrv6_tiny/det.onnx", DET), ("v6 tiny rec", "ppocrv6_tiny/rec.onnx", REC),
          ("v6 small det", "ppocrv6_small/det.onnx", DET), ("v6 small rec", "ppocrv6_small/rec.onnx", REC),
          ("v2 cls", "cls_v2/cls.onnx", ["1x3x48x192", "6x3x48x192"]),
          ("v4 det", "ppocrv4/det.onnx", DET), ("v4 rec", "ppocrv4/rec.onnx", REC)]


def cpu():
    for line in open("/proc/cpuinfo"):
        if line.startswith("model name"):
            return line.split(":", 1)[1].strip()
    return "unknown"


def run(command):
    out = subprocess.run(command, capture_output=True, text=True)
    if out.returncode:
        sys.exit(f"{' '.join(command)}: {out.stderr.strip()[-500:]}")
    return json.loads(out.stdout)


def measure(runner, model, shape, threads):
    if runner == "ours":
        return run([a.ocr, "bench", "--model", model, "--shape", shape, "--threads", str(threads), "--json"])
    return run([sys.executable, f"{here}/net_run.py", runner, model, shape, str(threads), str(a.seconds)])


print(f"CPU: {cpu()}; load {os.getloadavg()[0]:.1f}; ", end="")
logs = {}
header = False
for threads in map(int, a.threads.split(",")):
    for name, file, shapes in MODELS:
        model = os.path.join(a.models, file)
        if not os.path.exists(model) or a.only not in name:
            continue
        for shape in shapes[:1] if a.quick else shapes:
            times = {"ours": [], "ort": [], "openvino": []}
            for _ in range(a.rounds):
                for runner in times:
                    result = measure(runner, model, shape, threads)
                    times[runner].append(result["cpu_ms" if a.cpu_time and threads == 1 else "median_ms"])
                    if runner == "ours" and not header:
                        header = True
                        print(f"peak {result['peak_gflops']:.0f} GFLOP/s, read {result['bandwidth_gbs']:.0f} GB/s on one core, "
                              f"kernels {result['isa']}\n\n| net | input | threads | ours ms | ONNX Runtime ms | OpenVINO ms | "
                              f"ORT/ours | OV/ours |\n|---|---|---|---|---|---|---|---|")
            m = {k: statistics.median(v) for k, v in times.items()}
            ratio = [statistics.median(p / o for p, o in zip(times[k], times["ours"])) for k in ("ort", "openvino")]
            for k, r in zip(("ort", "openvino"), ratio):
                logs.setdefault((k, threads), []).append(math.log(r))
            print(f"| {name} | {shape} | {threads} | {m['ours']:.2f} | {m['ort']:.2f} | {m['openvino']:.2f} | "
                  f"{ratio[0]:.2f} | {ratio[1]:.2f} |", flush=True)
print()
for (k, threads), values in sorted(logs.items()):
    print(f"geometric mean of {k}/ours, {threads} thread(s): {math.exp(sum(values) / len(values)):.2f} over {len(values)} cells")
