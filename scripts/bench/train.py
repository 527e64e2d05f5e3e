#!/usr/bin/env python3
"""Training steps against PyTorch on the CPU: alternating processes, equal threads, weights and batches; medians.

usage: train.py TRAIN_NETS [--threads 1,2] [--rounds 3] [--steps 6] [--quick] [--cpu-time] [--bf16] [--only NAME]
Prints the CPU, the probed peak and bandwidth, and a Markdown table: ms per step (the first step of a process is left out), PyTorch's time /
ours, peak memory of the processes. A row stands only if the losses of the first two steps agree to 1e-4: the same forward pass, and the same
gradients and update (later steps drift apart: Adam divides rounding errors of gradients that should be 0 by themselves).
--bf16: both under autocast; the losses then agree to 2 %."""
import argparse
import json
import os
import statistics
import subprocess
import sys
import tempfile

# net, batch, batch of --quick, steps multiplied by, the ratio to reach
CELLS = [("svtr_lcnet_1", 32, 8, 1, 2), ("svtr_lcnet_4", 32, 8, 1, 2), ("db_lcnet_1", 4, 2, 1, 2), ("db_lcnet_4", 4, 1, 1, 2),
         ("svtr_tiny", 16, 8, 1, 1.5), ("crnn_mv3", 32, 32, 1, 1), ("mlp", 64, 64, 20, 1.4), ("text_classifier", 50, 50, 20, 2),
         ("cnn", 64, 64, 20, None), ("ctc_6625", 64, 16, 1, 2), ("ctc_97", 64, 64, 10, 2)]
TORCH_ENV = {"MALLOC_MMAP_THRESHOLD_": "4294967296", "MALLOC_TRIM_THRESHOLD_": "17179869184", "MALLOC_TOP_PAD_": "67108864",
             "GLIBC_TUNABLES": "glibc.malloc.hugetlb=1"}

ap = argparse.ArgumentParser()
ap.add_argument("program")
ap.add_argument("--threads", default="1,2")
ap.add_argument("--rounds", type=int, default=3)
ap.add_argument("--steps", type=int, default=6)
ap.add_argument("--quick", action="store_true", help="small batches, two rounds of four steps")
ap.add_argument("--cpu-time", action="store_true", help="one thread, processor time: for a machine that does other things too")
ap.add_argument("--bf16", action="store_true", help="both in mixed precision")
ap.add_argument("--only", default="", help="nets whose name contains this")
a = ap.parse_args()
if a.quick:
    a.rounds, a.steps = min(a.rounds, 2), min(a.steps, 4)
if a.cpu_time:
    a.threads = "1"
here = os.path.dirname(os.path.abspath(__file__))


def run(command, **env):
    out = subprocess.run(command, capture_output=True, text=True, env={**os.environ, **env})
    if out.returncode:
        sys.exit(f"{' '.join(command)}: {out.stderr.strip()[-500:]}")
    return json.loads(out.stdout)


def measure(net, batch, steps, threads, folder):
    """Results of the rounds: ours, PyTorch's."""
    data = os.path.join(folder, "net.safetensors")
    run([a.program, net, "--batch", str(batch), "--steps", "0", "--write", data])
    last = ["--steps", str(steps), "--threads", str(threads), *(["--bf16"] if a.bf16 else [])]
    results = [], []
    for _ in range(a.rounds):
        results[0].append(run([a.program, net, "--batch", str(batch), *last]))
        results[1].append(run([sys.executable, f"{here}/train_torch.py", net, data, *last], **TORCH_ENV))
    os.remove(data)
    return results


def row(net, batch, goal, threads, results):
    ours, theirs = results[0][0]["loss"], results[1][0]["loss"]
    for i in range(2):
        if abs(ours[i] - theirs[i]) > (2e-2 if a.bf16 else 1e-4) * abs(theirs[i]):
            return f"| {net} | {batch} | {threads} | losses of step {i}: {ours[i]} and {theirs[i]}: not the same work ||||||"
    key = "cpu_ms" if a.cpu_time else "ms"
    ms = [statistics.median(t for r in side for t in r[key][1:]) for side in results]
    mib = [max(r["peak_kib"] for r in side) / 1024 for side in results]
    return (f"| {net} | {batch} | {threads} | {ms[0]:.3g} | {ms[1]:.3g} | {ms[1] / ms[0]:.2f} | {goal or ''} | {mib[0]:.0f} | {mib[1]:.0f} |")


for line in open("/proc/cpuinfo"):
    if line.startswith("model name"):
        print(line.split(":", 1)[1].strip() + f", {os.cpu_count()} CPUs")
        break
for threads in a.threads.split(","):
    peak = run([a.program, "probe", "--threads", threads])
    print(f"{threads} threads: peak {peak['gflops']:.0f} GFLOP/s, read {peak['gbytes']:.0f} GB/s")
unit = "processor time" if a.cpu_time else "wall time"
print(f"\n| net | batch | threads | ours, ms ({unit}) | PyTorch, ms | PyTorch / ours | goal | MiB, ours | MiB, PyTorch |\n|---|---|---|---|---|---|---|---|---|")
with tempfile.TemporaryDirectory() as folder:
    for net, batch, quick_batch, times, goal in CELLS:
        if a.only not in net:
            continue
        for threads in a.threads.split(","):
            b = quick_batch if a.quick else batch
            print(row(net, b, goal, threads, measure(net, b, a.steps * times, int(threads), folder)), flush=True)
