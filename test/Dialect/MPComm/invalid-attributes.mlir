// What the dialect refuses of its attributes on arguments and results.

// RUN: mpcomm-opt %s --split-input-file --verify-diagnostics

// expected-error @below {{expects 'mpcomm.role' of argument #0 to be #mpcomm.role<...>}}
func.func private @role(tensor<4xf32> {mpcomm.role = "parameter"})

// -----

// expected-error @below {{expects 'mpcomm.role' of result #0 to be #mpcomm.role<...>}}
func.func private @result_role() -> (tensor<4xf32> {mpcomm.role = 1 : i64})

// -----

// expected-error @below {{expects 'mpcomm.name' of argument #1 to be a non-empty string}}
func.func private @name(tensor<4xf32>, tensor<4xf32> {mpcomm.name = ""})

// -----

// expected-error @below {{expects 'mpcomm.donated' of argument #0 to be an i64 integer}}
func.func private @donated_type(tensor<4xf32> {mpcomm.donated = true}) -> tensor<4xf32>

// -----

// expected-error @below {{expects 'mpcomm.donated' of argument #0 to name one of 1 results, got 1}}
func.func private @donated_range(tensor<4xf32> {mpcomm.donated = 1 : i64}) -> tensor<4xf32>

// -----

// expected-error @below {{expects 'mpcomm.donated' of argument #0 to name one of 1 results, got -1}}
func.func private @donated_negative(tensor<4xf32> {mpcomm.donated = -1 : i64}) -> tensor<4xf32>

// -----

// expected-error @below {{expects 'mpcomm.default' of argument #0 to be a number of the argument's element type}}
func.func private @default_type(tensor<f32> {mpcomm.default = 1.0 : f64})

// -----

// expected-error @below {{expects 'mpcomm.default' of argument #0 to be a number of the argument's element type}}
func.func private @default_unshaped(index {mpcomm.default = 1.0 : f32})

// -----

// expected-error @below {{expects 'mpcomm.default' of argument #0 to be a number of the argument's element type}}
func.func private @default_kind(tensor<f32> {mpcomm.default = "1.0"})

// -----

// expected-error @below {{expects 'mpcomm.default' of argument #0 to be a number of the argument's element type}}
func.func private @default_integer(tensor<f32> {mpcomm.default = 1 : i32})

// -----

// expected-error @below {{expects 'mpcomm.copy_of' of argument #0 to be a non-empty string}}
func.func private @copy_of_empty(tensor<4xf32> {mpcomm.copy_of = ""})

// -----

// expected-error @below {{expects 'mpcomm.range' of argument #0 to be array<i64: lo, hi> with lo < hi}}
func.func private @range_empty(tensor<4xi64> {mpcomm.range = array<i64: 4, 4>})

// -----

// expected-error @below {{expects 'mpcomm.range' of argument #0 to be array<i64: lo, hi> with lo < hi}}
func.func private @range_length(tensor<4xi64> {mpcomm.range = array<i64: 4>})

// -----

// expected-error @below {{expects 'mpcomm.range' of argument #0 to be array<i64: lo, hi> with lo < hi}}
func.func private @range_type(tensor<4xi64> {mpcomm.range = array<i32: 0, 4>})

// -----

// expected-error @below {{expects 'mpcomm.targets' of result #0 to be a non-empty string}}
func.func private @targets() -> (tensor<4xf32> {mpcomm.targets = 3 : i64})

// -----

// expected-error @below {{has unknown attribute 'mpcomm.rolle' on argument #0}}
func.func private @unknown(tensor<4xf32> {mpcomm.rolle = #mpcomm.role<parameter>})

// -----

// expected-error @below {{has unknown attribute 'mpcomm.donated' on result #0}}
func.func private @unknown_result() -> (tensor<4xf32> {mpcomm.donated = 0 : i64})

// -----

// expected-error @below {{expected ::mpcomm::Role to be one of: parameter, optimizer_state, buffer, batch, hyperparameter, loss_scale, rng, loss, output}}
// expected-error @below {{failed to parse MPComm_RoleAttr parameter 'value'}}
func.func private @role_name(tensor<4xf32> {mpcomm.role = #mpcomm.role<weights>})


// -----

// expected-error @below {{expects 'mpcomm.added' of argument #0 to be "kept" or "transient"}}
func.func private @added(tensor<4xf32> {mpcomm.added = "lost"})

// -----

// expected-error @below {{expects 'mpcomm.multiply_f8' to be a unit attribute of a module, got "no"}}
module attributes {mpcomm.multiply_f8 = "no"} {
}

// -----

// expected-error @below {{expects 'mpcomm.multiply_f8' to be a unit attribute of a module, got unit}}
func.func private @f() attributes {mpcomm.multiply_f8}
