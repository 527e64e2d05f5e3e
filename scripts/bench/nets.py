#!/usr/bin/env python3
"""Nets against ONNX Runtime and OpenVINO (forced to fp32), each also on a folded copy of the file (fold.py): alternating
processes, equal threads, medians of the rounds.

usage: nets.py OCR MODELS_DIR [--threads 1,2] [--rounds 5] [--seconds 1.5] [--quick] [--cpu-time] [--bf16]
Prints the CPU, the probed peak and bandwidth, a Markdown table (ms, the fastest peer's time / ours, and ours as a share of the probed
peak of multiply-adds, by the operations that are left after the passes), and the geometric means. --bf16: ours in bf16 beside OpenVINO in
bf16 and ourselves in fp32."""
import argparse
import json
import math
import os
import statistics
import subprocess
import sys
import tempfile

ap = argparse.ArgumentParser()
ap.add_argument("ocr")
ap.add_argument("models")
ap.add_argument("--threads", default="1,2")
ap.add_argument("--rounds", type=int, default=5)
ap.add_argument("--seconds", type=float, default=1.5)
ap.add_argument("--quick", action="store_true", help="a few cells, one thread, two short rounds")
ap.add_argument("--cpu-time", action="store_true",
                help="compare processor time (1 thread only): on a busy machine, waiting for a core is nobody's merit")
ap.add_argument("--bf16", action="store_true", help="in bf16, against OpenVINO's and our own fp32")
ap.add_argument("--only", default="", help="models whose name contains this")
a = ap.parse_args()
if a.quick:
    a.threads, a.rounds, a.seconds = "1", min(a.rounds, 2), min(a.seconds, 0.5)
here = os.path.dirname(os.path.abspath(__file__))
PEERS = {"ort": "ONNX Runtime", "ort folded": "the same, folded", "openvino": "OpenVINO", "openvino folded": "the same, folded"}
if a.bf16:
    PEERS = {"openvino-bf16": "OpenVINO bf16", "openvino-bf16 folded": "the same, folded", "ours fp32": "ours, fp32"}

DET = ["1x3x640x640", "1x3x960x960", "1x3x736x1312"]
REC = [f"{batch}x3x48x{width}" for batch in (1, 6, 16) for width in (160, 320, 1000)]
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


def folded_copies(models, folder):
    """Path of each model's folded copy."""
    out = {}
    for n, model in enumerate(models):
        out[model] = os.path.join(folder, f"{n}.onnx")
        subprocess.run([sys.executable, f"{here}/fold.py", model, out[model]], check=True)
    return out


def measure(runner, model, folded, shape, threads):
    if runner.startswith("ours"):
        precision = "bf16" if a.bf16 and runner == "ours" else "fp32"
        return run([a.ocr, "bench", "--model", model, "--shape", shape, "--threads", str(threads), "--precision", precision, "--json"])
    runtime, _, copy = runner.partition(" ")
    return run([sys.executable, f"{here}/net_run.py", runtime, folded if copy else model, shape, str(threads), str(a.seconds)])


def cell(name, model, folded, shape, threads):
    """Prints a row; returns each peer's time / ours, medians of the rounds."""
    times, shares = {r: [] for r in ("ours", *PEERS)}, []
    for _ in range(a.rounds):
        for runner in times:
            result = measure(runner, model, folded, shape, threads)
            times[runner].append(result["cpu_ms" if a.cpu_time and threads == 1 else "median_ms"])
            if runner == "ours":
                shares.append(100e3 * result["gflop"] / times[runner][-1] / result["peak_gflops"])
    m = {k: statistics.median(v) for k, v in times.items()}
    ratios = {k: statistics.median(p / o for p, o in zip(times[k], times["ours"])) for k in PEERS}
    fastest = min(r for k, r in ratios.items() if not k.startswith("ours"))
    print(f"| {name} | {shape} | {threads} | " + " | ".join(f"{v:.2f}" for v in m.values()) + f" | {fastest:.2f} | "
          f"{statistics.median(shares):.0f} % |", flush=True)
    return {**ratios, "the fastest peer": fastest}


def main():
    present = [(name, os.path.join(a.models, file), shapes) for name, file, shapes in MODELS
               if os.path.exists(os.path.join(a.models, file)) and a.only in name]
    if not present:
        sys.exit(f"{a.models}: none of the models")
    print(f"CPU: {cpu()}; load {os.getloadavg()[0]:.1f}; ", end="")
    probe = run([a.ocr, "bench", "--model", present[0][1], "--shape", present[0][2][0], "--runs", "1", "--json"])
    print(f"peak {probe['peak_gflops']:.0f} GFLOP/s, read {probe['bandwidth_gbs']:.0f} GB/s on one core, kernels {probe['isa']}\n")
    print("| net | input | threads | ours ms | " + " | ".join(PEERS.values()) + " | fastest peer / ours | of the peak |")
    print("|---" * (6 + len(PEERS)) + "|", flush=True)
    means = {}
    with tempfile.TemporaryDirectory() as folder:
        folded = folded_copies([model for _, model, _ in present], folder)
        for threads in map(int, a.threads.split(",")):
            for name, model, shapes in present:
                for shape in shapes[:1] if a.quick else shapes:
                    ratios = cell(name, model, folded[model], shape, threads)
                    for peer, ratio in ratios.items():
                        means.setdefault((peer, threads), []).append(math.log(ratio))
    print()
    for (peer, threads), values in sorted(means.items()):
        print(f"- {peer} / ours, {threads} thread(s): geometric mean {math.exp(sum(values) / len(values)):.2f} "
              f"over {len(values)} cells")


main()
