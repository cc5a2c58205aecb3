//===- OptimizerOps.td - optimizer updates -*- tablegen -*-===//
//
// Part of the mpcomm project, under the Apache License v2.0 with LLVM
// Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#ifndef MPCOMM_IR_OPTIMIZEROPS
#define MPCOMM_IR_OPTIMIZEROPS

include "ComputeOps.td"

class MPComm_OptimizerOp<string mnemonic, string flopsPerElement>
    : MPComm_InferredOp<mnemonic, "FP32",
        "return " # flopsPerElement #
        " * ::mpcomm::detail::countElements(getParam().getType());",
        [DeclareOpInterfaceMethods<MPComm_OptimizerOpInterface>]> {
  let extraClassDeclaration = computeDeclarations # [{
    bool isElementwise() { return true; }
  }];
}

def MPComm_SgdUpdateOp : MPComm_OptimizerOp<"sgd_update", "6"> {
  let summary = "stochastic gradient descent, with momentum";
  let description = [{
    As torch.optim.SGD: d = grad + weight_decay * param; with a momentum buffer
    b' = momentum * b + d (zero at first), d = nesterov ? d + momentum * b' : b';
    param' = param - lr * d. Returns param', and b' if there is a buffer.

    Example:
    ```mlir
    %p1, %b1 = mpcomm.sgd_update %p, %g, %lr, %b, momentum = 0.9, weight_decay = 0.0 {nesterov}
        : (tensor<8xf32>, tensor<8xf32>, tensor<f32>, tensor<8xf32>)
        -> (tensor<8xf32>, tensor<8xf32>)
    ```

    Constraints:
    - C1: grad and the momentum buffer have the parameter's type.
    - C2: `momentum` is given if and only if there is a buffer; `nesterov`
      requires it.

    Created by front ends; lowered by `convert-mpcomm-to-linalg`.
  }];
  let arguments = (ins MPComm_FloatTensor:$param, MPComm_FloatTensor:$grad,
                       MPComm_ScalarTensor:$lr,
                       Optional<MPComm_FloatTensor>:$momentum_buffer,
                       OptionalAttr<F64Attr>:$momentum, F64Attr:$weight_decay,
                       UnitAttr:$nesterov);
  let results = (outs MPComm_FloatTensor:$new_param,
                      Optional<MPComm_FloatTensor>:$new_momentum_buffer);
  let assemblyFormat = [{
    $param `,` $grad `,` $lr `,` `` custom<OptionalOperand>($momentum_buffer)
    (`momentum` `=` custom<PlainF64>($momentum)^ `,`)?
    `weight_decay` `=` custom<PlainF64>($weight_decay) attr-dict `:`
    functional-type(operands, results)
  }];
}

def MPComm_AdamwUpdateOp : MPComm_OptimizerOp<"adamw_update", "15"> {
  let summary = "Adam with decoupled weight decay";
  let description = [{
    As torch.optim.AdamW (Loshchilov and Hutter, "Decoupled Weight Decay
    Regularization", 2019): p = param * (1 - lr * weight_decay);
    m' = beta1 * m + (1 - beta1) * grad; v' = beta2 * v + (1 - beta2) * grad^2;
    p' = p - lr / (1 - beta1^step) * m' / (sqrt(v') / sqrt(1 - beta2^step) + eps).
    `step` counts this update: it is 1 in the first. Returns p', m', v'.

    Example:
    ```mlir
    %p1, %m1, %v1 = mpcomm.adamw_update %p, %g, %m, %v, %step, %lr,
        beta1 = 0.9, beta2 = 0.999, eps = 1.0e-08, weight_decay = 0.01
        : (tensor<8xf32>, tensor<8xf32>, tensor<8xf32>, tensor<8xf32>, tensor<f32>, tensor<f32>)
        -> (tensor<8xf32>, tensor<8xf32>, tensor<8xf32>)
    ```

    Constraints:
    - C1: grad and the two moments have the parameter's type.

    Created by front ends; lowered by `convert-mpcomm-to-linalg`.
  }];
  let arguments = (ins MPComm_FloatTensor:$param, MPComm_FloatTensor:$grad,
                       MPComm_FloatTensor:$exp_avg,
                       MPComm_FloatTensor:$exp_avg_sq,
                       MPComm_ScalarTensor:$step, MPComm_ScalarTensor:$lr,
                       F64Attr:$beta1, F64Attr:$beta2, F64Attr:$eps,
                       F64Attr:$weight_decay);
  let results = (outs MPComm_FloatTensor:$new_param,
                      MPComm_FloatTensor:$new_exp_avg,
                      MPComm_FloatTensor:$new_exp_avg_sq);
  let assemblyFormat = [{
    $param `,` $grad `,` $exp_avg `,` $exp_avg_sq `,` $step `,` $lr `,`
    `beta1` `=` custom<PlainF64>($beta1) `,` `beta2` `=`
    custom<PlainF64>($beta2) `,` `eps` `=` custom<PlainF64>($eps) `,`
    `weight_decay` `=` custom<PlainF64>($weight_decay) attr-dict `:`
    functional-type(operands, results)
  }];
}

def MPComm_UpdateOp : MPComm_ComputeOp<"update", "FP32",
    "return ::mpcomm::detail::countFlops(getBody());",
    [IsolatedFromAbove, SingleBlock,
     DeclareOpInterfaceMethods<MPComm_OptimizerOpInterface,
                               ["isElementwise"]>]> {
  let summary = "the update of an optimizer, as a region";
  let description = [{
    The update of one parameter by any rule. The region computes the new
    parameter and the new states from the parameter, its gradient, the states
    and further values, such as a learning rate: its arguments are the operands.
    The first of `inputs` are the states, one for each of `new_states`, of any
    shape. The precision in which the region computes is that of its ops. Passes
    treat the op as one update: gradients are reduced, unscaled and clipped
    before it, and a skipped step keeps the parameter and all states.

    `optimizer` names the rule for people, as in "RMSprop".

    Example:
    ```mlir
    func.func @lion(%p: tensor<8xf32>, %g: tensor<8xf32>, %m: tensor<8xf32>, %lr: tensor<f32>)
        -> (tensor<8xf32>, tensor<8xf32>) {
      %p1, %m1 = mpcomm.update %p, %g, %m, %lr {optimizer = "Lion"}
          : (tensor<8xf32>, tensor<8xf32>, tensor<8xf32>, tensor<f32>)
          -> (tensor<8xf32>, tensor<8xf32>) {
      ^bb0(%q: tensor<8xf32>, %d: tensor<8xf32>, %b: tensor<8xf32>, %r: tensor<f32>):
        %c = arith.constant dense<0.9> : tensor<8xf32>
        %x = arith.mulf %b, %c : tensor<8xf32>
        %y = arith.addf %x, %d : tensor<8xf32>
        %one = arith.constant dense<1.0> : tensor<8xf32>
        %s = math.copysign %one, %y : tensor<8xf32>
        %w = mpcomm.broadcast_in_dim %r, dims = [] : (tensor<f32>) -> tensor<8xf32>
        %z = arith.mulf %w, %s : tensor<8xf32>
        %n = arith.subf %q, %z : tensor<8xf32>
        mpcomm.yield %n, %y : tensor<8xf32>, tensor<8xf32>
      }
      return %p1, %m1 : tensor<8xf32>, tensor<8xf32>
    }
    ```

    Constraints:
    - C1: grad has the parameter's type.
    - C2: the arguments of the region have the types of the operands, in order.
    - C3: the region yields the results; these have the types of the parameter
      and of the first of `inputs`, in order.
    - C4: the ops of the region are pure and have no regions of their own, and
      none of them communicates, depends on the rank, or is an update.

    Created by front ends; `convert-mpcomm-to-linalg` replaces it by the ops of
    its region and lowers these.
  }];
  let arguments = (ins MPComm_FloatTensor:$param, MPComm_FloatTensor:$grad,
                       Variadic<MPComm_Tensor>:$inputs,
                       OptionalAttr<StrAttr>:$optimizer);
  let results = (outs MPComm_FloatTensor:$new_param,
                      Variadic<MPComm_Tensor>:$new_states);
  let regions = (region SizedRegion<1>:$body);
  let assemblyFormat = [{
    $param `,` $grad (`,` $inputs^)? attr-dict `:`
    functional-type(operands, results) $body
  }];
  let hasRegionVerifier = 1;
}

#endif // MPCOMM_IR_OPTIMIZEROPS
