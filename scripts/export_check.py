#!/usr/bin/env python3
"""Compares exported models with ONNX Runtime and OpenVINO.

Every architecture of tests/export is exported with seeded weights; each file must pass onnx.checker, load in both runtimes,
and give the trained net's values before the last softmax or sigmoid within 1e-4 of their range, at three batches and sizes.

usage: scripts/export_check.py [--tests build/release/tests/test_export] [--folder build/export_check]
       scripts/export_check.py --model inference.onnx --inputs image.npy...   runtimes against each other, on given inputs
needs: pip install onnx onnxruntime openvino numpy
"""
import argparse
import os
import pathlib
import subprocess
import sys

import numpy as np
import onnx
import onnxruntime


def with_logits(path):
    """The model's bytes with the input of its last node as a second output."""
    model = onnx.load(path)
    onnx.checker.check_model(model, full_check=True)
    last = next(n for n in model.graph.node if model.graph.output[0].name in n.output)
    assert last.op_type in ("Softmax", "Sigmoid"), last.op_type
    model.graph.output.append(onnx.helper.make_tensor_value_info(last.input[0], onnx.TensorProto.FLOAT, None))
    return model.SerializeToString()


def runtimes(path):
    """Functions from an input to (probabilities, values before the last softmax), by name."""
    data = with_logits(path)
    session = onnxruntime.InferenceSession(data, providers=["CPUExecutionProvider"])
    run = {"onnxruntime " + onnxruntime.__version__: lambda x: session.run(None, {"x": x})}
    try:
        import openvino
    except ImportError:
        return run
    core = openvino.Core()
    compiled = core.compile_model(core.read_model(data), "CPU", {"INFERENCE_PRECISION_HINT": "f32"})
    run["openvino " + openvino.__version__.split("-")[0]] = lambda x: [compiled([x])[o] for o in compiled.outputs]
    return run


def difference(got, wanted):
    return float(np.abs(got - wanted).max() / max(float(wanted.max() - wanted.min()), 1e-6))


def check_architectures(tests, folder):
    folder.mkdir(parents=True, exist_ok=True)
    for old in folder.iterdir():
        old.unlink()
    subprocess.run([tests, "--gtest_filter=*Architectures*", "--gtest_brief=1"], check=True,
                   env=dict(os.environ, OCR_KEEP_EXPORTS=str(folder)))
    worst = {}
    models = sorted(folder.glob("*.onnx"))
    for path in models:
        for name, run in runtimes(str(path)).items():
            greatest = 0.0
            for at in range(3):
                x = np.load(folder / f"{path.stem}.{at}.images.npy")
                wanted = np.load(folder / f"{path.stem}.{at}.logits.npy")
                greatest = max(greatest, difference(run(x)[1], wanted))
            print(f"{path.stem:24} {name:22} {greatest:.1e}")
            worst[name] = max(worst.get(name, 0), greatest)
    print(f"{len(models)} models;", ", ".join(f"{n}: greatest difference {d:.1e} of the range" for n, d in worst.items()))
    return models and all(d <= 1e-4 for d in worst.values())


def check_model(path, inputs):
    run = runtimes(path)
    good = True
    for file in inputs:
        results = {name: f(np.load(file)) for name, f in run.items()}
        first = next(iter(results.values()))
        for name, r in results.items():
            d = difference(r[1], first[1])
            print(f"{file}: {name}: {r[0].shape}, {d:.1e}")
            good = good and d <= 1e-4
    return good


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--tests", default="build/release/tests/test_export")
    parser.add_argument("--folder", type=pathlib.Path, default=pathlib.Path("build/export_check"))
    parser.add_argument("--model")
    parser.add_argument("--inputs", nargs="*", default=[])
    a = parser.parse_args()
    sys.exit(0 if (check_model(a.model, a.inputs) if a.model else check_architectures(a.tests, a.folder)) else 1)


if __name__ == "__main__":
    main()
