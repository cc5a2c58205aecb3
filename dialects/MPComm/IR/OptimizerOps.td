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
        [DeclareOpInterfaceMethods<MPComm_OptimizerOpInterface>]>;

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

#endif // MPCOMM_IR_OPTIMIZEROPS
