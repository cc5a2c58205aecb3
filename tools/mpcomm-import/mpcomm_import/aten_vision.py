# ===- aten_vision.py - convolutions, pools and batch norm ---------------=== #
#
# Part of the mpcomm project, under the Apache License v2.0 with LLVM
# Exceptions.
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#
# ===----------------------------------------------------------------------=== #
"""Translations of what convolutional networks are made of, and of its gradients.

Images are [N, C, H, W] here, as in PyTorch; which layout they have in memory is
the compiler's choice (`mpcomm-channels-last`).
"""

import torch

from .aten_neural import patches_backward, patches_forward, splits
from .aten_pointwise import arithmetic, cast, elementwise, formula
from .contraction import contract
from .convert import aten
from .errors import Unsupported
from .ir import Type
from .pointwise import reduce
from .views import View, materialise


def whole(c, x):
    return materialise(c.builder, c.view(x))


def pair(x):
    x = [x] if isinstance(x, int) else list(x)
    return x * 2 if len(x) == 1 else x


def image(view, what):
    if len(view.shape) != 4:
        raise Unsupported(f"expected {what} with 4 dimensions, found {len(view.shape)}")


# --- convolution ------------------------------------------------------------------- #

def windows(weight, stride, padding, dilation, transposed, groups):
    if transposed:
        raise Unsupported("transposed")
    if len(weight.shape) != 4:
        raise Unsupported(f"of {len(weight.shape) - 2} dimensions")
    padding = pair(padding)
    return dict(strides=pair(stride), low=padding, high=padding,
                dilation=pair(dilation), groups=groups)


@aten("convolution")
def convolution(c, node, x, weight, bias, stride, padding, dilation, transposed,
                output_padding, groups):
    x, weight = c.view(x), c.view(weight)
    if splits(x, weight, stride, padding, dilation, transposed, groups):
        return patches_forward(c, x, weight, bias)
    attributes = windows(weight, stride, padding, dilation, transposed, groups)
    type = Type(*c.result_meta())
    y = View.of(c.builder.create(
        "mpcomm.convolution", [whole(c, x), whole(c, weight)], [type], **attributes)[0])
    if bias is None:
        return y
    bias = c.view(bias)
    return arithmetic(c, "add", y,
                      View(bias.base, bias.factors, bias.dims + [[], []]))


@aten("convolution_backward")
def convolution_backward(c, node, grad, x, weight, bias_sizes, stride, padding,
                         dilation, transposed, output_padding, groups, mask):
    grad, x, weight = c.view(grad), c.view(x), c.view(weight)
    if splits(x, weight, stride, padding, dilation, transposed, groups):
        return patches_backward(c, grad, x, weight, mask)
    attributes = windows(weight, stride, padding, dilation, transposed, groups)
    dy = whole(c, grad)
    dx = dw = db = None
    if mask[0]:
        dx = View.of(c.builder.create(
            "mpcomm.convolution_input_grad", [dy, whole(c, weight)],
            [Type(x.shape, grad.dtype)], **attributes)[0])
    if mask[1]:
        dw = View.of(c.builder.create(
            "mpcomm.convolution_filter_grad", [dy, whole(c, x)],
            [Type(weight.shape, grad.dtype)], **attributes)[0])
    if mask[2]:
        db = reduce(c.builder, "sum", grad, [0, 2, 3], False)
    return [dx, dw, db]


# --- pools --------------------------------------------------------------------------- #

class Indices:
    """Where the greatest elements of windows are: the gradient finds them anew."""

    def force(self, c):
        raise Unsupported("the indices of its maxima")


def pool_windows(x, shape, kernel, stride, padding, ceil_mode):
    """Attributes of a pool of `x` into `shape`: with ceil_mode a window may reach
    past the padded input, as padding after."""
    kernel, padding = pair(kernel), pair(padding)
    stride = pair(stride) if stride else kernel
    high = [max(0, (out - 1) * s + k - size - p) if ceil_mode else p for out, s, k, size, p
            in zip(shape[2:], stride, kernel, x.shape[2:], padding)]
    return dict(window=kernel, strides=stride, low=padding, high=high)


def check_pool(x, dilation):
    image(x, "an input")
    if pair(dilation) != [1, 1]:
        raise Unsupported("with dilation")


@aten("max_pool2d_with_indices")
def max_pool(c, node, x, kernel, stride=(), padding=0, dilation=1, ceil_mode=False):
    x = c.view(x)
    check_pool(x, dilation)
    shape = pooled_shape(x, kernel, stride, padding, ceil_mode)
    attributes = pool_windows(x, shape, kernel, stride, padding, ceil_mode)
    return [View.of(c.builder.create("mpcomm.max_pool", [whole(c, x)],
                                     [Type(shape, x.dtype)], **attributes)[0]),
            Indices()]


def pooled_shape(x, kernel, stride, padding, ceil_mode):
    kernel, padding = pair(kernel), pair(padding)
    stride = pair(stride) if stride else kernel
    shape = list(x.shape[:2])
    for size, k, s, p in zip(x.shape[2:], kernel, stride, padding):
        room = size + 2 * p - k
        count = (-(-room // s) if ceil_mode else room // s) + 1
        if ceil_mode and (count - 1) * s >= size + p:
            count -= 1  # a window has to start in the input or ahead of it
        shape.append(count)
    return shape


@aten("max_pool2d_with_indices_backward")
def max_pool_backward(c, node, grad, x, kernel, stride, padding, dilation, ceil_mode,
                      indices):
    grad, x = c.view(grad), c.view(x)
    check_pool(x, dilation)
    attributes = pool_windows(x, grad.shape, kernel, stride, padding, ceil_mode)
    return View.of(c.builder.create(
        "mpcomm.max_pool_grad", [whole(c, grad), whole(c, x)], [Type(x.shape, x.dtype)],
        **attributes)[0])


def average_windows(x, shape, kernel, stride, padding, ceil_mode, count_padding, divisor):
    if divisor is not None:
        raise Unsupported("with divisor_override")
    attributes = pool_windows(x, shape, kernel, stride, padding, ceil_mode)
    if count_padding and attributes["high"] != attributes["low"] and \
            any(h > p for h, p in zip(attributes["high"], attributes["low"])):
        raise Unsupported("with windows past the padding that is counted")
    if count_padding and any(attributes["low"]):
        attributes["count_padding"] = True
    return attributes


@aten("avg_pool2d")
def avg_pool(c, node, x, kernel, stride=(), padding=0, ceil_mode=False,
             count_include_pad=True, divisor_override=None):
    x = c.view(x)
    image(x, "an input")
    shape = c.result_meta()[0]
    attributes = average_windows(x, shape, kernel, stride, padding, ceil_mode,
                                 count_include_pad, divisor_override)
    return View.of(c.builder.create("mpcomm.avg_pool", [whole(c, x)],
                                    [Type(shape, x.dtype)], **attributes)[0])


@aten("avg_pool2d_backward")
def avg_pool_backward(c, node, grad, x, kernel, stride, padding, ceil_mode,
                      count_include_pad, divisor_override):
    grad, x = c.view(grad), c.view(x)
    attributes = average_windows(x, grad.shape, kernel, stride, padding, ceil_mode,
                                 count_include_pad, divisor_override)
    return View.of(c.builder.create("mpcomm.avg_pool_grad", [whole(c, grad)],
                                    [Type(x.shape, x.dtype)], **attributes)[0])


def adaptive_windows(size, out):
    """The window, if all are equal and follow one another; else None."""
    if any(n % m for n, m in zip(size, out)):
        return None
    kernel = [n // m for n, m in zip(size, out)]
    return dict(window=kernel, strides=kernel, low=[0, 0], high=[0, 0])


def adaptive_weights(size, out):
    """[out, size]: how much of each element is in each mean."""
    weights = torch.zeros(out, size)
    for i in range(out):
        begin, end = i * size // out, -(-(i + 1) * size // out)
        weights[i, begin:end] = 1 / (end - begin)
    return weights


def adapt(c, x, sizes, side):
    """Products of both image dimensions with such weights: windows of several
    sizes are rare and small. `side` is the dimension of the weights to sum over."""
    for size, out in sizes:
        weights = cast(c, c.constant_tensor(adaptive_weights(size, out)), x.dtype)
        x = contract(c.builder, x, weights, contracting=[(2, side)])
    return x


@aten("_adaptive_avg_pool2d")
def adaptive_avg_pool(c, node, x, out):
    x = c.view(x)
    image(x, "an input")
    attributes = adaptive_windows(x.shape[2:], out)
    if attributes is None:
        return adapt(c, x, list(zip(x.shape[2:], out)), 1)
    return View.of(c.builder.create(
        "mpcomm.avg_pool", [whole(c, x)], [Type(x.shape[:2] + tuple(out), x.dtype)],
        **attributes)[0])


@aten("_adaptive_avg_pool2d_backward")
def adaptive_avg_pool_backward(c, node, grad, x):
    grad, x = c.view(grad), c.view(x)
    attributes = adaptive_windows(x.shape[2:], grad.shape[2:])
    if attributes is None:
        return adapt(c, grad, list(zip(x.shape[2:], grad.shape[2:])), 0)
    return View.of(c.builder.create("mpcomm.avg_pool_grad", [whole(c, grad)],
                                    [Type(x.shape, x.dtype)], **attributes)[0])


# --- batch norm ---------------------------------------------------------------------- #

class Rstd:
    """1 / sqrt(variance + eps), which the gradient makes of the variance."""

    def __init__(self, variance, eps):
        self.variance, self.eps = variance, eps

    def force(self, c):
        root = elementwise(c, [formula(c, "add", self.variance, self.eps)],
                           lambda v: c.builder.create("math.sqrt", [v], [v.type])[0])
        return formula(c, "div", 1.0, root)


def features(c, x, given, default):
    size, dtype = x.shape[1], x.dtype
    return whole(c, given) if given is not None else \
        c.builder.constant(default, Type((size,), dtype))


@aten("native_batch_norm", "_native_batch_norm_legit")
def batch_norm(c, node, x, weight, bias, mean, variance, training, momentum, eps):
    x = c.view(x)
    if len(x.shape) < 2:
        raise Unsupported("of a tensor with one dimension")
    gamma, beta = features(c, x, weight, 1.0), features(c, x, bias, 0.0)
    base = whole(c, x)
    if not training:
        y = c.builder.create(
            "mpcomm.batch_norm_inference",
            [base, gamma, beta, whole(c, mean), whole(c, variance)], [base.type],
            eps=float(eps), feature_dim=1)[0]
        return [View.of(y), Indices(), Indices()]
    y, m, v = c.builder.create(
        "mpcomm.batch_norm_training", [base, gamma, beta],
        [base.type, gamma.type, gamma.type], eps=float(eps), feature_dim=1)
    if mean is not None:
        count = base.type.size // x.shape[1]
        unbiased = View.of(v)
        if count > 1:
            unbiased = formula(c, "mul", unbiased, count / (count - 1))
        for argument, old, new in ((3, mean, View.of(m)), (4, variance, unbiased)):
            kept = formula(c, "mul", c.view(old), 1 - momentum)
            c.overwrite(node.args[argument],
                        formula(c, "add", kept, formula(c, "mul", new, momentum)))
    return [View.of(y), View.of(m), Rstd(View.of(v), float(eps))]


@aten("native_batch_norm_backward")
def batch_norm_backward(c, node, grad, x, weight, running_mean, running_var, mean, rstd,
                        training, eps, mask):
    if not training:
        raise Unsupported("with statistics that are not the batch's")
    x = c.view(x)
    base = whole(c, x)
    gamma = features(c, x, weight, 1.0)
    results = c.builder.create(
        "mpcomm.batch_norm_grad",
        [whole(c, grad), base, gamma, whole(c, mean), whole(c, rstd.variance)],
        [base.type, gamma.type, gamma.type], eps=float(eps), feature_dim=1)
    return [View.of(v) for v in results]
