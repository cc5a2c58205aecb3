// Updates become those of the momentum that ranks average; of AdamW the variance stays what it is.

// RUN: mpcomm-opt %s --split-input-file --mpcomm-average-momentum --verify-diagnostics | FileCheck %s
// RUN: mpcomm-opt %s --split-input-file --mpcomm-average-momentum --verify-diagnostics \
// RUN:   --mpcomm-data-parallel=size=2 | FileCheck %s --check-prefix=RANKS
// RUN: not mpcomm-opt %s --split-input-file --mpcomm-average-momentum --remarks-filter=mpcomm-average-momentum \
// RUN:   --remark-format=emitRemark -o /dev/null 2>&1 | FileCheck %s --check-prefix=COUNTS

// COUNTS: AverageMomentum {{.*}} adamw=1, sgd=0
// COUNTS: AverageMomentum {{.*}} adamw=0, sgd=1

#param = #mpcomm.role<parameter>
#state = #mpcomm.role<optimizer_state>

// CHECK-LABEL: func.func @train_step
// CHECK-SAME: (%[[P:.*]]: tensor<4xf32> {{.*}}, %[[M:.*]]: tensor<4xf32> {{.*}}, %[[V:.*]]: tensor<4xf32> {{.*}}, %[[T:.*]]: tensor<f32> {{.*}}, %[[LR:[a-z0-9]+]]: tensor<f32> {{.*}}, %[[X:[a-z0-9]+]]: tensor<4xf32> {mpcomm.name = "x"
// CHECK: %[[OLD:.*]] = arith.mulf %[[M]], %
// CHECK: %[[NEW:.*]] = arith.mulf %[[X]], %
// CHECK: %[[MOMENTUM:.*]] = arith.addf %[[OLD]], %[[NEW]]
// CHECK: %[[PN:.*]], %[[SN:.*]]:2 = mpcomm.update %[[P]], %[[MOMENTUM]], %[[M]], %[[V]], %{{.*}}, %[[LR]] {optimizer = "Adam with frozen variance"}
// CHECK: ^bb0(%[[P0:.*]]: tensor<4xf32>, %[[M1:.*]]: tensor<4xf32>, %{{.*}}: tensor<4xf32>, %[[V0:.*]]: tensor<4xf32>,
// CHECK: %[[KEPT:.*]] = arith.mulf %[[V0]], %
// CHECK: %[[V1:.*]] = arith.select %{{.*}}, %{{.*}}, %[[KEPT]]
// CHECK: %[[USED:.*]] = arith.cmpf ugt, %[[V1]], %
// CHECK: arith.select %[[USED]]
// CHECK: %[[M2:.*]] = arith.select %[[USED]], %[[M1]], %
// CHECK: mpcomm.yield %{{.*}}, %[[M2]], %[[V1]]
// CHECK: return %[[PN]], %[[SN]]#0, %[[SN]]#1, %
// RANKS: arith.addf {{.*}} : tensor<f32>
// RANKS: %[[SUM:.*]] = arith.addf {{.*}} : tensor<4xf32>
// RANKS: %[[MEAN:.*]] = mpcomm.all_reduce(%[[SUM]]) on @mesh axes ["dp"] mean
// RANKS: mpcomm.update %{{[^,]*}}, %[[MEAN]],
func.func @train_step(
    %p: tensor<4xf32> {mpcomm.role = #param, mpcomm.name = "p", mpcomm.donated = 0 : i64},
    %m: tensor<4xf32> {mpcomm.role = #state, mpcomm.name = "m", mpcomm.donated = 1 : i64},
    %v: tensor<4xf32> {mpcomm.role = #state, mpcomm.name = "v", mpcomm.donated = 2 : i64},
    %t: tensor<f32> {mpcomm.role = #state, mpcomm.name = "t", mpcomm.donated = 3 : i64},
    %lr: tensor<f32> {mpcomm.role = #mpcomm.role<hyperparameter>, mpcomm.name = "lr"},
    %x: tensor<4xf32> {mpcomm.role = #mpcomm.role<batch>, mpcomm.name = "x"})
    -> (tensor<4xf32> {mpcomm.role = #param, mpcomm.name = "p"},
        tensor<4xf32> {mpcomm.role = #state, mpcomm.name = "m"},
        tensor<4xf32> {mpcomm.role = #state, mpcomm.name = "v"},
        tensor<f32> {mpcomm.role = #state, mpcomm.name = "t"}) {
  %one = arith.constant dense<1.0> : tensor<f32>
  %t1 = arith.addf %t, %one : tensor<f32>
  %p1, %m1, %v1 = mpcomm.adamw_update %p, %x, %m, %v, %t1, %lr,
      beta1 = 0.9, beta2 = 0.999, eps = 1.0e-08, weight_decay = 0.01
      : (tensor<4xf32>, tensor<4xf32>, tensor<4xf32>, tensor<4xf32>, tensor<f32>, tensor<f32>)
      -> (tensor<4xf32>, tensor<4xf32>, tensor<4xf32>)
  return %p1, %m1, %v1, %t1 : tensor<4xf32>, tensor<4xf32>, tensor<4xf32>, tensor<f32>
}

// -----

// expected-error@+1 {{has no update with momentum, expected one by mpcomm.adamw_update, mpcomm.sgd_update or mpcomm.update}}
func.func @train_step(%p: tensor<4xf32> {mpcomm.role = #mpcomm.role<parameter>}) -> tensor<4xf32> {
  return %p : tensor<4xf32>
}

// -----

// CHECK-LABEL: func.func @train_step
// CHECK-SAME: (%[[P:.*]]: tensor<4xf32> {{.*}}, %[[B:.*]]: tensor<4xf32> {{.*}}, %[[LR:[a-z0-9]+]]: tensor<f32> {{.*}}, %[[X:[a-z0-9]+]]: tensor<4xf32> {mpcomm.name = "x"
// CHECK: %[[OLD:.*]] = arith.mulf %[[B]], %
// CHECK: %[[SUM:.*]] = arith.addf %[[OLD]], %[[X]]
// CHECK: %[[PN:.*]], %[[BN:.*]] = mpcomm.update %[[P]], %[[SUM]], %[[B]], %[[LR]] {optimizer = "SGD with averaged momentum"}
// CHECK: ^bb0(%[[P0:.*]]: tensor<4xf32>, %[[V:.*]]: tensor<4xf32>, %[[B0:.*]]: tensor<4xf32>, %{{.*}}: tensor<f32>):
// CHECK: %[[DECAY:.*]] = arith.mulf %[[P0]], %
// CHECK: %[[B1:.*]] = arith.addf %[[V]], %[[DECAY]]
// CHECK: %[[GRAD:.*]] = arith.subf %[[B1]], %
// CHECK: arith.addf %[[GRAD]], %
// CHECK: mpcomm.yield %{{.*}}, %[[B1]]
// CHECK: mpcomm.sgd_update %{{.*}}, %[[X]], %[[LR]]
func.func @train_step(
    %p: tensor<4xf32> {mpcomm.role = #mpcomm.role<parameter>, mpcomm.name = "p", mpcomm.donated = 0 : i64},
    %b: tensor<4xf32> {mpcomm.role = #mpcomm.role<optimizer_state>, mpcomm.name = "b", mpcomm.donated = 1 : i64},
    %lr: tensor<f32> {mpcomm.role = #mpcomm.role<hyperparameter>, mpcomm.name = "lr"},
    %x: tensor<4xf32> {mpcomm.role = #mpcomm.role<batch>, mpcomm.name = "x"},
    %q: tensor<4xf32> {mpcomm.role = #mpcomm.role<parameter>, mpcomm.name = "q", mpcomm.donated = 2 : i64})
    -> (tensor<4xf32> {mpcomm.role = #mpcomm.role<parameter>, mpcomm.name = "p"},
        tensor<4xf32> {mpcomm.role = #mpcomm.role<optimizer_state>, mpcomm.name = "b"},
        tensor<4xf32> {mpcomm.role = #mpcomm.role<parameter>, mpcomm.name = "q"}) {
  %p1, %b1 = mpcomm.sgd_update %p, %x, %lr, %b, momentum = 0.9, weight_decay = 0.1 {nesterov}
      : (tensor<4xf32>, tensor<4xf32>, tensor<f32>, tensor<4xf32>) -> (tensor<4xf32>, tensor<4xf32>)
  %q1 = mpcomm.sgd_update %q, %x, %lr, weight_decay = 0.0 : (tensor<4xf32>, tensor<4xf32>, tensor<f32>) -> tensor<4xf32>
  return %p1, %b1, %q1 : tensor<4xf32>, tensor<4xf32>, tensor<4xf32>
}

// -----

func.func @train_step(
    %p: tensor<4xbf16> {mpcomm.role = #mpcomm.role<parameter>, mpcomm.name = "p", mpcomm.donated = 0 : i64},
    %b: tensor<4xbf16> {mpcomm.role = #mpcomm.role<optimizer_state>, mpcomm.name = "b", mpcomm.donated = 1 : i64},
    %lr: tensor<f32> {mpcomm.role = #mpcomm.role<hyperparameter>, mpcomm.name = "lr"},
    %x: tensor<4xbf16> {mpcomm.role = #mpcomm.role<batch>, mpcomm.name = "x"})
    -> (tensor<4xbf16> {mpcomm.role = #mpcomm.role<parameter>, mpcomm.name = "p"},
        tensor<4xbf16> {mpcomm.role = #mpcomm.role<optimizer_state>, mpcomm.name = "b"}) {
  // expected-error@+1 {{has a parameter of 'bf16', expected one of 32 bits or more, in which momentum is added up}}
  %p1, %b1 = mpcomm.sgd_update %p, %x, %lr, %b, momentum = 0.9, weight_decay = 0.1
      : (tensor<4xbf16>, tensor<4xbf16>, tensor<f32>, tensor<4xbf16>) -> (tensor<4xbf16>, tensor<4xbf16>)
  return %p1, %b1 : tensor<4xbf16>, tensor<4xbf16>
}

// -----

// A rate of another type is cast.
// CHECK-LABEL: func.func @train_step
// CHECK: mpcomm.update
// CHECK: arith.extf %{{.*}} : tensor<f32> to tensor<f64>
func.func @train_step(
    %p: tensor<4xf64> {mpcomm.role = #mpcomm.role<parameter>, mpcomm.name = "p", mpcomm.donated = 0 : i64},
    %b: tensor<4xf64> {mpcomm.role = #mpcomm.role<optimizer_state>, mpcomm.name = "b", mpcomm.donated = 1 : i64},
    %lr: tensor<f32> {mpcomm.role = #mpcomm.role<hyperparameter>, mpcomm.name = "lr"},
    %x: tensor<4xf64> {mpcomm.role = #mpcomm.role<batch>, mpcomm.name = "x"})
    -> (tensor<4xf64> {mpcomm.role = #mpcomm.role<parameter>, mpcomm.name = "p"},
        tensor<4xf64> {mpcomm.role = #mpcomm.role<optimizer_state>, mpcomm.name = "b"}) {
  %p1, %b1 = mpcomm.sgd_update %p, %x, %lr, %b, momentum = 0.9, weight_decay = 0.1
      : (tensor<4xf64>, tensor<4xf64>, tensor<f32>, tensor<4xf64>) -> (tensor<4xf64>, tensor<4xf64>)
  return %p1, %b1 : tensor<4xf64>, tensor<4xf64>
}

// -----

func.func @train_step(
    %p: tensor<4xf32> {mpcomm.role = #mpcomm.role<parameter>, mpcomm.name = "p", mpcomm.donated = 0 : i64},
    %b: tensor<4xf32> {mpcomm.role = #mpcomm.role<optimizer_state>, mpcomm.name = "b", mpcomm.donated = 1 : i64},
    %lr: tensor<f32> {mpcomm.role = #mpcomm.role<hyperparameter>, mpcomm.name = "lr"},
    %x: tensor<4xf32> {mpcomm.role = #mpcomm.role<batch>, mpcomm.name = "x"})
    -> (tensor<4xf32> {mpcomm.role = #mpcomm.role<parameter>, mpcomm.name = "p"},
        tensor<4xf32> {mpcomm.role = #mpcomm.role<optimizer_state>, mpcomm.name = "b"}) {
  // expected-note@+1 {{this op hands it on}}
  %c:2 = mpcomm.clip_by_global_norm(%x) max_norm = 1.0 : (tensor<4xf32>) -> (tensor<4xf32>, tensor<f32>)
  // expected-error@+1 {{has a gradient that is clipped or scaled, expected the one of the backward pass}}
  %p1, %b1 = mpcomm.sgd_update %p, %c#0, %lr, %b, momentum = 0.9, weight_decay = 0.1
      : (tensor<4xf32>, tensor<4xf32>, tensor<f32>, tensor<4xf32>) -> (tensor<4xf32>, tensor<4xf32>)
  return %p1, %b1 : tensor<4xf32>, tensor<4xf32>
}
