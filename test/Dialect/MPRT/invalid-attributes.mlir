// RUN: mpcomm-opt %s --split-input-file --verify-diagnostics

// Attributes of the dialect on ops of others.

// expected-error @below {{has unknown attribute 'mprt.arena'}}
func.func private @unknown(memref<8xf32>) attributes {mprt.arena = 8 : i64}

// -----

// expected-error @below {{expects 'mprt.results' to be an array, on a function, got 1 : i64}}
func.func private @results(memref<8xf32>) attributes {mprt.results = 1 : i64}

// -----

// expected-error @below {{expects 'mprt.results' to be dictionaries with a tensor 'type' and an i64 'argument' each, got [unit]}}
func.func private @results_entry(memref<8xf32>) attributes {mprt.results = [unit]}

// -----

// expected-error @below {{expects 'mprt.results' to be dictionaries with a tensor 'type' and an i64 'argument' each, got [{type = tensor<8xf32>}]}}
func.func private @results_argument(memref<8xf32>) attributes {mprt.results = [{type = tensor<8xf32>}]}

// -----

// expected-error @below {{expects 'mprt.results' to be dictionaries with a tensor 'type' and an i64 'argument' each, got [{argument = 0 : i64, type = f32}]}}
func.func private @results_type(memref<8xf32>) attributes {mprt.results = [{argument = 0 : i64, type = f32}]}

// -----

// expected-error @below {{has 'mprt.results' with argument 1, expected one of 1 or -1}}
func.func private @results_range(memref<8xf32>) attributes {mprt.results = [{argument = 1 : i64, type = tensor<8xf32>}]}

// -----

// expected-error @below {{expects 'mprt.communicators' to be lists of axes, on a module, got [1]}}
module attributes {mprt.communicators = [1 : i64]} {}

// -----

// expected-error @below {{expects 'mprt.communicators' to be lists of axes, on a module, got [[1]]}}
module attributes {mprt.communicators = [[1 : i64]]} {}

// -----

// expected-error @below {{expects 'mprt.graph' to be a dictionary of digest, structure (strings), batch (an i64), optimizer (an array of strings) and options (a dictionary of strings), on a module, got}}
module attributes {mprt.graph = {batch = 8 : i64, digest = "0", optimizer = [1 : i64], options = {}, structure = "1"}} {}

// -----

// expected-error @below {{expects 'mprt.mesh' to be the symbol of a mesh, on a module, got "mesh"}}
module attributes {mprt.mesh = "mesh"} {}

// -----

// expected-error @below {{expects 'mprt.arena_bytes' to be an i64 that is not negative, on a function, got -1 : i64}}
func.func private @arena(memref<8xf32>) attributes {mprt.arena_bytes = -1 : i64}

// -----

// expected-error @below {{expects 'mprt.moved_bytes' to be an i64 that is not negative, on a kernel, got 8 : i64}}
func.func private @no_kernel(memref<8xf32>) attributes {mprt.moved_bytes = 8 : i64}

// -----

// expected-error @below {{expects 'mprt.bucket_bytes' to be an i64 that is not negative, on a function, got 1 : i32}}
func.func private @buckets(memref<8xf32>) attributes {mprt.bucket_bytes = 1 : i32}

// -----

// expected-error @below {{expects 'mprt.arena_bytes_by_kind' to be a dictionary of i64 that are not negative, on a function, got {gradients = -1 : i64}}}
func.func private @parts(memref<8xf32>) attributes {mprt.arena_bytes_by_kind = {gradients = -1 : i64}}

// -----

// expected-error @below {{expects 'mprt.overwrite' to be a unit attribute, got true}}
func.func private @overwrite(memref<8xf32>) attributes {mprt.overwrite = true}

// -----

// expected-error @below {{has attribute 'mprt.updated' on argument #0, expected 'mprt.update' as a unit attribute}}
func.func private @update(memref<8xf32> {mprt.updated})

// -----

// expected-error @below {{expects 'mprt.forecast' to be a dictionary of cluster and link (strings), compute (a float), and lists of at least two positive doubles that run parallel: bandwidth (falling), step, and communication (rising), on a module, got}}
module attributes {mprt.forecast = {cluster = "{}", bandwidth = array<f64: 2.0, 1.0>, communication = array<f64: 1.0, 1.0>, compute = 1.0 : f64, link = "net", step = array<f64: 1.0, 2.0>}} {}

// -----

// expected-error @below {{expects 'mprt.forecast' to be a dictionary}}
module attributes {mprt.forecast = {cluster = "{}", bandwidth = array<f64: 2.0>, communication = array<f64: 1.0>, compute = 1.0 : f64, link = "net", step = array<f64: 1.0>}} {}

// -----

func.func private @k(memref<8xf32>, memref<8xf32>) attributes {mpcomm.kernel}
func.func @attention_operands(%a: memref<8xf32>) {
  // expected-error @below {{expects 'mprt.attention' to be a kind (attention or attention_grad) and a scale of f64, or a unit attribute after them, on a launch with the operands of attention, got {kind = "attention", scale = 1.000000e+00 : f64}}}
  mprt.launch @k ins(%a : memref<8xf32>) outs(%a : memref<8xf32>) {mprt.attention = {kind = "attention", scale = 1.0 : f64}}
  return
}

// -----

// expected-error @below {{expects 'mprt.fixed_mask' to be a unit attribute, on attention with a mask, got unit}}
func.func private @fixed_mask(memref<8xf32>) attributes {mprt.fixed_mask}
