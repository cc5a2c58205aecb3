//===- NeuralOps.td - layers, losses and their gradients -*- tablegen -*-===//
//
// Part of the mpcomm project, under the Apache License v2.0 with LLVM
// Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// Composite ops of training graphs. Each is one op until the lowering, so that
// one kernel can compute it in one pass over memory.
//
//===----------------------------------------------------------------------===//

#ifndef MPCOMM_IR_NEURALOPS
#define MPCOMM_IR_NEURALOPS

include "ComputeOps.td"

/// y = f(x) along one dimension, all of one type.
class MPComm_AlongDimOp<string mnemonic, string flopsPerElement, dag ins,
                        list<Trait> traits = []>
    : MPComm_ComputeOp<mnemonic, "FP32",
        "return " # flopsPerElement #
        " * ::mpcomm::detail::countResultElements(*this);",
        !listconcat(traits, [SameOperandsAndResultType])> {
  let arguments = ins;
  let results = (outs MPComm_FloatTensor:$result);
  let hasVerifier = 1;
}

def MPComm_SoftmaxOp : MPComm_AlongDimOp<"softmax", "5",
    (ins MPComm_FloatTensor:$input, I64Attr:$dim)> {
  let summary = "exponentials along a dimension, divided by their sum";
  let description = [{
    y = exp(x - max x) / sum(exp(x - max x)) along `dim`. A slice that is all
    -inf gives NaN, as in PyTorch.

    Example:
    ```mlir
    %y = mpcomm.softmax %x, dim = 1 : tensor<8x128xf32>
    ```

    Constraints:
    - C1: `dim` is in range.

    Created by front ends; lowered by `convert-mpcomm-to-linalg`.
  }];
  let assemblyFormat = "$input `,` `dim` `=` $dim attr-dict `:` type($result)";
}

def MPComm_SoftmaxGradOp : MPComm_AlongDimOp<"softmax_grad", "4",
    (ins MPComm_FloatTensor:$grad, MPComm_FloatTensor:$output, I64Attr:$dim),
    [MPComm_LinearInGradient]> {
  let summary = "gradient of softmax";
  let description = [{
    dx = y * (dy - sum(dy * y)) along `dim`, from the gradient dy of the output
    and the output y.

    Example:
    ```mlir
    %dx = mpcomm.softmax_grad %dy, %y, dim = 1 : tensor<8x128xf32>
    ```

    Constraints:
    - C1: `dim` is in range.

    Created by front ends; lowered by `convert-mpcomm-to-linalg`.
  }];
  let assemblyFormat =
      "$grad `,` $output `,` `dim` `=` $dim attr-dict `:` type($result)";
}

def MPComm_LogSoftmaxOp : MPComm_AlongDimOp<"log_softmax", "5",
    (ins MPComm_FloatTensor:$input, I64Attr:$dim)> {
  let summary = "logarithm of softmax";
  let description = [{
    y = x - max x - log(sum(exp(x - max x))) along `dim`.

    Example:
    ```mlir
    %y = mpcomm.log_softmax %x, dim = 1 : tensor<64x10xf32>
    ```

    Constraints:
    - C1: `dim` is in range.

    Created by front ends; lowered by `convert-mpcomm-to-linalg`.
  }];
  let assemblyFormat = "$input `,` `dim` `=` $dim attr-dict `:` type($result)";
}

def MPComm_LogSoftmaxGradOp : MPComm_AlongDimOp<"log_softmax_grad", "4",
    (ins MPComm_FloatTensor:$grad, MPComm_FloatTensor:$output, I64Attr:$dim),
    [MPComm_LinearInGradient]> {
  let summary = "gradient of log_softmax";
  let description = [{
    dx = dy - exp(y) * sum(dy) along `dim`, from the gradient dy of the output
    and the output y.

    Example:
    ```mlir
    %dx = mpcomm.log_softmax_grad %dy, %y, dim = 1 : tensor<64x10xf32>
    ```

    Constraints:
    - C1: `dim` is in range.

    Created by front ends; lowered by `convert-mpcomm-to-linalg`.
  }];
  let assemblyFormat =
      "$grad `,` $output `,` `dim` `=` $dim attr-dict `:` type($result)";
}

def MPComm_LayerNormOp : MPComm_InferredOp<"layer_norm", "FP32", [{
    return 8 * ::mpcomm::detail::countElements(getInput().getType());}]> {
  let summary = "normalisation over the trailing dimensions";
  let description = [{
    y = (x - mean) * rstd * gamma + beta with rstd = 1 / sqrt(var + eps). Mean
    and (biased) variance are over as many trailing dimensions as gamma has.
    `mean` and `rstd` have the leading dimensions; the gradient reads them.

    Example:
    ```mlir
    %y, %mean, %rstd = mpcomm.layer_norm %x, %gamma, %beta, eps = 1.0e-05
        : (tensor<8x64xf32>, tensor<64xf32>, tensor<64xf32>)
        -> (tensor<8x64xf32>, tensor<8xf32>, tensor<8xf32>)
    ```

    Constraints:
    - C1: gamma and beta have the shape of the operand's trailing dimensions,
      at least one of them.
    - C2: operands have one element type.

    Created by front ends; lowered by `convert-mpcomm-to-linalg`.
  }];
  let arguments = (ins MPComm_FloatTensor:$input, MPComm_FloatTensor:$gamma,
                       MPComm_FloatTensor:$beta, F64Attr:$eps);
  let results = (outs MPComm_FloatTensor:$result, MPComm_FloatTensor:$mean,
                      MPComm_FloatTensor:$rstd);
  let assemblyFormat = [{
    $input `,` $gamma `,` $beta `,` `eps` `=` custom<PlainF64>($eps) attr-dict
    `:` functional-type(operands, results)
  }];
}

def MPComm_LayerNormGradOp : MPComm_InferredOp<"layer_norm_grad", "FP32", [{
    return 14 * ::mpcomm::detail::countElements(getInput().getType());}],
    [MPComm_LinearInGradient]> {
  let summary = "gradient of layer_norm";
  let description = [{
    With xhat = (x - mean) * rstd and g = dy * gamma, over the normalised
    dimensions of N elements:
    dx = rstd * (g - mean(g) - xhat * mean(g * xhat)); dgamma and dbeta are the
    sums of dy * xhat and of dy over the leading dimensions.

    Example:
    ```mlir
    %dx, %dgamma, %dbeta = mpcomm.layer_norm_grad %dy, %x, %mean, %rstd, %gamma
        : (tensor<8x64xf32>, tensor<8x64xf32>, tensor<8xf32>, tensor<8xf32>, tensor<64xf32>)
        -> (tensor<8x64xf32>, tensor<64xf32>, tensor<64xf32>)
    ```

    Constraints:
    - C1: gamma has the shape of the input's trailing dimensions, at least one.
    - C2: grad has the input's type.
    - C3: mean and rstd have the input's leading dimensions.

    Created by front ends; lowered by `convert-mpcomm-to-linalg`.
  }];
  let arguments = (ins MPComm_FloatTensor:$grad, MPComm_FloatTensor:$input,
                       MPComm_FloatTensor:$mean, MPComm_FloatTensor:$rstd,
                       MPComm_FloatTensor:$gamma);
  let results = (outs MPComm_FloatTensor:$input_grad,
                      MPComm_FloatTensor:$gamma_grad,
                      MPComm_FloatTensor:$beta_grad);
  let assemblyFormat = [{
    $grad `,` $input `,` $mean `,` $rstd `,` $gamma attr-dict `:`
    functional-type(operands, results)
  }];
}

def MPComm_RMSNormOp : MPComm_InferredOp<"rms_norm", "FP32", [{
    return 5 * ::mpcomm::detail::countElements(getInput().getType());}]> {
  let summary = "division by the root mean square over the trailing dimensions";
  let description = [{
    y = x * rstd * gamma with rstd = 1 / sqrt(mean(x * x) + eps). The mean is
    over as many trailing dimensions as gamma has. `rstd` has the leading
    dimensions; the gradient reads it. (Zhang and Sennrich, "Root Mean Square
    Layer Normalization", 2019.)

    Example:
    ```mlir
    %y, %rstd = mpcomm.rms_norm %x, %gamma, eps = 1.0e-05
        : (tensor<8x64xf32>, tensor<64xf32>) -> (tensor<8x64xf32>, tensor<8xf32>)
    ```

    Constraints:
    - C1: gamma has the shape of the operand's trailing dimensions, at least one
      of them.
    - C2: operands have one element type.

    Created by front ends; lowered by `convert-mpcomm-to-linalg`.
  }];
  let arguments = (ins MPComm_FloatTensor:$input, MPComm_FloatTensor:$gamma,
                       F64Attr:$eps);
  let results = (outs MPComm_FloatTensor:$result, MPComm_FloatTensor:$rstd);
  let assemblyFormat = [{
    $input `,` $gamma `,` `eps` `=` custom<PlainF64>($eps) attr-dict `:`
    functional-type(operands, results)
  }];
}

def MPComm_RMSNormGradOp : MPComm_InferredOp<"rms_norm_grad", "FP32", [{
    return 9 * ::mpcomm::detail::countElements(getInput().getType());}],
    [MPComm_LinearInGradient]> {
  let summary = "gradient of rms_norm";
  let description = [{
    With xhat = x * rstd and g = dy * gamma, over the normalised dimensions:
    dx = rstd * (g - xhat * mean(g * xhat)); dgamma is the sum of dy * xhat over
    the leading dimensions.

    Example:
    ```mlir
    %dx, %dgamma = mpcomm.rms_norm_grad %dy, %x, %rstd, %gamma
        : (tensor<8x64xf32>, tensor<8x64xf32>, tensor<8xf32>, tensor<64xf32>)
        -> (tensor<8x64xf32>, tensor<64xf32>)
    ```

    Constraints:
    - C1: gamma has the shape of the input's trailing dimensions, at least one.
    - C2: grad has the input's type.
    - C3: rstd has the input's leading dimensions.

    Created by front ends; lowered by `convert-mpcomm-to-linalg`.
  }];
  let arguments = (ins MPComm_FloatTensor:$grad, MPComm_FloatTensor:$input,
                       MPComm_FloatTensor:$rstd, MPComm_FloatTensor:$gamma);
  let results = (outs MPComm_FloatTensor:$input_grad,
                      MPComm_FloatTensor:$gamma_grad);
  let assemblyFormat = [{
    $grad `,` $input `,` $rstd `,` $gamma attr-dict `:`
    functional-type(operands, results)
  }];
}

class MPComm_GeluBase<string mnemonic, string flopsPerElement, dag operands,
                      list<Trait> traits = []>
    : MPComm_ComputeOp<mnemonic, "Promote",
        "return " # flopsPerElement #
        " * ::mpcomm::detail::countResultElements(*this);",
        !listconcat(traits, [SameOperandsAndResultType])> {
  let arguments = !con(operands, (ins
      DefaultValuedAttr<MPComm_GeluApproximationAttr,
                        "::mpcomm::GeluApproximation::None">:$approximate));
  let results = (outs MPComm_FloatTensor:$result);
}

def MPComm_GeluOp : MPComm_GeluBase<"gelu", "5",
                                    (ins MPComm_FloatTensor:$input)> {
  let summary = "Gaussian error linear unit";
  let description = [{
    y = x * Phi(x), Phi(x) = (1 + erf(x / sqrt 2)) / 2; with `approximate tanh`
    y = x / 2 * (1 + tanh(sqrt(2 / pi) * (x + 0.044715 x^3))).

    Example:
    ```mlir
    %y = mpcomm.gelu %x approximate tanh : tensor<8x64xf32>
    ```

    Created by front ends; lowered by `convert-mpcomm-to-linalg`.
  }];
  let assemblyFormat =
      "$input (`approximate` `` $approximate^)? attr-dict `:` type($result)";
}

def MPComm_GeluGradOp : MPComm_GeluBase<"gelu_grad", "10",
    (ins MPComm_FloatTensor:$grad, MPComm_FloatTensor:$input),
    [MPComm_LinearInGradient]> {
  let summary = "gradient of gelu";
  let description = [{
    dx = dy * d gelu(x) / dx, from the gradient dy of the output and the input.

    Example:
    ```mlir
    %dx = mpcomm.gelu_grad %dy, %x : tensor<8x64xf32>
    ```

    Created by front ends; lowered by `convert-mpcomm-to-linalg`.
  }];
  let assemblyFormat = [{
    $grad `,` $input (`approximate` `` $approximate^)? attr-dict `:` type($result)
  }];
}

def MPComm_CrossEntropyOp : MPComm_InferredOp<"cross_entropy", "FP32", [{
    return 5 * ::mpcomm::detail::countElements(getLogits().getType());}]> {
  let summary = "softmax cross-entropy with integer targets";
  let description = [{
    The cost of row i is lse_i - logits[i, target_i], where lse is the logarithm
    of the sum of the row's exponentials. The loss is the sum over the rows
    whose target is not `ignore_index`; `mean` divides it by the number of these
    rows (NaN if there are none, as in PyTorch). If any other target is not a
    column, the cost of its row is lse_i. With `mpcomm.range` on the argument,
    the runner rejects such data.

    Example:
    ```mlir
    %loss, %lse = mpcomm.cross_entropy %logits, %targets mean ignore_index = -100
        : (tensor<64x10xf32>, tensor<64xi64>) -> (tensor<f32>, tensor<64xf32>)
    ```

    Constraints:
    - C1: logits have rank 2.
    - C2: there is one target per row.

    Created by front ends; lowered by `convert-mpcomm-to-linalg`.
  }];
  let arguments = (ins MPComm_FloatTensor:$logits, MPComm_IndexTensor:$targets,
                       MPComm_LossReductionAttr:$reduction,
                       I64Attr:$ignore_index);
  let results = (outs MPComm_FloatTensor:$loss, MPComm_FloatTensor:$lse);
  let assemblyFormat = [{
    $logits `,` $targets `` $reduction `ignore_index` `=` $ignore_index attr-dict
    `:` functional-type(operands, results)
  }];
}

def MPComm_CrossEntropyGradOp
    : MPComm_InferredOp<"cross_entropy_grad", "FP32", [{
    return 4 * ::mpcomm::detail::countElements(getLogits().getType());}],
    [MPComm_LinearInGradient]> {
  let summary = "gradient of cross_entropy";
  let description = [{
    dlogits[i, j] = dloss * (exp(logits[i, j] - lse_i) - [j = target_i]), or 0
    if the target of row i is `ignore_index`; `mean` divides by the number of
    other rows. A target that is not a column is not equal to any j.

    Example:
    ```mlir
    %d = mpcomm.cross_entropy_grad %dloss, %logits, %targets, %lse mean ignore_index = -100
        : (tensor<f32>, tensor<64x10xf32>, tensor<64xi64>, tensor<64xf32>) -> tensor<64x10xf32>
    ```

    Constraints:
    - C1: logits have rank 2.
    - C2: there is one target, and one lse, per row.
    - C3: dloss is 0-d.

    Created by front ends; lowered by `convert-mpcomm-to-linalg`.
  }];
  let arguments = (ins MPComm_FloatTensor:$grad, MPComm_FloatTensor:$logits,
                       MPComm_IndexTensor:$targets, MPComm_FloatTensor:$lse,
                       MPComm_LossReductionAttr:$reduction,
                       I64Attr:$ignore_index);
  let results = (outs MPComm_FloatTensor:$result);
  let assemblyFormat = [{
    $grad `,` $logits `,` $targets `,` $lse `` $reduction `ignore_index` `=`
    $ignore_index attr-dict `:` functional-type(operands, results)
  }];
}

#endif // MPCOMM_IR_NEURALOPS
