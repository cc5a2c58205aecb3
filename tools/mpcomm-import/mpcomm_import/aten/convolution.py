# ===- convolution.py - convolutions and their gradients ------------------=== #
#
# Part of the mpcomm project, under the Apache License v2.0 with LLVM
# Exceptions.
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#
# ===----------------------------------------------------------------------=== #
"""Translations of convolutions of 1, 2 and 3 dimensions, also transposed.

Images are [N, C, H, W] here, as in PyTorch; which layout they have in memory is
the compiler's choice (`mpcomm-channels-last`). A convolution whose windows do
not overlap is a product with patches where that costs no copy.
"""

from ..emit.contraction import contract
from ..emit.pointwise import reduce
from ..emit.views import View, coalesce
from .convert import aten
from .emit.convolution import Geometry, filter_grad, forward, input_grad
from .movement import reshaped
from .pointwise import arithmetic

# --- windows that do not overlap ------------------------------------------------------ #


def splits(x, weight, geometry, transposed):
    """Whether a convolution is the product of a filter with patches of what comes
    in: as a rule the first layer of a transformer, or a line whose features lie side
    by side. Deeper in a network of images the layout that the other convolutions
    have counts for more."""
    kernel = list(weight.shape[2:])
    x = coalesce(x)
    features_last = len(kernel) == 1 and bool(x.factors[-1]) and x.factors[-1] == x.dims[1]
    return (x.base.op is None or features_last) and not transposed and \
        geometry.groups == 1 and not any(geometry.low) and geometry.strides == kernel and \
        all(d == 1 or k == 1 for d, k in zip(geometry.dilation, kernel)) and \
        all(n % k == 0 for n, k in zip(x.shape[2:], kernel))


def patches(c, x, kernel):
    """[N, C, H, W] seen as [N, C, H/p, p, W/q, q]."""
    shape = list(x.shape[:2])
    for n, k in zip(x.shape[2:], kernel):
        shape += [n // k, k]
    return reshaped(c, x, shape)


def outer_dims(spatial):
    return [2 + 2 * i for i in range(spatial)]


def inner_dims(spatial):
    return [3 + 2 * i for i in range(spatial)]


def patches_forward(c, x, weight):
    spatial = len(weight.dims) - 2
    x = patches(c, x, weight.shape[2:])
    pairs = [(1, 1)] + [(d, 2 + i) for i, d in enumerate(inner_dims(spatial))]
    y = contract(c.builder, x, weight, contracting=pairs)  # [N, h, w, D]
    return y.permute([0, spatial + 1] + list(range(1, spatial + 1)))


def patches_input_grad(c, grad, x, weight):
    spatial = len(weight.dims) - 2
    # [N, h, w] of the gradient, then [C, p, q] of the weight.
    dx = contract(c.builder, grad, weight, contracting=[(1, 0)])
    order = [0, spatial + 1]
    for i in range(spatial):
        order += [1 + i, spatial + 2 + i]
    return reshaped(c, dx.permute(order), x.shape)


def patches_filter_grad(c, grad, x, weight):
    spatial = len(weight.dims) - 2
    x = patches(c, x, weight.shape[2:])
    pairs = [(0, 0)] + [(2 + i, d) for i, d in enumerate(outer_dims(spatial))]
    return contract(c.builder, grad, x, contracting=pairs)


# --- operators ------------------------------------------------------------------------- #

def per_channel(v, spatial):
    """[C] as [C, 1, 1]."""
    return View(v.base, v.factors, v.dims + [[]] * spatial)


@aten("convolution")
def convolution(c, node, x, weight, bias, stride, padding, dilation, transposed,
                output_padding, groups, *flags):
    x, weight = c.view(x), c.view(weight)
    geometry = Geometry.of(weight, stride, padding, dilation, groups)
    shape = c.result_meta()[0]
    if splits(x, weight, geometry, transposed):
        y = patches_forward(c, x, weight)
    elif transposed:  # the gradient of a convolution whose output is x
        y = input_grad(c, x, weight, geometry, shape)
    else:
        y = forward(c, x, weight, geometry, shape[2:])
    if bias is None:
        return y
    return arithmetic(c, "add", y, per_channel(c.view(bias), len(shape) - 2))


@aten("convolution_backward")
def convolution_backward(c, node, grad, x, weight, bias_sizes, stride, padding,
                         dilation, transposed, output_padding, groups, mask):
    grad, x, weight = c.view(grad), c.view(x), c.view(weight)
    geometry = Geometry.of(weight, stride, padding, dilation, groups)
    product = splits(x, weight, geometry, transposed)
    dx = dw = db = None
    if mask[0]:
        if product:
            dx = patches_input_grad(c, grad, x, weight)
        elif transposed:
            dx = forward(c, grad, weight, geometry, x.shape[2:])
        else:
            dx = input_grad(c, grad, weight, geometry, x.shape)
    if mask[1]:
        if product:
            dw = patches_filter_grad(c, grad, x, weight)
        elif transposed:
            dw = filter_grad(c, x, grad, geometry, weight.shape)
        else:
            dw = filter_grad(c, grad, x, geometry, weight.shape)
    if mask[2]:
        db = reduce(c.builder, "sum", grad,
                    [i for i in range(len(grad.dims)) if i != 1], False)
    return [dx, dw, db]
