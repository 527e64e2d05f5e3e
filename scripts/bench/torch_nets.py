"""The nets of apps/bench/train_nets.cpp in PyTorch, and records of weights and batches that our programs write.

A net is a function of the global P (weights by name) and batch (tensors by name), which load() sets, to its loss. Tuned: channels-last,
batch norms and attention as PyTorch's own fused ops."""
import json
import struct

import torch
import torch.nn.functional as F

P, batch = {}, {}


def read_record(f):
    """Weights and batch of one safetensors record of a binary file, images and their weights channels-last; None at its end."""
    size = f.read(8)
    if not size:
        return None
    header = json.loads(f.read(struct.unpack("<Q", size)[0]))
    header.pop("__metadata__", None)
    body = bytearray(f.read(max((e["data_offsets"][1] for e in header.values()), default=0)))
    weights, tensors = {}, {}
    for name, e in header.items():
        kind, name = name.split(".", 1)
        dtype = {"F32": torch.float32, "I64": torch.int64}[e["dtype"]]
        begin, end = e["data_offsets"]
        t = torch.frombuffer(body[begin:end], dtype=dtype).reshape(e["shape"])
        t = t.contiguous(memory_format=torch.channels_last) if t.dim() == 4 else t.clone()
        (weights if kind == "model" else tensors)[name] = t
    return weights, tensors


def load(net, weights, tensors):
    """Sets P and batch, and what a net needs besides. Returns the parameters to train."""
    global LSTM, MASKS
    P.update(weights)
    batch.update(tensors)
    for name, t in P.items():
        if "running_" not in name:
            t.requires_grad_(True)
    if net.startswith("crnn"):
        LSTM = make_lstm()
    if net == "svtr_tiny":
        MASKS = {h: local_mask(h, 80) for h in (8, 4, 2)}
    return [t for t in P.values() if t.requires_grad]


def conv(x, name, stride=1, pad=None):
    w = P[name + ".weight"]
    return F.conv2d(x, w, P.get(name + ".bias"), stride, pad or (w.shape[2] // 2, w.shape[3] // 2), 1,
                    x.shape[1] // w.shape[1])


def bn(x, name):
    return F.batch_norm(x, P[name + ".running_mean"], P[name + ".running_var"], P[name + ".weight"], P[name + ".bias"], True)


def conv_bn(x, name, stride=1, act=None, parts=("conv", "bn")):
    y = bn(conv(x, f"{name}.{parts[0]}", stride), f"{name}.{parts[1]}")
    return act(y) if act else y


def hard_sigmoid(x, slope):
    return F.hardsigmoid(x) if slope == 1 / 6 else torch.clamp(slope * x + .5, 0, 1)


def squeeze_excite(x, name, slope):
    return x * hard_sigmoid(conv(F.relu(conv(F.adaptive_avg_pool2d(x, 1), name + ".conv1")), name + ".conv2"), slope)


def linear(x, name):
    return F.linear(x, P[name + ".weight"], P.get(name + ".bias"))


def layer_norm(x, name, eps):
    return F.layer_norm(x, x.shape[-1:], P[name + ".weight"], P[name + ".bias"], eps)


def attention(x, name, heads, mask=None):
    n, t, c = x.shape
    q, k, v = linear(x, name + ".qkv").reshape(n, t, 3, heads, c // heads).permute(2, 0, 3, 1, 4)
    return linear(F.scaled_dot_product_attention(q, k, v, mask).transpose(1, 2).reshape(n, t, c), name + ".proj")


def svtr_block(x, name, heads, eps, act, mask=None):
    x = x + attention(layer_norm(x, name + ".norm1", eps), name + ".mixer", heads, mask)
    return x + linear(act(linear(layer_norm(x, name + ".norm2", eps), name + ".mlp.fc1")), name + ".mlp.fc2")


def tokens(x):
    return x.flatten(2).transpose(1, 2)


def image(x, height):
    n, t, c = x.shape
    return x.transpose(1, 2).reshape(n, c, height, t // height)


def ctc(logits):
    losses = F.ctc_loss(logits.log_softmax(2).transpose(0, 1), batch["labels"], torch.full((logits.shape[0],), logits.shape[1]),
                        batch["lengths"], reduction="none", zero_infinity=True)
    return losses.mean()


# ---- PP-LCNetV3


def rep(x, name, stride):
    total = bn(x, name + ".identity") if name + ".identity.weight" in P else None
    names = [f"{name}.conv_kxk.{i}" for i in range(8)] + [name + ".conv_1x1"]
    for branch in names:
        if branch + ".conv.weight" in P:
            y = conv_bn(x, branch, stride)
            total = y if total is None else total + y
    y = total * P[name + ".lab.scale"] + P[name + ".lab.bias"]
    if stride == (2, 2):
        return y
    return F.hardswish(y) * P[name + ".act.lab.scale"] + P[name + ".act.lab.bias"]


def lcnet_v3(x, strides):
    """The output of each stage; `strides`: of the first block of blocks3 to blocks6, and of later ones by name."""
    x = conv_bn(x, "backbone.conv1", 2)
    stages = []
    for stage, blocks in ((2, 1), (3, 2), (4, 2), (5, 5), (6, 4)):
        for i in range(blocks):
            name = f"backbone.blocks{stage}.{i}"
            x = rep(x, name + ".dw_conv", strides.get((stage, i), (1, 1)))
            if name + ".se.conv1.weight" in P:
                x = squeeze_excite(x, name + ".se", 1 / 6)
            x = rep(x, name + ".pw_conv", (1, 1))
        stages.append(x)
    return stages


def svtr_lcnet():
    strides = {(4, 0): (2, 1), (5, 0): (1, 2), (6, 0): (2, 1), (6, 2): (2, 1)}
    row = F.adaptive_avg_pool2d(lcnet_v3(batch["image"], strides)[-1], (1, 40))
    e = "head.ctc_encoder.encoder"
    part = lambda x, name: conv_bn(x, f"{e}.{name}", 1, F.silu, ("conv", "norm"))
    x = tokens(part(part(row, "conv1"), "conv2"))
    for i in range(2):
        x = svtr_block(x, f"{e}.svtr_block.{i}", 8, 1e-5, F.silu)
    x = part(image(layer_norm(x, e + ".norm", 1e-6), 1), "conv3")
    x = part(part(torch.cat((row, x), 1), "conv4"), "conv1x1")
    return ctc(linear(tokens(x), "head.ctc_head.fc"))


def gated(x, name):
    y = conv(x, name + ".in_conv")
    return y + squeeze_excite(y, name + ".se_block", .2)


def map_head(x, name):
    y = F.relu(bn(conv(x, name + ".conv1"), name + ".conv_bn1"))
    y = F.conv_transpose2d(y, P[name + ".conv2.weight"], P[name + ".conv2.bias"], 2)
    y = F.relu(bn(y, name + ".conv_bn2"))
    return torch.sigmoid(F.conv_transpose2d(y, P[name + ".conv3.weight"], P[name + ".conv3.bias"], 2))


def dice(p, g, m, eps=1e-6):
    return 1 - 2 * (p * g * m).sum() / ((p * m).sum() + (g * m).sum() + eps)


def db():
    scales = lcnet_v3(batch["image"], {(s, 0): (2, 2) for s in (3, 4, 5, 6)})[1:]
    p = [gated(conv(x, f"backbone.layer_list.{i}"), f"neck.ins_conv.{i}") for i, x in enumerate(scales)]
    for i in (2, 1, 0):
        p[i] = p[i] + F.interpolate(p[i + 1], scale_factor=2)
    p = [gated(x, f"neck.inp_conv.{i}") for i, x in enumerate(p)]
    x = torch.cat([F.interpolate(p[i], scale_factor=2**i) if i else p[0] for i in (3, 2, 1, 0)], 1)
    shrink, threshold = map_head(x, "head.binarize"), map_head(x, "head.thresh")
    binary = torch.sigmoid(50 * (shrink - threshold))
    g, m = batch["map"], batch["mask"]
    l1 = ((threshold - g).abs() * m).sum() / (m.sum() + 1e-6)
    return 5 * dice(shrink, g, m) + 10 * l1 + dice(binary, g, m)


# ---- SVTR and CRNN


def local_mask(h, w, window=(7, 11)):
    y, x = torch.arange(h * w) // w, torch.arange(h * w) % w
    seen = ((y[:, None] - y).abs() <= window[0] // 2) & ((x[:, None] - x).abs() <= window[1] // 2)
    return torch.where(seen, 0., float("-inf"))


MASKS = {}


def svtr_tiny():
    x = batch["image"]
    for i in range(2):
        x = conv_bn(x, f"backbone.patch_embed.proj.{i}", 2, F.gelu, ("conv", "norm"))
    x = tokens(x) + P["backbone.pos_embed"]
    height, block = 8, 0
    for stage, (depth, heads) in enumerate(((3, 2), (6, 4), (3, 8)), 1):
        for i in range(depth):
            x = svtr_block(x, f"backbone.blocks{stage}.{i}", heads, 1e-6, F.gelu, MASKS[height] if block < 6 else None)
            block += 1
        if stage < 3:
            y = conv(image(x, height), f"backbone.sub_sample{stage}.conv", (2, 1))
            height //= 2
            x = layer_norm(tokens(y), f"backbone.sub_sample{stage}.norm", 1e-5)
    x = image(layer_norm(x, "backbone.norm", 1e-6), height)
    x = F.hardswish(conv(F.adaptive_avg_pool2d(x, (1, 40)), "backbone.last_conv"))
    return ctc(linear(tokens(x), "head.fc"))


def make_lstm():
    w = {k.removeprefix("neck.encoder.lstm."): v for k, v in P.items() if k.startswith("neck.encoder.lstm.")}
    lstm = torch.nn.LSTM(w["weight_ih_l0"].shape[1], w["weight_hh_l0"].shape[1], 2, bidirectional=True, batch_first=True)
    with torch.no_grad():
        for name, p in lstm.named_parameters():
            p.copy_(w[name])
            P["neck.encoder.lstm." + name] = p
    return lstm


LSTM = None


def crnn_mv3():
    x = conv_bn(batch["image"], "backbone.conv1", 2, F.hardswish)
    relu_rows, strides = 3, {0: (1, 1), 1: (2, 1), 3: (2, 1), 8: (2, 1)}
    for i in range(11):
        name, act = f"backbone.blocks.{i}", F.relu if i < relu_rows else F.hardswish
        y = conv_bn(x, name + ".expand_conv", 1, act)
        y = conv_bn(y, name + ".bottleneck_conv", strides.get(i, 1), act)
        if name + ".mid_se.conv1.weight" in P:
            y = squeeze_excite(y, name + ".mid_se", .2)
        y = conv_bn(y, name + ".linear_conv")
        x = x + y if y.shape == x.shape and i not in strides else y  # a stride per axis: no shortcut, even if it is 1
    x = F.max_pool2d(conv_bn(x, "backbone.conv2", 1, F.hardswish), 2)
    return ctc(linear(LSTM(tokens(x))[0], "head.fc"))


# ---- The small ones


def mlp():
    return F.cross_entropy(linear(F.relu(linear(batch["x"], "hidden")), "out"), batch["labels"])


def text_classifier():
    words = F.embedding(batch["words"], P["embedding.weight"])
    return F.cross_entropy(linear(words.mean(1), "out"), batch["labels"])


def cnn():
    x = F.max_pool2d(F.relu(conv(batch["image"], "conv")), 2)
    return F.cross_entropy(linear(x.flatten(1), "fc"), batch["labels"])


def ctc_alone():
    return ctc(P["logits"])


NETS = {"svtr_lcnet_1": svtr_lcnet, "svtr_lcnet_4": svtr_lcnet, "db_lcnet_1": db, "db_lcnet_4": db, "svtr_tiny": svtr_tiny,
        "crnn_mv3": crnn_mv3, "mlp": mlp, "text_classifier": text_classifier, "cnn": cnn, "ctc_6625": ctc_alone,
        "ctc_97": ctc_alone}
