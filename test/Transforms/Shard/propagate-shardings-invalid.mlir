// RUN: mpcomm-opt %s --split-input-file --mpcomm-propagate-shardings --verify-diagnostics

mpcomm.mesh @mesh <["dp" = 2]>

// expected-error@+1 {{has argument #0 of sharding #mpcomm.sharding<@mesh, [{}, {}], flat = ["dp"]> and type 'tensor<8xf32>', expected the type of the whole, of as many dimensions}}
func.func @parts(%m: tensor<8xf32> {mpcomm.global_type = tensor<5x3xf32>, mpcomm.role = #mpcomm.role<optimizer_state>,
                                    mpcomm.sharding = #mpcomm.sharding<@mesh, [{}, {}], flat = ["dp"]>}) {
  return
}

// -----

mpcomm.mesh @mesh <["dp" = 2]>

// expected-error@+1 {{has result #0 of sharding #mpcomm.sharding<@mesh, [{"dp"}]>, which splits dimension 0 of size 3 over 2 ranks, which do not divide it}}
func.func @odd(%x: tensor<3xf32>) -> (tensor<3xf32> {mpcomm.sharding = #mpcomm.sharding<@mesh, [{"dp"}]>}) {
  return %x : tensor<3xf32>
}

// -----

mpcomm.mesh @mesh <["dp" = 2]>
mpcomm.mesh @other <["tp" = 2]>

// expected-error@+1 {{has argument #1 on mesh @other, expected all shardings to be on one, and others are on @mesh}}
func.func @two(%x: tensor<4xf32> {mpcomm.sharding = #mpcomm.sharding<@mesh, [{"dp"}]>},
               %y: tensor<4xf32> {mpcomm.sharding = #mpcomm.sharding<@other, [{"tp"}]>}) {
  return
}

// -----

// expected-error@+1 {{has argument #0 of sharding #mpcomm.sharding<@none, [{"dp"}]>, which names none, which is not an mpcomm.mesh}}
func.func @nowhere(%x: tensor<4xf32> {mpcomm.sharding = #mpcomm.sharding<@none, [{"dp"}]>}) {
  return
}
