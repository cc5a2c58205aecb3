# ===- resnet.py - ResNet-50 ------------------------------------------------=== #
#
# Part of the mpcomm project, under the Apache License v2.0 with LLVM
# Exceptions.
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#
# ===----------------------------------------------------------------------=== #
"""ResNet-50 v1.5 as torchvision builds it (He et al. 2015; the stride in the 3 x 3
convolution). Convolutions are linalg ops; batch normalisation is elementwise ops and
reductions over the rank's own samples, as DistributedDataParallel has it, without
running statistics."""

import math

from layers import add, cross_entropy, linear, relu, scope

ORDER = "(n, f, c, oh, ow, kh, kw)"


def shifted(stride):
    """Rows and columns of the padded input that a window's element reads."""
    return ", ".join("%s + %s" % (o if stride == 1 else "%s * %d" % (o, stride), k)
                     for o, k in (("oh", "kh"), ("ow", "kw")))


def generic(g, hint, maps, iterators, operands, init, body):
    """linalg.generic with an accumulator that starts at `init`."""
    names = ["%%in%d" % i for i in range(len(operands))] + ["%out"]
    arguments = ["%s: %s" % (n, v.dtype) for n, v in zip(names, [*operands, init])]
    return g.emit(
        hint, "linalg.generic {indexing_maps = [%s], iterator_types = [%s]} "
        "ins(%s : %s) outs(%s : %s) {^bb0(%s): %s} -> %s" % (
            ", ".join("affine_map<%s>" % m for m in maps),
            ", ".join('"%s"' % i for i in iterators),
            ", ".join(map(str, operands)), ", ".join(o.type for o in operands),
            init, init.type, ", ".join(arguments), body, init.type),
        (init.shape, init.dtype))


def convolution(g, x, weight, stride):
    """"Same" padding of an odd kernel, NCHW."""
    w = g.cast(weight)
    n, c, height, width = x.shape
    f, _, k, _ = w.shape
    border = k // 2
    out = (n, f, (height - 1) // stride + 1, (width - 1) // stride + 1)
    flops = 2 * math.prod(out) * c * k * k
    low = high = (0, 0, border, border)
    padded = g.pad(x, low, high) if border else x
    zero = g.constant(0.0, out)
    g.flops += flops
    y = g.emit("conv", "linalg.conv_2d_nchw_fchw {dilations = dense<1> : tensor<2xi64>, "
               "strides = dense<%d> : tensor<2xi64>} ins(%s, %s : %s, %s) outs(%s : %s) "
               "-> %s" % (stride, padded, w, padded.type, w.type, zero, zero.type,
                          zero.type), (out, g.compute))
    product = ("%product = arith.mulf %in0, %in1 : {0} "
               "%sum = arith.addf %out, %product : {0} "
               "linalg.yield %sum : {0}").format(g.compute)
    window = "%s -> (n, c, %s)" % (ORDER, shifted(stride))
    kernel = ORDER + " -> (f, c, kh, kw)"
    output = ORDER + " -> (n, f, oh, ow)"
    parallel, reduction = "parallel", "reduction"

    def backward(d):
        if x.needs_grad:
            # Each element of d goes to the window that it came from.
            g.flops += flops
            start = g.constant(0.0, padded.shape)
            dx = generic(g, "conv", [output, kernel, window],
                         [parallel, reduction, parallel] + [reduction] * 4, [d, w],
                         start, product)
            if border:
                dx = g.slice(dx, low, [a + b for a, b in zip(low, x.shape)])
            yield dx
        else:
            yield None
        g.flops += flops
        yield generic(g, "weight", [output, window, kernel],
                      [reduction, parallel, parallel, reduction, reduction, parallel,
                       parallel], [d, padded], g.constant(0.0, w.shape), product)

    return g.record(y, [x, w], backward)


def batch_norm(g, x, gamma, beta):
    """In f32, over the samples and positions of each channel."""
    dims, count = [0, 2, 3], x.shape[0] * x.shape[2] * x.shape[3]
    wide = g.convert(x, "f32")

    def channels(v):
        return g.broadcast(v, [1], x.shape)

    mean = g.scaled(g.reduce_sum(wide, dims), 1 / count)
    centred = g.sub(wide, channels(mean))
    variance = g.scaled(g.reduce_sum(g.mul(centred, centred), dims), 1 / count)
    rstd = g.same("rsqrt", "math.rsqrt",
                  g.add(variance, g.constant("1.0e-05", variance.shape, "f32")))
    scale = g.mul(gamma, rstd)
    shift = g.sub(beta, g.mul(mean, scale))
    y = g.convert(g.add(g.mul(wide, channels(scale)), channels(shift)), x.dtype)

    def backward(d):
        d = g.convert(d, "f32")
        normal = g.add(g.mul(wide, channels(rstd)),
                       channels(g.mul(mean, g.same("neg", "arith.negf", rstd))))
        dbeta = g.reduce_sum(d, dims)
        dgamma = g.reduce_sum(g.mul(d, normal), dims)
        means = channels(g.scaled(dbeta, 1 / count))
        along = g.mul(normal, channels(g.scaled(dgamma, 1 / count)))
        inner = g.sub(g.sub(d, means), along)
        yield g.convert(g.mul(inner, channels(scale)), x.dtype)
        yield dgamma
        yield dbeta

    return g.record(y, [x, gamma, beta], backward)


def max_pool(g, x):
    """3 x 3, stride 2, border 1. The gradient goes to every element that equals its
    window's maximum (PyTorch: the first of them)."""
    n, c, height, width = x.shape
    border = (0, 0, 1, 1)
    padded = g.pad(x, border, border, g.lowest)
    out = (n, c, height // 2, width // 2)
    start = g.constant(g.lowest, out)
    window = g.constant(0.0, (3, 3))
    y = g.emit("pool", "linalg.pooling_nchw_max {dilations = dense<1> : tensor<2xi64>, "
               "strides = dense<2> : tensor<2xi64>} ins(%s, %s : %s, %s) outs(%s : %s) "
               "-> %s" % (padded, window, padded.type, window.type, start, start.type,
                          start.type), (out, x.dtype))

    def backward(d):
        order = "(n, c, oh, ow, kh, kw)"
        inside = "%s -> (n, c, %s)" % (order, shifted(2))
        outside = order + " -> (n, c, oh, ow)"
        kernel = order + " -> (kh, kw)"
        body = ("%equal = arith.cmpf oeq, %in0, %in1 : {0} "
                "%zero = arith.constant 0.0 : {0} "
                "%part = arith.select %equal, %in2, %zero : {0} "
                "%sum = arith.addf %out, %part : {0} "
                "linalg.yield %sum : {0}").format(x.dtype)
        dx = generic(g, "pool", [inside, outside, outside, kernel, inside],
                     ["parallel"] * 2 + ["reduction"] * 4, [padded, y, d, window],
                     g.constant(0.0, padded.shape), body)
        yield g.slice(dx, border, [a + b for a, b in zip(border, x.shape)])

    return g.record(y, [x], backward)


def mean_pool(g, x):
    area = x.shape[2] * x.shape[3]
    y = g.scaled(g.reduce_sum(x, [2, 3]), 1 / area)
    return g.record(y, [x], lambda d: [
        g.scaled(g.broadcast(d, [0, 1], x.shape), 1 / area)])


class Unit:
    """Convolution and batch normalisation."""

    def __init__(self, g, conv, norm, out, inputs, kernel, stride):
        self.g, self.names, self.stride = g, (conv, norm), stride
        self.weight = g.parameter(conv + ".weight", out, inputs, kernel, kernel)
        self.gamma = g.parameter(norm + ".weight", out)
        self.beta = g.parameter(norm + ".bias", out)

    def __call__(self, x):
        with scope(self.g, self.names[0]):
            x = convolution(self.g, x, self.weight, self.stride)
        with scope(self.g, self.names[1]):
            return batch_norm(self.g, x, self.gamma, self.beta)


def resnet50(g, batch, size, classes=1000):
    stem = Unit(g, "conv1", "bn1", 64, 3, 7, 2)
    blocks, inputs = [], 64
    for stage, (count, width) in enumerate([(3, 64), (4, 128), (6, 256), (3, 512)]):
        for i in range(count):
            stride = 2 if stage and not i else 1
            name = "layer%d.%d." % (stage + 1, i)
            units = [Unit(g, name + "conv1", name + "bn1", width, inputs, 1, 1),
                     Unit(g, name + "conv2", name + "bn2", width, width, 3, stride),
                     Unit(g, name + "conv3", name + "bn3", 4 * width, width, 1, 1)]
            side = None if i else Unit(g, name + "downsample.0", name + "downsample.1",
                                       4 * width, inputs, 1, stride)
            blocks.append((name[:-1], units, side))
            inputs = 4 * width
    head = g.parameter("fc.weight", classes, inputs), g.parameter("fc.bias", classes)
    x = g.batch("x", (batch, 3, size, size))
    y = g.batch("y", (batch,), "i64", classes)

    h = g.convert(x, g.compute)
    h = stem(h)
    with scope(g, "relu"):
        h = relu(g, h)
    with scope(g, "maxpool"):
        h = max_pool(g, h)
    for name, units, side in blocks:
        rest = h
        for i, unit in enumerate(units):
            rest = unit(rest)
            if i < 2:
                with scope(g, name + ".relu"):
                    rest = relu(g, rest)
        skip = side(h) if side else h
        with scope(g, name):
            h = relu(g, add(g, rest, skip))
    with scope(g, "avgpool"):
        h = mean_pool(g, h)
    with scope(g, "fc"):
        logits = linear(g, h, *head)
    with scope(g, "loss"):
        loss = cross_entropy(g, logits, y)
        seed = g.constant(1.0, (), "f32")
    g.backward({loss: seed})
    return loss
