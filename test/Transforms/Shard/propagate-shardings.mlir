// What ranks hold follows from what is declared, by the factors of ops: forwards, backwards, through calls, and from state
// to what takes its place.
//
// RUN: mpcomm-opt %s --split-input-file --mpcomm-propagate-shardings=annotate \
// RUN:   --remarks-filter="mpcomm-propagate.*" --remark-format=emitRemark 2>%t.remarks | FileCheck %s
// RUN: FileCheck %s --check-prefix=REMARK --input-file=%t.remarks
// Without `annotate` ops stay as they are.
// RUN: mpcomm-opt %s --split-input-file --mpcomm-propagate-shardings \
// RUN:   | FileCheck %s --check-prefix=SIGNATURE --implicit-check-not=mpcomm.shardings

mpcomm.mesh @mesh <["dp" = 2, "tp" = 4]>

// Columns of %up make rows of %down, and of the state of both. The product over what is split is a partial sum, also
// after ops that are linear in it, and is reduced before others. Gradients: that of %down has rows, that of %up columns,
// and no bytes move for them.
// SIGNATURE-LABEL: func.func @train_step
// SIGNATURE-SAME: "up", mpcomm.role = #mpcomm.role<parameter>, mpcomm.sharding = #mpcomm.sharding<@mesh, [{}, {"tp"}]>
// SIGNATURE-SAME: "down", mpcomm.role = #mpcomm.role<parameter>, mpcomm.sharding = #mpcomm.sharding<@mesh, [{"tp"}, {}]>
// SIGNATURE-SAME: "down.m", mpcomm.role = #mpcomm.role<optimizer_state>, mpcomm.sharding = #mpcomm.sharding<@mesh, [{"tp"}, {}]>
// SIGNATURE-SAME: -> (
// SIGNATURE-SAME: "up"{{[^}]*}}mpcomm.sharding = #mpcomm.sharding<@mesh, [{}, {"tp"}]>
// SIGNATURE-SAME: "down"{{[^}]*}}mpcomm.sharding = #mpcomm.sharding<@mesh, [{"tp"}, {}]>
// SIGNATURE-SAME: "down.m"{{[^}]*}}mpcomm.sharding = #mpcomm.sharding<@mesh, [{"tp"}, {}]>
// %o is reduced, to be squared: twice 64 bytes.
// REMARK: Propagated{{.*}} | Function=train_step | bytes=128, partial=2, reshards=1, split=8
// CHECK-LABEL: func.func @train_step
// CHECK-SAME: %[[X:[^:]*]]: tensor<2x8xf32> {mpcomm.role = #mpcomm.role<batch>},
// CHECK: mpcomm.dot_general %[[X]]{{.*}}{mpcomm.shardings = [#mpcomm.sharding<@mesh, [{}, {"tp"}]>]}
// CHECK: math.tanh {{.*}}{mpcomm.shardings = [#mpcomm.sharding<@mesh, [{}, {"tp"}]>]}
// CHECK: mpcomm.dot_general {{.*}}{mpcomm.shardings = [#mpcomm.sharding<@mesh, [{}, {}], partial = [sum "tp"]>]}
// CHECK: arith.negf {{.*}}{mpcomm.shardings = [#mpcomm.sharding<@mesh, [{}, {}], partial = [sum "tp"]>]}
// CHECK: arith.mulf
// CHECK-NOT: mpcomm.shardings
// CHECK: mpcomm.dot_general {{.*}}{mpcomm.shardings = [#mpcomm.sharding<@mesh, [{"tp"}, {}]>]}
// CHECK: mpcomm.dot_general {{.*}}{mpcomm.shardings = [#mpcomm.sharding<@mesh, [{}, {"tp"}]>]}
// CHECK: mpcomm.dot_general {{.*}}{mpcomm.shardings = [#mpcomm.sharding<@mesh, [{}, {"tp"}]>]}
func.func @train_step(
    %x: tensor<2x8xf32> {mpcomm.role = #mpcomm.role<batch>},
    %up: tensor<8x16xf32> {mpcomm.role = #mpcomm.role<parameter>, mpcomm.name = "up", mpcomm.donated = 1 : i64,
                           mpcomm.sharding = #mpcomm.sharding<@mesh, [{}, {"tp"}]>},
    %down: tensor<16x8xf32> {mpcomm.role = #mpcomm.role<parameter>, mpcomm.name = "down", mpcomm.donated = 2 : i64},
    %m: tensor<16x8xf32> {mpcomm.role = #mpcomm.role<optimizer_state>, mpcomm.name = "down.m", mpcomm.donated = 3 : i64})
    -> (tensor<2x8xf32> {mpcomm.role = #mpcomm.role<output>},
        tensor<8x16xf32> {mpcomm.role = #mpcomm.role<parameter>, mpcomm.name = "up"},
        tensor<16x8xf32> {mpcomm.role = #mpcomm.role<parameter>, mpcomm.name = "down"},
        tensor<16x8xf32> {mpcomm.role = #mpcomm.role<optimizer_state>, mpcomm.name = "down.m"}) {
  %h = mpcomm.dot_general %x, %up, batching_dims = [] x [], contracting_dims = [1] x [0]
      : (tensor<2x8xf32>, tensor<8x16xf32>) -> tensor<2x16xf32>
  %a = math.tanh %h : tensor<2x16xf32>
  %p = mpcomm.dot_general %a, %down, batching_dims = [] x [], contracting_dims = [1] x [0]
      : (tensor<2x16xf32>, tensor<16x8xf32>) -> tensor<2x8xf32>
  %o = arith.negf %p : tensor<2x8xf32>
  %do = arith.mulf %o, %o : tensor<2x8xf32>
  %dd = mpcomm.dot_general %a, %do, batching_dims = [] x [], contracting_dims = [0] x [0]
      : (tensor<2x16xf32>, tensor<2x8xf32>) -> tensor<16x8xf32>
  %da = mpcomm.dot_general %do, %down, batching_dims = [] x [], contracting_dims = [1] x [1]
      : (tensor<2x8xf32>, tensor<16x8xf32>) -> tensor<2x16xf32>
  %du = mpcomm.dot_general %x, %da, batching_dims = [] x [], contracting_dims = [0] x [0]
      : (tensor<2x8xf32>, tensor<2x16xf32>) -> tensor<8x16xf32>
  %m1 = arith.addf %m, %dd : tensor<16x8xf32>
  %down1 = arith.subf %down, %m1 : tensor<16x8xf32>
  %up1 = arith.subf %up, %du : tensor<8x16xf32>
  return %do, %up1, %down1, %m1 : tensor<2x8xf32>, tensor<8x16xf32>, tensor<16x8xf32>, tensor<16x8xf32>
}

// -----

mpcomm.mesh @mesh <["dp" = 2, "tp" = 4]>

// Two shardings meet: that of more bytes is the op's, the other one moves. A result that is not declared is whole. Blocks of 4 ranks are none of the slower
// dimension of another shape, which has 2.
// REMARK: Propagated{{.*}} | Function=meet | bytes=192, partial=0, reshards=3, split=1
// CHECK-LABEL: func.func @meet
// CHECK: mpcomm.dot_general {{.*}}{mpcomm.shardings = [#mpcomm.sharding<@mesh, [{}, {"dp"}]>]}
// CHECK: mpcomm.reshape
// CHECK-NOT: mpcomm.shardings
// CHECK: return
func.func @meet(
    %a: tensor<3x4xf32> {mpcomm.role = #mpcomm.role<parameter>, mpcomm.sharding = #mpcomm.sharding<@mesh, [{}, {"dp"}]>},
    %b: tensor<4x8xf32> {mpcomm.role = #mpcomm.role<parameter>, mpcomm.sharding = #mpcomm.sharding<@mesh, [{}, {"dp"}]>},
    %c: tensor<4x3xf32> {mpcomm.role = #mpcomm.role<parameter>, mpcomm.sharding = #mpcomm.sharding<@mesh, [{"tp"}, {}]>})
    -> (tensor<3x8xf32>, tensor<2x6xf32>) {
  %0 = mpcomm.dot_general %a, %b, batching_dims = [] x [], contracting_dims = [1] x [0]
      : (tensor<3x4xf32>, tensor<4x8xf32>) -> tensor<3x8xf32>
  %1 = mpcomm.reshape %c : (tensor<4x3xf32>) -> tensor<2x6xf32>
  return %0, %1 : tensor<3x8xf32>, tensor<2x6xf32>
}

// -----

mpcomm.mesh @mesh <["tp" = 2]>

// Through a call, into a private function and out of it; a loop's body is not entered, and a value that it reads from
// outside is needed whole.
// SIGNATURE-LABEL: func.func private @scale
// SIGNATURE-SAME: tensor<4x6xf32> {mpcomm.sharding = #mpcomm.sharding<@mesh, [{"tp"}, {}]>}
// SIGNATURE-SAME: -> (tensor<4x6xf32> {mpcomm.sharding = #mpcomm.sharding<@mesh, [{"tp"}, {}]>})
func.func private @scale(%x: tensor<4x6xf32>) -> tensor<4x6xf32> {
  %0 = arith.addf %x, %x : tensor<4x6xf32>
  return %0 : tensor<4x6xf32>
}
// REMARK: Propagated{{.*}} | Function=calls | bytes=192, partial=0, reshards=2, split=2
// CHECK-LABEL: func.func @calls
// CHECK: call @scale{{.*}}{mpcomm.shardings = [#mpcomm.sharding<@mesh, [{"tp"}, {}]>]}
// CHECK: mpcomm.transpose {{.*}}{mpcomm.shardings = [#mpcomm.sharding<@mesh, [{}, {"tp"}]>]}
func.func @calls(
    %w: tensor<4x6xf32> {mpcomm.role = #mpcomm.role<parameter>, mpcomm.sharding = #mpcomm.sharding<@mesh, [{"tp"}, {}]>},
    %p: i1) -> (tensor<6x4xf32>, tensor<4x6xf32>) {
  %0 = call @scale(%w) : (tensor<4x6xf32>) -> tensor<4x6xf32>
  %1 = mpcomm.transpose %0, dims = [1, 0] : (tensor<4x6xf32>) -> tensor<6x4xf32>
  %2 = scf.if %p -> tensor<4x6xf32> {
    scf.yield %0 : tensor<4x6xf32>
  } else {
    %3 = arith.constant dense<0.0> : tensor<4x6xf32>
    scf.yield %3 : tensor<4x6xf32>
  }
  return %1, %2 : tensor<6x4xf32>, tensor<4x6xf32>
}

// -----

mpcomm.mesh @mesh <["dp" = 2]>

// State that is split flat: its place in the next step is, too, and what an update makes of it element by element.
// SIGNATURE-LABEL: func.func @flat
// SIGNATURE-SAME: -> (tensor<3x5xf32> {{{.*}}mpcomm.sharding = #mpcomm.sharding<@mesh, [{}, {}], flat = ["dp"]>})
// CHECK-LABEL: func.func @flat
// CHECK: arith.mulf {{.*}}{mpcomm.shardings = [#mpcomm.sharding<@mesh, [{}, {}], flat = ["dp"]>]}
func.func @flat(
    %m: tensor<3x5xf32> {mpcomm.role = #mpcomm.role<optimizer_state>, mpcomm.name = "m", mpcomm.donated = 0 : i64,
                         mpcomm.sharding = #mpcomm.sharding<@mesh, [{}, {}], flat = ["dp"]>})
    -> (tensor<3x5xf32> {mpcomm.role = #mpcomm.role<optimizer_state>, mpcomm.name = "m"}) {
  %0 = arith.mulf %m, %m : tensor<3x5xf32>
  return %0 : tensor<3x5xf32>
}

// -----

mpcomm.mesh @mesh <["dp" = 2, "tp" = 2]>

// A collective keeps what is split along other axes, and partial sums over them, and ends those over its own. Blocks along
// its own axis would be of different elements: %g is gathered.
// REMARK: Propagated{{.*}} | Function=collectives | bytes=64, partial=2, reshards=1, split=3
// CHECK-LABEL: func.func @collectives
// CHECK: arith.negf {{.*}}{mpcomm.shardings = [#mpcomm.sharding<@mesh, [{"dp"}, {}]>]}
// CHECK: mpcomm.all_reduce{{.*}} ["dp"] mean : tensor<4x4xf32>
// CHECK: mpcomm.all_reduce{{.*}} ["tp"] mean {mpcomm.shardings = [#mpcomm.sharding<@mesh, [{"dp"}, {}]>]}
// CHECK: mpcomm.dot_general{{.*}}partial = [sum "tp"]
// CHECK: mpcomm.all_reduce{{.*}} ["dp"] mean {mpcomm.shardings = [#mpcomm.sharding<@mesh, [{}, {}], partial = [sum "tp"]>]}
// CHECK: mpcomm.all_reduce{{.*}} ["tp"] sum :
// CHECK: return
func.func @collectives(
    %w: tensor<4x4xf32> {mpcomm.role = #mpcomm.role<parameter>, mpcomm.sharding = #mpcomm.sharding<@mesh, [{"dp"}, {}]>},
    %v: tensor<4x4xf32> {mpcomm.role = #mpcomm.role<parameter>, mpcomm.sharding = #mpcomm.sharding<@mesh, [{"tp"}, {}]>},
    %x: tensor<4x4xf32> {mpcomm.role = #mpcomm.role<batch>})
    -> (tensor<4x4xf32>, tensor<4x4xf32> {mpcomm.sharding = #mpcomm.sharding<@mesh, [{"dp"}, {}]>}, tensor<4x4xf32>) {
  %g = arith.negf %w : tensor<4x4xf32>
  %0 = mpcomm.all_reduce(%g) on @mesh axes ["dp"] mean : tensor<4x4xf32>
  %1 = arith.negf %w : tensor<4x4xf32>
  %2 = mpcomm.all_reduce(%1) on @mesh axes ["tp"] mean : tensor<4x4xf32>
  %3 = mpcomm.dot_general %x, %v, batching_dims = [] x [], contracting_dims = [1] x [0]
      : (tensor<4x4xf32>, tensor<4x4xf32>) -> tensor<4x4xf32>
  %4 = mpcomm.all_reduce(%3) on @mesh axes ["dp"] mean : tensor<4x4xf32>
  %5 = mpcomm.all_reduce(%4) on @mesh axes ["tp"] sum : tensor<4x4xf32>
  return %0, %2, %5 : tensor<4x4xf32>, tensor<4x4xf32>, tensor<4x4xf32>
}

// -----

mpcomm.mesh @mesh <["dp" = 2]>

// A function has one sharding of an argument, that of the first call: in another call, and for a function that is given
// its argument whole, the operand moves. A result may be made of partial terms; it is reduced where it is returned.
// REMARK: Propagated{{.*}} | Function=square
// REMARK: Propagated{{.*}} | Function=sums | bytes=32, partial=1, reshards=1, split=0
// REMARK: Propagated{{.*}} | Function=whole
// REMARK: Propagated{{.*}} | Function=callers | bytes=128, partial=0, reshards=2, split=2
// SIGNATURE-LABEL: func.func private @square
// SIGNATURE-SAME: tensor<4x4xf32> {mpcomm.sharding = #mpcomm.sharding<@mesh, [{"dp"}, {}]>}
func.func private @square(%x: tensor<4x4xf32>) -> tensor<4x4xf32> {
  %0 = arith.mulf %x, %x : tensor<4x4xf32>
  return %0 : tensor<4x4xf32>
}
// SIGNATURE-LABEL: func.func private @sums
// SIGNATURE-SAME: -> tensor<4xf32>
func.func private @sums(%x: tensor<4x4xf32>) -> tensor<4xf32> {
  %0 = mpcomm.reduce sum %x, dims = [0] : (tensor<4x4xf32>) -> tensor<4xf32>
  return %0 : tensor<4xf32>
}
func.func @whole(%x: tensor<4x4xf32> {mpcomm.role = #mpcomm.role<batch>}) -> tensor<4x4xf32> {
  return %x : tensor<4x4xf32>
}
func.func @callers(
    %a: tensor<4x4xf32> {mpcomm.role = #mpcomm.role<parameter>, mpcomm.sharding = #mpcomm.sharding<@mesh, [{"dp"}, {}]>},
    %b: tensor<4x4xf32> {mpcomm.role = #mpcomm.role<parameter>, mpcomm.sharding = #mpcomm.sharding<@mesh, [{}, {"dp"}]>}) {
  %0 = call @square(%a) : (tensor<4x4xf32>) -> tensor<4x4xf32>
  %1 = call @square(%b) : (tensor<4x4xf32>) -> tensor<4x4xf32>
  %2 = call @whole(%a) : (tensor<4x4xf32>) -> tensor<4x4xf32>
  %3 = call @sums(%a) : (tensor<4x4xf32>) -> tensor<4xf32>
  return
}

// -----

mpcomm.mesh @mesh <["tp" = 2]>

// Of gradients that are split a norm is a partial sum, which is reduced to be read; to clip them takes no more. What a rank
// has of its own makes values of its own. A reshard is a declaration, too.
// REMARK: Propagated{{.*}} | Function=gradients | bytes=8, partial=1, reshards=1, split=3
// CHECK-LABEL: func.func @gradients
// CHECK: mpcomm.squared_norm{{.*}}{mpcomm.shardings = [#mpcomm.sharding<@mesh, [], partial = [sum "tp"]>]}
// CHECK: math.sqrt
// CHECK-NOT: mpcomm.shardings
// CHECK: mpcomm.clip_by_global_norm{{.*}}mpcomm.shardings = [#mpcomm.sharding<@mesh, [{"tp"}]>, #mpcomm.sharding<@mesh, []>]
// CHECK: arith.addf {{.*}}mpcomm.shardings = [#mpcomm.sharding<@mesh, [{}], local = ["tp"]>]
// CHECK: arith.negf {{.*}}mpcomm.shardings = [#mpcomm.sharding<@mesh, [{"tp"}]>]
func.func @gradients(
    %g: tensor<4xf32> {mpcomm.role = #mpcomm.role<parameter>, mpcomm.sharding = #mpcomm.sharding<@mesh, [{"tp"}]>},
    %l: tensor<4xf32> {mpcomm.role = #mpcomm.role<parameter>, mpcomm.sharding = #mpcomm.sharding<@mesh, [{}], local = ["tp"]>},
    %b: tensor<4xf32> {mpcomm.role = #mpcomm.role<batch>}) {
  %0 = mpcomm.squared_norm(%g) : (tensor<4xf32>) -> tensor<f32>
  %1 = math.sqrt %0 : tensor<f32>
  %2, %3 = mpcomm.clip_by_global_norm(%g) norm = %1, max_norm = 1.0 : (tensor<4xf32>, tensor<f32>) -> (tensor<4xf32>, tensor<f32>)
  %4 = arith.addf %l, %b : tensor<4xf32>
  %5 = mpcomm.reshard %b to <@mesh, [{"tp"}]> : tensor<4xf32>
  %6 = arith.negf %5 : tensor<4xf32>
  return
}

// -----

mpcomm.mesh @mesh <["dp" = 2]>

// What takes the place of state in another shape has no sharding of it. A function that does not return is left alone,
// and so is what an earlier run has noted.
// SIGNATURE-LABEL: func.func @shapes
// SIGNATURE-SAME: -> (tensor<4xf32> {mpcomm.role = #mpcomm.role<parameter>})
func.func @shapes(%w: tensor<4x4xf32> {mpcomm.role = #mpcomm.role<parameter>, mpcomm.donated = 0 : i64,
                                       mpcomm.sharding = #mpcomm.sharding<@mesh, [{"dp"}, {}]>})
    -> (tensor<4xf32> {mpcomm.role = #mpcomm.role<parameter>}) {
  %0 = mpcomm.reduce sum %w, dims = [0] : (tensor<4x4xf32>) -> tensor<4xf32>
  %1 = arith.negf %0 {mpcomm.shardings = [#mpcomm.sharding<@mesh, [{"dp"}]>]} : tensor<4xf32>
  return %0 : tensor<4xf32>
}
// SIGNATURE-LABEL: func.func @endless
func.func @endless(%w: tensor<4xf32> {mpcomm.sharding = #mpcomm.sharding<@mesh, [{"dp"}]>})
    -> (tensor<4xf32> {mpcomm.sharding = #mpcomm.sharding<@mesh, [{"dp"}]>}) {
  ub.unreachable
}
