#!/usr/bin/env python3
"""Times one ONNX model in a peer runtime, in a process of its own; prints one JSON line like `ocr bench --json`.

usage: net_run.py ort|openvino|openvino-bf16 MODEL NxCxHxW THREADS SECONDS"""
import json
import sys
import time

import numpy as np

runtime, model, shape, threads, seconds = sys.argv[1:6]
dims, threads, seconds = [int(d) for d in shape.split("x")], int(threads), float(seconds)
x = np.random.default_rng(1).uniform(-1, 1, dims).astype(np.float32)
if runtime == "ort":
    import onnxruntime

    options = onnxruntime.SessionOptions()
    options.intra_op_num_threads, options.inter_op_num_threads = threads, 1
    session = onnxruntime.InferenceSession(model, options, providers=["CPUExecutionProvider"])
    name = session.get_inputs()[0].name
    run = lambda: session.run(None, {name: x})
else:
    import openvino

    core = openvino.Core()
    net = core.read_model(model)
    net.reshape({net.inputs[0].get_any_name(): dims})
    request = core.compile_model(
        net, "CPU", {"INFERENCE_NUM_THREADS": threads, "INFERENCE_PRECISION_HINT": "bf16" if runtime.endswith("bf16") else "f32",
                     "PERFORMANCE_HINT": "LATENCY", "NUM_STREAMS": 1}).create_infer_request()
    run = lambda: request.infer([x])
for _ in range(3):
    run()
times, cpu, end = [], [], time.perf_counter() + seconds
while len(times) < 5 or time.perf_counter() < end:
    start, cpu_start = time.perf_counter(), time.process_time()
    run()
    cpu.append(time.process_time() - cpu_start)
    times.append(time.perf_counter() - start)
times.sort()
cpu.sort()
print(json.dumps({"median_ms": 1e3 * times[len(times) // 2], "cpu_ms": 1e3 * cpu[len(cpu) // 2], "best_ms": 1e3 * times[0],
                  "runs": len(times)}))
