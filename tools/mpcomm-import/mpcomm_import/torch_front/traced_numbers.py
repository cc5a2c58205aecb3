# ===- traced_numbers.py - Python numbers that a graph computes ------------=== #
#
# Part of the mpcomm project, under the Apache License v2.0 with LLVM
# Exceptions.
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#
# ===----------------------------------------------------------------------=== #
"""Follows what an optimizer computes with Python's numbers: the count of its
steps, its learning rate, the value of a tensor.

A Number is a float to whoever asks for its type, and a 0-d tensor of float64 in
the graph that is being traced. Its value as a float is NaN, so that a use which
cannot be followed leaves a NaN in the graph, which `check_followed` finds.
Where Python code decides by a Number (`if step > 5`), `Paths` runs it for both
answers and selects between the results.
"""

import builtins
import contextlib
import math

import torch
from torch.overrides import TorchFunctionMode
from torch.utils._pytree import tree_flatten, tree_unflatten

# Runs of one function, each with other answers to its questions.
MAX_PATHS = 64


class Untraceable(Exception):
    """What an optimizer computes cannot be followed; says why."""


class Number(float):
    """A number that the graph computes."""

    def __new__(cls, tensor):
        self = super().__new__(cls, math.nan)
        self.tensor = tensor.detach().to(torch.float64, copy=True)
        return self

    def __hash__(self):
        return id(self)

    def __repr__(self):
        return "a number that the graph computes"

    def __neg__(self):
        return Number(-self.tensor)

    def __pos__(self):
        return self

    def __abs__(self):
        return Number(self.tensor.abs())

    def __bool__(self):
        return decide(self.tensor != 0)

    def __pow__(self, other):
        if isinstance(other, (int, float)) and not isinstance(other, Number) and \
                other in (0.5, 1, 2, 3):
            return Number(self.tensor.sqrt() if other == 0.5 else self.tensor ** int(other))
        return calculate(torch.pow, self, other)

    def __rpow__(self, other):
        # PyTorch's own power loses digits of a base near 1 in no other way.
        if other > 0:
            return Number(torch.exp(self.tensor * math.log(other)))
        return calculate(torch.pow, other, self)

    def __divmod__(self, other):
        return self // other, self % other

    def refused(self, *_):
        raise Untraceable("a number that depends on the step or on data is made an integer "
                          "or a plain float")

    __int__ = __float__ = __round__ = __trunc__ = __floor__ = __ceil__ = refused
    is_integer = as_integer_ratio = hex = refused


def calculate(function, *operands):
    """A Number; NotImplemented for what is no number."""
    if not all(isinstance(o, (int, float)) for o in operands):
        return NotImplemented
    like = next(o.tensor for o in operands if isinstance(o, Number))
    return Number(function(*[
        o.tensor if isinstance(o, Number) else
        torch.full((), float(o), dtype=torch.float64, device=like.device)
        for o in operands]))


def floor_divide(a, b):
    return torch.floor(a / b)


def remainder(a, b):
    return a - torch.floor(a / b) * b


def define_operators():
    arithmetic = {"add": torch.add, "sub": torch.sub, "mul": torch.mul,
                  "truediv": torch.true_divide, "floordiv": floor_divide, "mod": remainder}
    for name, function in arithmetic.items():
        setattr(Number, f"__{name}__", lambda a, b, f=function: calculate(f, a, b))
        setattr(Number, f"__r{name}__", lambda a, b, f=function: calculate(f, b, a))

    def compare(function):
        def ask(a, b):
            answer = calculate(function, a, b)
            return answer if answer is NotImplemented else decide(answer.tensor != 0)
        return ask

    for name in ("lt", "le", "gt", "ge", "eq", "ne"):
        setattr(Number, f"__{name}__", compare(getattr(torch, name)))


define_operators()


# --- decisions ----------------------------------------------------------------- #

class Paths:
    """Runs a function for all answers to the questions that it asks of Numbers and
    tensors, and selects among the results in the graph."""

    active = []

    def __init__(self, answer=True):
        self.given, self.asked, self.runs = [], [], 0
        self.answer = answer  # the first to try

    def once(self, function):
        """The result of one run, whatever it asks."""
        Paths.active.append(self)
        try:
            return function()
        finally:
            Paths.active.pop()

    def run(self, function):
        """The result of `function`, a dictionary of tensors and Numbers."""
        result = self.once(lambda: self.explore(function, []))
        if isinstance(result, Exception):
            raise result
        return result

    def explore(self, function, given):
        self.given, self.asked, self.runs = given, [], self.runs + 1
        if self.runs > MAX_PATHS:
            raise Untraceable(f"more than {MAX_PATHS} ways through its conditions")
        try:
            result = function()
        except Untraceable:
            raise
        except Exception as error:  # as of a check that does not hold on this path
            result = error
        asked = self.asked
        answers = [answer for _, answer in asked]
        for i in reversed(range(len(given), len(asked))):
            other = self.explore(function, answers[:i] + [False])
            result = merge(asked[i][0], result, other)
        return result

    def decide(self, condition):
        at = len(self.asked)
        answer = self.given[at] if at < len(self.given) else self.answer
        self.asked.append((condition, answer))
        return answer


def decide(condition):
    if not Paths.active:
        raise Untraceable("a condition on the step or on data where it cannot be followed")
    return Paths.active[-1].decide(condition)


def merge(condition, a, b):
    """`a` where the condition holds, else `b`: dictionaries of tensors and Numbers.
    Of a path that ends in an error the other one is taken."""
    if isinstance(a, Exception) or isinstance(b, Exception):
        return b if isinstance(a, Exception) else a
    if a.keys() != b.keys():
        raise Untraceable("its state depends on a condition on the step or on data")
    return {k: select(k, condition, a[k], b[k]) for k in a}


def select(key, condition, a, b):
    if a is b:
        return a
    if isinstance(a, Number) and isinstance(b, Number):
        return Number(torch.where(condition, a.tensor, b.tensor))
    if isinstance(a, torch.Tensor) and isinstance(b, torch.Tensor) and \
            (a.shape, a.dtype) == (b.shape, b.dtype):
        return torch.where(condition, a, b)
    if not isinstance(a, torch.Tensor) and type(a) is type(b) and a == b:
        return a
    raise Untraceable(f"the type of '{key}' depends on a condition on the step or on data")


# --- functions that see Numbers ------------------------------------------------ #

def product(scale, a, like):
    return a * scale.tensor.to(like.dtype)


def add(x, other, alpha, sign=1):
    scaled = product(alpha, other, x) if isinstance(other, torch.Tensor) else \
        (alpha * other).tensor.to(x.dtype)
    return x + scaled if sign > 0 else x - scaled


def addcdiv(x, a, b, value):
    return x + product(value, a, x) / b


def clamp(x, min=None, max=None):
    for bound, function in ((min, torch.maximum), (max, torch.minimum)):
        if bound is not None:
            if not isinstance(bound, torch.Tensor):
                bound = torch.full((), bound, dtype=x.dtype, device=x.device)
            x = function(x, bound)
    return x


# What takes a number and no tensor, as a function that takes a tensor.
FORMULAS = {
    "add": lambda x, other, alpha: add(x, other, alpha),
    "sub": lambda x, other, alpha: add(x, other, alpha, -1),
    "addcmul": lambda x, a, b, value: x + product(value, a, x) * b,
    "addcdiv": addcdiv,
    "addmm": lambda x, a, b, beta=1, alpha=1: x * beta + (a @ b) * alpha,
    "addmv": lambda x, a, b, beta=1, alpha=1: x * beta + (a @ b) * alpha,
    "addr": lambda x, a, b, beta=1, alpha=1: x * beta + torch.outer(a, b) * alpha,
    "baddbmm": lambda x, a, b, beta=1, alpha=1: x * beta + torch.bmm(a, b) * alpha,
    "clamp": clamp, "clip": clamp,
    "clamp_min": lambda x, min: clamp(x, min=min),
    "clamp_max": lambda x, max: clamp(x, max=max),
}
# Names of the arguments behind the tensors, which may be given by position.
SCALES = {"addcmul": "value", "addcdiv": "value"}


class Follow(TorchFunctionMode):
    """Gives PyTorch's functions the tensors of Numbers, and makes Numbers of what
    they take out of tensors."""

    def __torch_function__(self, function, types, args=(), kwargs=None):
        kwargs = kwargs or {}
        name = getattr(function, "__name__", "")
        if name in ("item", "tolist") and not isinstance(args[0], Number):
            if args[0].dim() or args[0].dtype == torch.bool:
                return decide(args[0]) if args[0].numel() == 1 else function(*args, **kwargs)
            return Number(args[0])
        if name in ("__bool__", "is_nonzero"):
            return decide(args[0].reshape(()) != 0)
        if name in ("__float__", "__int__", "__index__"):
            raise Untraceable(f"{name.strip('_')}() of a tensor; use item()")
        if name in ("__get__", "__set__") and \
                getattr(function, "__self__", None) is torch.Tensor.data:
            return args[0].detach() if name == "__get__" else args[0].copy_(args[1])
        if name == "resize_as_" and args[0].numel() == 0:  # x.new().resize_as_(y)
            return torch.empty_like(args[1], dtype=args[0].dtype)
        flat, spec = tree_flatten((list(args), dict(kwargs)))
        if not any(isinstance(x, Number) for x in flat):
            if name in ("tensor", "as_tensor", "scalar_tensor") and \
                    isinstance(args[0], (int, float)) and not isinstance(args[0], bool):
                # A constant of the graph is not written to; this may be.
                dtype = kwargs.get("dtype") or (torch.int64 if isinstance(args[0], int) else
                                                torch.get_default_dtype())
                return torch.full((), args[0], dtype=dtype)
            return function(*args, **kwargs)
        try:
            return self.call(function, name, flat, spec)
        except TypeError:
            raise Untraceable(f"{name}() takes a number that depends on the step or on "
                              "data") from None

    def call(self, function, name, flat, spec):
        args, kwargs = tree_unflatten(flat, spec)
        if name in ("tensor", "as_tensor", "scalar_tensor"):
            return args[0].tensor.to(kwargs.get("dtype") or torch.get_default_dtype(), copy=True)
        if name in ("full", "full_like", "new_full"):
            at = 2 if name == "new_full" else 1
            value = kwargs.pop("fill_value", None) if len(args) <= at else args.pop(at)
            made = function(*args, 0.0, **kwargs)
            return value.tensor.to(made.dtype).expand(made.shape).clone()
        plain = name.strip("_")
        in_place = name.endswith("_") and not name.endswith("__")
        if plain in SCALES and len(args) > 3:  # addcmul(x, value, a, b) of old
            raise TypeError
        tensor = next(x for x in flat if isinstance(x, torch.Tensor))
        if plain in FORMULAS and (plain not in ("add", "sub") or
                                  isinstance(kwargs.get("alpha"), Number)):
            if plain.startswith("add") and plain[3:] in ("mm", "mv", "r") or plain == "baddbmm":
                kwargs = {k: v.tensor.to(tensor.dtype) if isinstance(v, Number) else v
                          for k, v in kwargs.items()}
            elif plain.startswith("cl"):
                args, kwargs = tensors_of((args, kwargs), tensor)
            result = FORMULAS[plain](*args, **kwargs)
            return args[0].copy_(result) if in_place else result
        args, kwargs = tensors_of((args, kwargs), tensor)
        return function(*args, **kwargs)


def tensors_of(tree, like):
    """`tree` with tensors in the place of Numbers, of the type of `like`: a number
    does not change the type of what it is combined with."""
    dtype = like.dtype if like.is_floating_point() else torch.float64
    flat, spec = tree_flatten(tree)
    return tree_unflatten([x.tensor.to(dtype) if isinstance(x, Number) else x for x in flat],
                          spec)


def extremum(original, function):
    def apply(*args, **kwargs):
        values = args[0] if len(args) == 1 and isinstance(args[0], (list, tuple)) else args
        if not kwargs and any(isinstance(v, Number) for v in values) and \
                all(isinstance(v, (int, float)) for v in values):
            result = values[0]
            for value in values[1:]:
                result = calculate(function, result, value) if \
                    isinstance(result, Number) or isinstance(value, Number) else \
                    original(result, value)
            return result
        return original(*args, **kwargs)
    return apply


def seeing(original, function):
    def apply(*args):
        if any(isinstance(a, Number) for a in args):
            return function(*args)
        return original(*args)
    return apply


@contextlib.contextmanager
def following(step):
    """Python's own functions see Numbers, and PyTorch's do, also those that the module of
    `step` has by another name."""
    numbers = {n: lambda x, f=getattr(torch, n): Number(f(x.tensor))
               for n in ("sqrt", "exp", "log", "log1p", "expm1", "log2", "log10", "sin", "cos",
                         "tanh")}
    numbers["fabs"] = abs
    numbers["pow"] = lambda a, b: a ** b
    numbers.update({n: lambda x, f=getattr(torch, n): decide(f(x.tensor))
                    for n in ("isnan", "isinf", "isfinite")})
    for name in ("floor", "ceil", "trunc", "fmod", "hypot", "erf", "copysign", "isclose"):
        numbers[name] = Number.refused
    new = [(math, n, seeing(getattr(math, n), f)) for n, f in numbers.items()]
    new += [(builtins, "min", extremum(min, torch.minimum)),
            (builtins, "max", extremum(max, torch.maximum))]
    new = [(vars(module), name, function) for module, name, function in new]
    own = {id(table[name]): function for table, name, function in new}
    names = getattr(step, "__globals__", {})
    new += [(names, name, own[id(value)]) for name, value in names.items() if id(value) in own]
    saved = [(table, name, table[name]) for table, name, _ in new]
    try:
        for table, name, function in new:
            table[name] = function
        with Follow():
            yield
    finally:
        for table, name, value in saved:
            table[name] = value


def check_followed(graph):
    """Refuses a graph into which the float of a Number has come."""
    for node in graph.nodes:
        flat, _ = tree_flatten((list(node.args), dict(node.kwargs)))
        if any(isinstance(x, float) and math.isnan(x) for x in flat):
            raise Untraceable("a number that depends on the step or on data is used in "
                              f"{node.target} in a way that cannot be followed")
