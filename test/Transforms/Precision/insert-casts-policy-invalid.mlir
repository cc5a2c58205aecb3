// What the file of a policy must not say, and where.

// RUN: split-file %s %t
// RUN: not mpcomm-opt %t/step.mlir --mpcomm-insert-casts="policy-file=%t/unscaled.json" 2>&1 | FileCheck %s --check-prefix=UNSCALEDFILE
// RUN: not mpcomm-opt %t/step.mlir --mpcomm-insert-casts="policy-file=%t/noscaling.json" 2>&1 | FileCheck %s --check-prefix=NOSCALING
// RUN: not mpcomm-opt %t/step.mlir --mpcomm-insert-casts="policy-file=%t/history.json" 2>&1 | FileCheck %s --check-prefix=HISTORYFILE
// RUN: not mpcomm-opt %t/step.mlir --mpcomm-insert-casts="policy-file=%t/fp8key.json" 2>&1 | FileCheck %s --check-prefix=FP8KEY
// RUN: not mpcomm-opt %t/step.mlir --mpcomm-insert-casts="policy-file=%t/none.json" 2>&1 | FileCheck %s --check-prefix=MISSING
// RUN: not mpcomm-opt %t/step.mlir --mpcomm-insert-casts="policy-file=%t/schema.json" 2>&1 | FileCheck %s --check-prefix=SCHEMA
// RUN: not mpcomm-opt %t/step.mlir --mpcomm-insert-casts="policy-file=%t/key.json" 2>&1 | FileCheck %s --check-prefix=KEY
// RUN: not mpcomm-opt %t/step.mlir --mpcomm-insert-casts="policy-file=%t/policy.json" 2>&1 | FileCheck %s --check-prefix=POLICY
// RUN: not mpcomm-opt %t/step.mlir --mpcomm-insert-casts="policy-file=%t/op.json" 2>&1 | FileCheck %s --check-prefix=OP
// RUN: not mpcomm-opt %t/step.mlir --mpcomm-insert-casts="policy-file=%t/class.json" 2>&1 | FileCheck %s --check-prefix=CLASS
// RUN: not mpcomm-opt %t/step.mlir --mpcomm-insert-casts="policy-file=%t/update.json" 2>&1 | FileCheck %s --check-prefix=UPDATE
// RUN: not mpcomm-opt %t/step.mlir --mpcomm-insert-casts="policy-file=%t/scale.json" 2>&1 | FileCheck %s --check-prefix=SCALE
// RUN: not mpcomm-opt %t/step.mlir --mpcomm-insert-casts="policy-file=%t/parameter.json" 2>&1 | FileCheck %s --check-prefix=PARAMETER
// RUN: not mpcomm-opt %t/step.mlir --mpcomm-insert-casts="policy-file=%t/word.json" 2>&1 | FileCheck %s --check-prefix=WORD
// RUN: not mpcomm-opt %t/step.mlir --mpcomm-insert-casts="policy-file=%t/glob.json" 2>&1 | FileCheck %s --check-prefix=GLOB

// UNSCALEDFILE: unscaled.json: policy: expected none, bf16, f16 or fp8, which gives 8 bits the scales that they need, got "f8E5M2"
// NOSCALING: noscaling.json: fp8.scaling: expected delayed or current, got "none"
// HISTORYFILE: history.json: fp8.history: expected an integer in [1, 65536], got 1.5
// FP8KEY: fp8key.json: fp8.scale: unknown key, expected history, margin, scaling
// MISSING: error: cannot read '{{.*}}none.json'
// SCHEMA: schema.json: schema: expected "mpcomm-precision-1", got "mpcomm-cluster-1"
// KEY: key.json: op: unknown key, expected activations, compute, fp8, gradients, ops, parameters, policy, schema
// POLICY: policy.json: policy: expected none, bf16, f16 or fp8, got "bf15"
// OP: op.json: ops.mpcomm.softmx: expected the name of an op with a precision, as 'mpcomm.softmax'
// CLASS: class.json: ops.mpcomm.softmax: expected lower_precision, fp32, promote or any, got "high"
// UPDATE: update.json: ops.mpcomm.sgd_update: expected fp32, as for all that updates parameters or scales, got "lower_precision"
// SCALE: scale.json: ops.mpcomm.update_loss_scale: expected fp32, as for all that updates parameters or scales, got "any"
// PARAMETER: error: 'func.func' op has no parameter that matches 'haed.*' of the precision policy, expected at least one
// WORD: word.json: parameters.w: expected lower_precision or fp32, got "half"
// GLOB: glob.json: parameters.[: expected a pattern of names

//--- schema.json
{"schema": "mpcomm-cluster-1"}
//--- key.json
{"schema": "mpcomm-precision-1", "op": {}}
//--- policy.json
{"schema": "mpcomm-precision-1", "policy": "bf15"}
//--- unscaled.json
{"schema": "mpcomm-precision-1", "policy": "f8E5M2"}
//--- noscaling.json
{"schema": "mpcomm-precision-1", "policy": "fp8", "fp8": {"scaling": "none"}}
//--- history.json
{"schema": "mpcomm-precision-1", "policy": "fp8", "fp8": {"history": 1.5}}
//--- fp8key.json
{"schema": "mpcomm-precision-1", "policy": "fp8", "fp8": {"scale": 1}}
//--- op.json
{"schema": "mpcomm-precision-1", "ops": {"mpcomm.softmx": "fp32"}}
//--- class.json
{"schema": "mpcomm-precision-1", "ops": {"mpcomm.softmax": "high"}}
//--- update.json
{"schema": "mpcomm-precision-1", "ops": {"mpcomm.sgd_update": "lower_precision"}}
//--- scale.json
{"schema": "mpcomm-precision-1", "ops": {"mpcomm.update_loss_scale": "any"}}
//--- parameter.json
{"schema": "mpcomm-precision-1", "policy": "bf16", "parameters": {"haed.*": "fp32"}}
//--- word.json
{"schema": "mpcomm-precision-1", "parameters": {"w": "half"}}
//--- glob.json
{"schema": "mpcomm-precision-1", "parameters": {"[": "fp32"}}
//--- step.mlir
func.func @train_step(%w: tensor<4x4xf32> {mpcomm.role = #mpcomm.role<parameter>, mpcomm.name = "w"})
    -> (tensor<f32> {mpcomm.role = #mpcomm.role<loss>, mpcomm.name = "loss"}) {
  %l = mpcomm.reduce sum %w, dims = [0, 1] : (tensor<4x4xf32>) -> tensor<f32>
  return %l : tensor<f32>
}
