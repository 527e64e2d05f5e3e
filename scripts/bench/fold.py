#!/usr/bin/env python3
"""Writes an ONNX file that computes the same with fewer nodes, so that a peer runtime is measured at its best.

usage: fold.py IN.onnx OUT.onnx
Identities go; constant factors and summands after a convolution go into its weights and bias; a constant factor and summand before
convolutions without padding go into those; x * Clip(x + 3, 0, 6) / 6 becomes x * HardSigmoid(x), which runtimes know how to fuse.
Checks the result against the original with ONNX Runtime on a random input."""
import collections
import sys

import numpy as np
import onnx
from onnx import helper, numpy_helper


class Folder:
    def __init__(self, model):
        self.graph = model.graph
        self.constants = {i.name: numpy_helper.to_array(i) for i in self.graph.initializer}
        for n in [n for n in self.graph.node if n.op_type == "Constant" and n.attribute[0].name == "value"]:
            self.constants[n.output[0]] = numpy_helper.to_array(n.attribute[0].t)
            self.graph.node.remove(n)
        self.index()

    def index(self):
        self.producer = {o: n for n in self.graph.node for o in n.output}
        self.readers = collections.defaultdict(list)
        for n in self.graph.node:
            for i in n.input:
                self.readers[i].append(n)
        self.results = {o.name for o in self.graph.output}

    def drop(self, node, value):
        """Removes a node; its readers read `value` instead."""
        for r in self.readers[node.output[0]]:
            for k, name in enumerate(r.input):
                if name == node.output[0]:
                    r.input[k] = value
        self.graph.node.remove(node)
        self.index()

    def constant(self, node):
        """(data input, constant as float64) of a Mul or Add with one constant operand, else None."""
        for k in (0, 1):
            if node.input[k] in self.constants and node.input[1 - k] not in self.constants:
                return node.input[1 - k], self.constants[node.input[k]].astype(np.float64)
        return None

    def per_channel(self, value, channels):
        """The constant as a vector over channels, or None when it varies otherwise."""
        if value.size == 1:
            return np.full(channels, value.reshape(-1)[0])
        if value.ndim in (3, 4) and value.size == channels and value.shape[-3] == channels:
            return value.reshape(-1)
        return None

    def parts(self, conv):
        w = self.constants[conv.input[1]].astype(np.float64)
        b = self.constants[conv.input[2]].astype(np.float64) if len(conv.input) > 2 else np.zeros(w.shape[0])
        return w, b

    def replace(self, conv, w, b):
        base = f"{conv.output[0]}_folded{len(self.constants)}"
        self.constants[base + "_w"], self.constants[base + "_b"] = w.astype(np.float32), b.astype(np.float32)
        del conv.input[1:]
        conv.input.extend([base + "_w", base + "_b"])

    def is_conv(self, node):
        return node is not None and node.op_type == "Conv" and all(i in self.constants for i in list(node.input)[1:])

    def affine_behind(self, node):
        if node.op_type not in ("Mul", "Add") or node.output[0] in self.results:
            return False
        found = self.constant(node)
        conv = found and self.producer.get(found[0])
        if not found or not self.is_conv(conv) or len(self.readers[conv.output[0]]) != 1:
            return False
        w, b = self.parts(conv)
        c = self.per_channel(found[1], w.shape[0])
        if c is None:
            return False
        if node.op_type == "Mul":
            self.replace(conv, w * c[:, None, None, None], b * c)
        else:
            self.replace(conv, w, b + c)
        self.drop(node, conv.output[0])
        return True

    def affine_before(self, node):
        if node.op_type not in ("Mul", "Add") or node.output[0] in self.results:
            return False
        found, convs = self.constant(node), self.readers[node.output[0]]
        if not found or found[1].size != 1 or not convs:
            return False
        for conv in convs:
            pads = next((a.ints for a in conv.attribute if a.name == "pads"), [])
            if not self.is_conv(conv) or (node.op_type == "Add" and any(pads)):
                return False
        value = found[1].reshape(-1)[0]
        for conv in convs:
            w, b = self.parts(conv)
            if node.op_type == "Mul":
                self.replace(conv, w * value, b)
            else:
                self.replace(conv, w, b + value * w.sum(axis=(1, 2, 3)))
        self.drop(node, found[0])
        return True

    def hard_swish(self, node):
        """node is the Div: x * Clip(x + 3, 0, 6) / 6."""
        if node.op_type != "Div" or self.scalar(node.input[1]) != 6:
            return False
        product = self.producer.get(node.input[0])
        if product is None or product.op_type != "Mul":
            return False
        for k in (0, 1):
            x, clip = product.input[k], self.producer.get(product.input[1 - k])
            if clip is None or clip.op_type != "Clip" or self.limits(clip) != (0, 6):
                continue
            add = self.producer.get(clip.input[0])
            found = add is not None and add.op_type == "Add" and self.constant(add)
            if not found or found[0] != x or found[1].size != 1 or found[1].reshape(-1)[0] != 3:
                continue
            at = list(self.graph.node).index(node)
            gate = node.output[0] + "_gate"
            nodes = [helper.make_node("HardSigmoid", [x], [gate], alpha=1 / 6, beta=0.5),
                     helper.make_node("Mul", [x, gate], [node.output[0]])]
            for old in (node, product, clip, add):
                if old is node or all(r in (node, product, clip, add) for r in self.readers[old.output[0]]):
                    self.graph.node.remove(old)
                    at -= old is not node
            for j, new in enumerate(nodes):
                self.graph.node.insert(at + j, new)
            self.index()
            return True
        return False

    def scalar(self, name):
        c = self.constants.get(name)
        return c.reshape(-1)[0] if c is not None and c.size == 1 else None

    def limits(self, clip):
        if len(clip.input) > 2:
            return self.scalar(clip.input[1]), self.scalar(clip.input[2])
        a = {x.name: x.f for x in clip.attribute}
        return a.get("min"), a.get("max")

    def identity(self, node):
        if node.op_type != "Identity" or node.output[0] in self.results or node.input[0] in self.constants:
            return False
        self.drop(node, node.input[0])
        return True

    def run(self):
        rules = (self.identity, self.hard_swish, self.affine_behind, self.affine_before)
        while any(rule(n) for rule in rules for n in list(self.graph.node)):
            pass
        used = {i for n in self.graph.node for i in n.input} | self.results
        del self.graph.initializer[:]
        self.graph.initializer.extend(
            numpy_helper.from_array(v, k) for k, v in self.constants.items() if k in used)
        inputs = [i for i in self.graph.input if i.name not in self.constants]
        del self.graph.input[:]
        self.graph.input.extend(inputs)
        del self.graph.value_info[:]


def difference(a, b):
    import onnxruntime
    sessions = [onnxruntime.InferenceSession(p, providers=["CPUExecutionProvider"]) for p in (a, b)]
    i = sessions[0].get_inputs()[0]
    dims = [d if isinstance(d, int) and d > 0 else free for d, free in zip(i.shape, (1, 3, 64 if i.shape[2] != 48 else 48, 192))]
    x = np.random.default_rng(1).uniform(-1, 1, dims).astype(np.float32)
    y = [s.run(None, {i.name: x})[0] for s in sessions]
    return float(np.abs(y[0] - y[1]).max())


def main():
    source, target = sys.argv[1:3]
    model = onnx.load(source)
    before = len(model.graph.node)
    Folder(model).run()
    onnx.save(model, target)
    worst = difference(source, target)
    if worst > 1e-3:
        sys.exit(f"{source}: the folded file differs by {worst:.2g}")
    print(f"{source}: {before} -> {len(model.graph.node)} nodes, largest difference {worst:.1g}", file=sys.stderr)


if __name__ == "__main__":
    main()
