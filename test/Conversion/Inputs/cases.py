# ===- cases.py - every compute op, and what PyTorch makes of it ------------=== #
#
# Part of the mpcomm project, under the Apache License v2.0 with LLVM
# Exceptions.
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#
# ===----------------------------------------------------------------------=== #
"""The table. Shapes are small and odd: sizes 0, 1 and not powers of two."""

import torch
import torch.nn.functional as F

from harness import Case, NAMES, type_of

FLOATS = [torch.float32, torch.float64, torch.float16, torch.bfloat16]


def rand(*shape, dtype=torch.float32):
    return torch.randn(shape, dtype=torch.float64).to(dtype)


def types(*tensors):
    return ", ".join(type_of(t) for t in tensors)


def like(shape, dtype):
    return torch.empty(shape, dtype=dtype)


def along_dim():
    for dtype in FLOATS:
        for shape, dim in [((3, 7), 1), ((2, 3, 5), 2), ((5,), 0), ((4, 1), 1),
                           ((2, 3, 5), 1), ((3, 4), 0), ((0, 4), 1), ((3, 0), 1)]:
            x, dy = rand(*shape, dtype=dtype), rand(*shape, dtype=dtype)
            y = torch.softmax(x.double(), dim).to(dtype)
            ly = torch.log_softmax(x.double(), dim).to(dtype)
            tag = "%s_%s_%d" % (NAMES[dtype], "x".join(map(str, shape)), dim)
            t = type_of(x)
            n = shape[dim]
            xd, dyd, yd, lyd = (v.double() for v in (x, dy, y, ly))
            yield Case("softmax_" + tag, [x],
                       "%%r = mpcomm.softmax %%0, dim = %d : %s\nreturn %%r" % (dim, t),
                       [torch.softmax(xd, dim)], length=n)
            yield Case("log_softmax_" + tag, [x],
                       "%%r = mpcomm.log_softmax %%0, dim = %d : %s\nreturn %%r" % (dim, t),
                       [torch.log_softmax(xd, dim)], length=n)
            yield Case("softmax_grad_" + tag, [dy, y],
                       "%%r = mpcomm.softmax_grad %%0, %%1, dim = %d : %s\nreturn %%r" % (dim, t),
                       [torch._softmax_backward_data(dyd, yd, dim, torch.float64)],
                       length=n)
            yield Case("log_softmax_grad_" + tag, [dy, ly],
                       "%%r = mpcomm.log_softmax_grad %%0, %%1, dim = %d : %s\nreturn %%r" % (dim, t),
                       [torch._log_softmax_backward_data(dyd, lyd, dim, torch.float64)],
                       length=n)
    x = torch.tensor([[1.0, float("-inf"), 2.0], [float("-inf")] * 3,
                      [1e30, 2e30, -1e30]])
    yield Case("softmax_infinite", [x],
               "%r = mpcomm.softmax %0, dim = 1 : tensor<3x3xf32>\nreturn %r",
               [torch.softmax(x.double(), 1)])


def layer_norm():
    for dtype in FLOATS:
        for lead, trail in [((3,), (7,)), ((2, 3), (5,)), ((), (6,)), ((2,), (3, 4)),
                            ((0,), (3,)), ((2, 1), (8,)), ((5,), (1,))]:
            x, dy = (rand(*lead, *trail, dtype=dtype) for _ in range(2))
            # A mean far from zero: the variance must not cancel.
            x = (x + 10).to(dtype)
            gamma, beta = rand(*trail, dtype=dtype), rand(*trail, dtype=dtype)
            tag = "%s_%s_%s" % (NAMES[dtype], "x".join(map(str, lead)) or "0d",
                                "x".join(map(str, trail)))
            xd = x.double().requires_grad_()
            gd, bd = gamma.double().requires_grad_(), beta.double().requires_grad_()
            y, mean, rstd = torch.native_layer_norm(xd, trail, gd, bd, 1e-5)
            mean, rstd = mean.detach().reshape(lead), rstd.detach().reshape(lead)
            n = gamma.numel()
            m, r = mean.to(dtype), rstd.to(dtype)
            # x ~ 10 cancels against the mean: 4 bits, in f32 as well.
            length = 16 * (n + 1) + 64
            yield Case("layer_norm_" + tag, [x, gamma, beta],
                       "%%y, %%m, %%r = mpcomm.layer_norm %%0, %%1, %%2, eps = 1.0e-05 : "
                       "(%s) -> (%s)\nreturn %%y, %%m, %%r" % (
                           types(x, gamma, beta), types(x, m, r)),
                       [y.detach(), mean, rstd], length=length)
            xhat = ((x.double() - m.double().reshape(lead + (1,) * len(trail)))
                    * r.double().reshape(lead + (1,) * len(trail)))
            g = dy.double() * gamma.double()
            dims = tuple(range(len(lead), x.dim()))
            rows = tuple(range(len(lead)))
            mg = g.mean(dims, keepdim=True)
            mgx = (g * xhat).mean(dims, keepdim=True)
            dx = r.double().reshape(lead + (1,) * len(trail)) * (g - mg - xhat * mgx)
            dgamma = (dy.double() * xhat).sum(rows) if rows else dy.double() * xhat
            dbeta = dy.double().sum(rows) if rows else dy.double()
            yield Case("layer_norm_grad_" + tag, [dy, x, m, r, gamma],
                       "%%a, %%b, %%c = mpcomm.layer_norm_grad %%0, %%1, %%2, %%3, %%4 : "
                       "(%s) -> (%s)\nreturn %%a, %%b, %%c" % (
                           types(dy, x, m, r, gamma), types(x, gamma, gamma)),
                       [dx, dgamma, dbeta], length=length)
    # The formula above against autograd, once.
    x = rand(4, 6, dtype=torch.float64).requires_grad_()
    gamma, beta = (rand(6, dtype=torch.float64).requires_grad_() for _ in range(2))
    dy = rand(4, 6, dtype=torch.float64)
    y, mean, rstd = torch.native_layer_norm(x, (6,), gamma, beta, 1e-5)
    grads = torch.autograd.grad(y, [x, gamma, beta], dy)
    x, gamma = x.detach(), gamma.detach()
    m, r = mean.detach().reshape(4), rstd.detach().reshape(4)
    yield Case("layer_norm_grad_autograd", [dy, x, m, r, gamma],
               "%%a, %%b, %%c = mpcomm.layer_norm_grad %%0, %%1, %%2, %%3, %%4 : "
               "(%s) -> (%s)\nreturn %%a, %%b, %%c" % (
                   types(dy, x, m, r, gamma), types(x, gamma, gamma)),
               list(grads), length=64)


def rms_norm():
    for dtype in FLOATS:
        for lead, trail in [((3,), (7,)), ((2, 3), (5,)), ((), (6,)), ((2,), (3, 4)), ((0,), (3,)), ((5,), (1,))]:
            x, dy = (rand(*lead, *trail, dtype=dtype) for _ in range(2))
            gamma = rand(*trail, dtype=dtype)
            tag = "%s_%s_%s" % (NAMES[dtype], "x".join(map(str, lead)) or "0d", "x".join(map(str, trail)))
            rows, dims = tuple(range(len(lead))), tuple(range(len(lead), x.dim()))
            xd, gd = x.double().requires_grad_(), gamma.double().requires_grad_()
            rstd = 1 / ((xd * xd).mean(dims, keepdim=True) + 1e-5).sqrt()
            y = xd * rstd * gd
            r = rstd.detach().reshape(lead).to(dtype)
            length = 4 * (gamma.numel() + 1) + 64
            yield Case("rms_norm_" + tag, [x, gamma],
                       "%%y, %%r = mpcomm.rms_norm %%0, %%1, eps = 1.0e-05 : (%s) -> (%s)\nreturn %%y, %%r" % (
                           types(x, gamma), types(x, r)),
                       [y.detach(), rstd.detach().reshape(lead)], length=length)
            if gamma.numel() == 1:
                continue  # g cancels against xhat * g * xhat: no relative bound holds
            xhat = x.double() * r.double().reshape(lead + (1,) * len(trail))
            g = dy.double() * gamma.double()
            dx = r.double().reshape(lead + (1,) * len(trail)) * (g - xhat * (g * xhat).mean(dims, keepdim=True))
            dgamma = (dy.double() * xhat).sum(rows) if rows else dy.double() * xhat
            yield Case("rms_norm_grad_" + tag, [dy, x, r, gamma],
                       "%%a, %%b = mpcomm.rms_norm_grad %%0, %%1, %%2, %%3 : (%s) -> (%s)\nreturn %%a, %%b" % (
                           types(dy, x, r, gamma), types(x, gamma)),
                       [dx, dgamma], length=length)
    # The formula above against autograd, once.
    x = rand(4, 6, dtype=torch.float64).requires_grad_()
    gamma = rand(6, dtype=torch.float64).requires_grad_()
    dy = rand(4, 6, dtype=torch.float64)
    rstd = 1 / ((x * x).mean(1, keepdim=True) + 1e-5).sqrt()
    grads = torch.autograd.grad(x * rstd * gamma, [x, gamma], dy)
    x, gamma, r = x.detach(), gamma.detach(), rstd.detach().reshape(4)
    yield Case("rms_norm_grad_autograd", [dy, x, r, gamma],
               "%%a, %%b = mpcomm.rms_norm_grad %%0, %%1, %%2, %%3 : (%s) -> (%s)\nreturn %%a, %%b" % (
                   types(dy, x, r, gamma), types(x, gamma)),
               list(grads), length=64)


def activations():
    for dtype in FLOATS:
        for mode in ["none", "tanh"]:
            x = torch.cat([rand(3, 5, dtype=dtype) * 3,
                           torch.tensor([[0.0, -0.0, 30.0, -30.0, 1e-4]]).to(dtype)])
            dy = rand(4, 5, dtype=dtype)
            xd = x.double().requires_grad_()
            y = F.gelu(xd, approximate=mode)
            dx, = torch.autograd.grad(y, [xd], dy.double())
            option = "approximate tanh " if mode == "tanh" else ""
            tag = "%s_%s" % (NAMES[dtype], mode)
            t = type_of(x)
            yield Case("gelu_" + tag, [x],
                       "%%r = mpcomm.gelu %%0 %s: %s\nreturn %%r" % (option, t),
                       [y.detach()])
            yield Case("gelu_grad_" + tag, [dy, x],
                       "%%r = mpcomm.gelu_grad %%0, %%1 %s: %s\nreturn %%r" % (option, t),
                       [dx])


def losses():
    for dtype in FLOATS:
        for ids in [torch.int64, torch.int32]:
            for n, v in [(5, 7), (1, 1), (3, 130), (0, 4)]:
                for mode in ["mean", "sum"]:
                    for ignored in ["none", "some", "all"]:
                        yield from cross_entropy(dtype, ids, n, v, mode, ignored)


def cross_entropy(dtype, ids, n, v, mode, ignored):
    x = (rand(n, v, dtype=dtype) * 3).to(dtype)
    y = torch.randint(0, v, (n,)).to(ids)
    index = -100
    if ignored == "some" and n > 1:
        y[1], index = index, index
    if ignored == "all":
        y[:] = index
    dloss = torch.tensor(0.75).to(dtype)
    xd = x.double().requires_grad_()
    loss = F.cross_entropy(xd, y.long(), reduction=mode, ignore_index=index)
    if mode == "mean" and n == 0:
        loss = loss * float("nan")
    lse = torch.logsumexp(x.double(), 1)
    tag = "_".join([NAMES[dtype], NAMES[ids], "%dx%d" % (n, v), mode, ignored])
    out = [like((), dtype), like((n,), dtype)]
    yield Case("cross_entropy_" + tag, [x, y],
               "%%l, %%s = mpcomm.cross_entropy %%0, %%1 %s ignore_index = %d : "
               "(%s) -> (%s)\nreturn %%l, %%s" % (mode, index, types(x, y), types(*out)),
               [loss.detach(), lse], length=n * 8 + v)
    low = lse.to(dtype)
    p = (x.double() - low.double()[:, None]).exp()
    label = torch.zeros_like(p)
    counts = y != index
    if n:
        label[counts] = F.one_hot(y[counts].long(), v).double()
    scale = dloss.double() / (counts.sum().double() if mode == "mean" else 1.0)
    grad = torch.where(counts[:, None], scale * (p - label), torch.zeros_like(p))
    yield Case("cross_entropy_grad_" + tag, [dloss, x, y, low],
               "%%d = mpcomm.cross_entropy_grad %%0, %%1, %%2, %%3 %s ignore_index = %d : "
               "(%s) -> %s\nreturn %%d" % (mode, index, types(dloss, x, y, low), type_of(x)),
               [grad], length=64)


def gathers():
    for dtype in FLOATS:
        for ids_type in [torch.int64, torch.int32]:
            for shape in [(4,), (2, 3), (), (0,)]:
                table = rand(6, 5, dtype=dtype)
                ids = torch.randint(-1, 8, shape).to(ids_type)
                tag = "%s_%s_%s" % (NAMES[dtype], NAMES[ids_type],
                                    "x".join(map(str, shape)) or "0d")
                e = table.double()[ids.long().clamp(0, 5)]
                out = like(e.shape, dtype)
                yield Case("gather_" + tag, [table, ids],
                           "%%r = mpcomm.gather %%0, %%1 : (%s) -> %s\nreturn %%r" % (
                               types(table, ids), type_of(out)), [e])
    x, ids = rand(3, 2, 5, 4), torch.tensor([[4, 0, 9], [-1, 2, 2], [3, 3, 1]])
    at = ids.clamp(0, 4)[:, None, :, None].expand(3, 2, 3, 4)
    yield Case("gather_shared", [x, ids],
               "%r = mpcomm.gather %0, %1 dim = 2 batch_dims = 1 : "
               "(tensor<3x2x5x4xf32>, tensor<3x3xi64>) -> tensor<3x2x3x4xf32>\nreturn %r",
               [x.double().gather(2, at)])


def optimizers():
    for dtype in FLOATS:
        for shape in [(3, 5), (), (0,)]:
            for decay in [0.0, 0.1]:
                for momentum, nesterov in [(None, False), (0.9, False), (0.9, True)]:
                    yield sgd(dtype, shape, decay, momentum, nesterov)
                for step in [1, 7, 100000]:
                    yield adamw(dtype, shape, decay, step)


def sgd(dtype, shape, decay, momentum, nesterov):
    p, g, b = (rand(*shape, dtype=dtype) for _ in range(3))
    lr = torch.tensor(0.05)
    # Copies: the optimizer works in place.
    param = p.double().clone().requires_grad_()
    param.grad = g.double().clone()
    optimizer = torch.optim.SGD([param], lr=lr.double().item(), momentum=momentum or 0,
                                weight_decay=decay, nesterov=nesterov)
    if momentum is not None:
        optimizer.state[param]["momentum_buffer"] = b.double().clone()
    optimizer.step()
    tag = "%s_%s_%g_%s_%d" % (NAMES[dtype], "x".join(map(str, shape)) or "0d",
                              decay, momentum, nesterov)
    name = "sgd_" + tag.replace(".", "p")
    if momentum is None:
        return Case(name, [p, g, lr],
                    "%%r = mpcomm.sgd_update %%0, %%1, %%2, weight_decay = %f : (%s) -> %s\n"
                    "return %%r" % (decay, types(p, g, lr), type_of(p)), [param.detach()])
    return Case(name, [p, g, lr, b],
                "%%r, %%s = mpcomm.sgd_update %%0, %%1, %%2, %%3, momentum = %f, "
                "weight_decay = %f %s : (%s) -> (%s)\nreturn %%r, %%s" % (
                    momentum, decay, "{nesterov}" if nesterov else "",
                    types(p, g, lr, b), types(p, b)),
                [param.detach(), optimizer.state[param]["momentum_buffer"]])


def adamw(dtype, shape, decay, step):
    p, g, m = (rand(*shape, dtype=dtype) for _ in range(3))
    v = rand(*shape, dtype=dtype).abs().to(dtype)
    lr = torch.tensor(0.01)
    # Copies: the optimizer works in place.
    param = p.double().clone().requires_grad_()
    param.grad = g.double().clone()
    optimizer = torch.optim.AdamW([param], lr=lr.double().item(), betas=(0.9, 0.999),
                                  eps=1e-8, weight_decay=decay)
    optimizer.state[param].update(step=torch.tensor(float(step - 1)),
                                  exp_avg=m.double().clone(),
                                  exp_avg_sq=v.double().clone())
    optimizer.step()
    state = optimizer.state[param]
    count = torch.tensor(float(step))
    tag = "%s_%s_%g_%d" % (NAMES[dtype], "x".join(map(str, shape)) or "0d", decay, step)
    return Case("adamw_" + tag.replace(".", "p"), [p, g, m, v, count, lr],
                "%%a, %%b, %%c = mpcomm.adamw_update %%0, %%1, %%2, %%3, %%4, %%5, beta1 = 0.9, "
                "beta2 = 0.999, eps = 1.0e-08, weight_decay = %f : (%s) -> (%s)\n"
                "return %%a, %%b, %%c" % (decay, types(p, g, m, v, count, lr), types(p, m, v)),
                [param.detach(), state["exp_avg"], state["exp_avg_sq"]])


def all_cases():
    torch.manual_seed(0)
    for family in [along_dim, layer_norm, rms_norm, activations, losses, gathers, optimizers]:
        yield from family()
