#!/usr/bin/env python3
"""Training steps of the nets of apps/bench/train_nets.cpp in PyTorch, from the weights and the batch that it wrote.

usage: train_torch.py NET FILE [--steps N] [--threads N] [--bf16]
Prints what train_nets prints. Fused Adam; --bf16: under autocast."""
import argparse
import json
import resource
import time

import torch

import torch_nets

ap = argparse.ArgumentParser()
ap.add_argument("net", choices=torch_nets.NETS)
ap.add_argument("file")
ap.add_argument("--steps", type=int, default=5)
ap.add_argument("--threads", type=int, default=1)
ap.add_argument("--bf16", action="store_true")
a = ap.parse_args()
torch.set_num_threads(a.threads)
torch.set_flush_denormal(True)
with open(a.file, "rb") as f:
    parameters = torch_nets.load(a.net, *torch_nets.read_record(f))
net = torch_nets.NETS[a.net]
if a.net in ("mlp", "cnn", "svtr_lcnet_4", "db_lcnet_4"):
    optimizer = torch.optim.SGD(parameters, lr=1e-3 if a.net.endswith("_4") else .01, fused=True)
else:
    optimizer = torch.optim.Adam(parameters, lr=1e-3, fused=True)
losses, ms, cpu_ms = [], [], []
for _ in range(a.steps):
    start, cpu = time.perf_counter(), time.process_time()
    optimizer.zero_grad(set_to_none=True)
    with torch.autocast("cpu", torch.bfloat16, enabled=a.bf16):
        loss = net()
    loss.backward()
    optimizer.step()
    losses.append(loss.item())
    ms.append((time.perf_counter() - start) * 1e3)
    cpu_ms.append((time.process_time() - cpu) * 1e3)
print(json.dumps({"loss": losses, "ms": ms, "cpu_ms": cpu_ms, "peak_kib": resource.getrusage(resource.RUSAGE_SELF).ru_maxrss}))
