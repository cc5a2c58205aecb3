// What a policy must not say, and where.

// RUN: split-file %s %t
// RUN: not mpcomm-opt %t/step.mlir --mpcomm-insert-casts="policy=int4" 2>&1 | FileCheck %s --check-prefix=TYPE
// RUN: not mpcomm-opt %t/step.mlir --mpcomm-insert-casts="policy=fp8" 2>&1 | FileCheck %s --check-prefix=FP8
// RUN: not mpcomm-opt %t/step.mlir --mpcomm-insert-casts="policy=bf16 compute=fast" 2>&1 | FileCheck %s --check-prefix=COMPUTE
// RUN: not mpcomm-opt %t/step.mlir --mpcomm-insert-casts="policy=bf16 cluster=nowhere" 2>&1 | FileCheck %s --check-prefix=CLUSTER
// RUN: not mpcomm-opt %t/step.mlir --mpcomm-insert-casts="policy-file=%t/none.json" 2>&1 | FileCheck %s --check-prefix=MISSING
// RUN: not mpcomm-opt %t/step.mlir --mpcomm-insert-casts="policy-file=%t/schema.json" 2>&1 | FileCheck %s --check-prefix=SCHEMA
// RUN: not mpcomm-opt %t/step.mlir --mpcomm-insert-casts="policy-file=%t/key.json" 2>&1 | FileCheck %s --check-prefix=KEY
// RUN: not mpcomm-opt %t/step.mlir --mpcomm-insert-casts="policy-file=%t/policy.json" 2>&1 | FileCheck %s --check-prefix=POLICY
// RUN: not mpcomm-opt %t/step.mlir --mpcomm-insert-casts="policy-file=%t/op.json" 2>&1 | FileCheck %s --check-prefix=OP
// RUN: not mpcomm-opt %t/step.mlir --mpcomm-insert-casts="policy-file=%t/class.json" 2>&1 | FileCheck %s --check-prefix=CLASS
// RUN: not mpcomm-opt %t/step.mlir --mpcomm-insert-casts="policy-file=%t/update.json" 2>&1 | FileCheck %s --check-prefix=UPDATE
// RUN: not mpcomm-opt %t/step.mlir --mpcomm-insert-casts="policy-file=%t/parameter.json" 2>&1 | FileCheck %s --check-prefix=PARAMETER
// RUN: not mpcomm-opt %t/step.mlir --mpcomm-insert-casts="policy-file=%t/word.json" 2>&1 | FileCheck %s --check-prefix=WORD
// RUN: not mpcomm-opt %t/step.mlir --mpcomm-insert-casts="policy-file=%t/glob.json" 2>&1 | FileCheck %s --check-prefix=GLOB
// RUN: not mpcomm-opt %t/nostep.mlir --mpcomm-insert-casts="policy=bf16" 2>&1 | FileCheck %s --check-prefix=NOSTEP
// RUN: not mpcomm-opt %t/taken.mlir --mpcomm-insert-casts="policy=bf16 compute=low" 2>&1 | FileCheck %s --check-prefix=TAKEN
// RUN: mpcomm-opt %t/attributes.mlir -split-input-file --mpcomm-insert-casts="policy=bf16 compute=low" -verify-diagnostics

// TYPE: error: has no policy 'int4': expected none, bf16, f16 or fp8
// FP8: error: has policy 'fp8', for which no scales are computed yet: expected bf16 or f16
// COMPUTE: error: has no compute 'fast': expected auto, low or full
// CLUSTER: error: {{.*}}nowhere
// MISSING: error: cannot read '{{.*}}none.json'
// SCHEMA: schema.json: schema: expected "mpcomm-precision-1", got "mpcomm-cluster-1"
// KEY: key.json: op: unknown key, expected activations, compute, gradients, ops, parameters, policy, schema
// POLICY: policy.json: policy: expected none, bf16, f16 or fp8, got "bf15"
// OP: op.json: ops.mpcomm.softmx: expected the name of an op with a precision, as 'mpcomm.softmax'
// CLASS: class.json: ops.mpcomm.softmax: expected low, full, widest or indifferent, got "high"
// UPDATE: update.json: ops.mpcomm.sgd_update: expected full, as for all that updates parameters, got "low"
// PARAMETER: error: 'func.func' op has no parameter that matches 'haed.*' of the precision policy, expected at least one
// WORD: word.json: parameters.w: expected low or full, got "half"
// GLOB: glob.json: parameters.[: expected a pattern of names
// NOSTEP: error: expected a function @train_step with a body of one block
// TAKEN: error: 'func.func' op has argument #1 'w.bf16', expected no such name: it is that of the copy of parameter 'w' in 'bf16'

//--- schema.json
{"schema": "mpcomm-cluster-1"}
//--- key.json
{"schema": "mpcomm-precision-1", "op": {}}
//--- policy.json
{"schema": "mpcomm-precision-1", "policy": "bf15"}
//--- op.json
{"schema": "mpcomm-precision-1", "ops": {"mpcomm.softmx": "full"}}
//--- class.json
{"schema": "mpcomm-precision-1", "ops": {"mpcomm.softmax": "high"}}
//--- update.json
{"schema": "mpcomm-precision-1", "ops": {"mpcomm.sgd_update": "low"}}
//--- parameter.json
{"schema": "mpcomm-precision-1", "policy": "bf16", "parameters": {"haed.*": "full"}}
//--- word.json
{"schema": "mpcomm-precision-1", "parameters": {"w": "half"}}
//--- glob.json
{"schema": "mpcomm-precision-1", "parameters": {"[": "full"}}
//--- nostep.mlir
func.func @other() {
  return
}
//--- step.mlir
func.func @train_step(%w: tensor<4x4xf32> {mpcomm.role = #mpcomm.role<parameter>, mpcomm.name = "w"})
    -> (tensor<f32> {mpcomm.role = #mpcomm.role<loss>, mpcomm.name = "loss"}) {
  %l = mpcomm.reduce sum %w, dims = [0, 1] : (tensor<4x4xf32>) -> tensor<f32>
  return %l : tensor<f32>
}
//--- taken.mlir
func.func @train_step(%w: tensor<4x4xf32> {mpcomm.role = #mpcomm.role<parameter>, mpcomm.name = "w", mpcomm.donated = 1 : i64},
                      %b: tensor<4x4xf32> {mpcomm.role = #mpcomm.role<buffer>, mpcomm.name = "w.bf16"})
    -> (tensor<f32> {mpcomm.role = #mpcomm.role<loss>, mpcomm.name = "loss"},
        tensor<4x4xf32> {mpcomm.role = #mpcomm.role<parameter>, mpcomm.name = "w"}) {
  %a = mpcomm.dot_general %w, %b, contracting_dims = [1] x [0] : (tensor<4x4xf32>, tensor<4x4xf32>) -> tensor<4x4xf32>
  %l = mpcomm.reduce sum %a, dims = [0, 1] : (tensor<4x4xf32>) -> tensor<f32>
  %n = math.exp %w : tensor<4x4xf32>
  return %l, %n : tensor<f32>, tensor<4x4xf32>
}
//--- attributes.mlir
func.func @train_step(%w: tensor<4x4xf32> {mpcomm.role = #mpcomm.role<parameter>, mpcomm.name = "w"})
    -> (tensor<f32> {mpcomm.role = #mpcomm.role<loss>, mpcomm.name = "loss"}) {
  // expected-error@+1 {{has 'mpcomm.precision', expected "low" or "full", got "half"}}
  %l = mpcomm.reduce sum %w, dims = [0, 1] {mpcomm.precision = "half"} : (tensor<4x4xf32>) -> tensor<f32>
  return %l : tensor<f32>
}

// -----

func.func @train_step(%w: tensor<f32> {mpcomm.role = #mpcomm.role<parameter>, mpcomm.name = "w"},
                      %i: tensor<i64> {mpcomm.role = #mpcomm.role<batch>, mpcomm.name = "i"})
    -> (tensor<f32> {mpcomm.role = #mpcomm.role<loss>, mpcomm.name = "loss"}) {
  // expected-error@+1 {{has 'mpcomm.precision' "low", expected it on a pure op without regions that reads and makes tensors of f32 and updates nothing}}
  %l = arith.sitofp %i {mpcomm.precision = "low"} : tensor<i64> to tensor<f32>
  return %l : tensor<f32>
}
