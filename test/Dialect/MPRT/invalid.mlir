// What the verifiers of the runtime's calls refuse. Each case names the
// constraint that it breaks.

// RUN: mpcomm-opt %s --split-input-file --verify-diagnostics

func.func private @scale(tensor<8xf32>, tensor<8xf32>) -> tensor<8xf32> attributes {mpcomm.kernel}
func.func @launch_c1(%x: tensor<8xf32>, %y: memref<8xf32>) {
  // expected-error @below {{expects operands that are all tensors or all buffers}}
  mprt.launch @scale ins(%x : tensor<8xf32>) outs(%y : memref<8xf32>)
  return
}

// -----

func.func private @scale(tensor<8xf32>, tensor<8xf32>) -> tensor<8xf32> attributes {mpcomm.kernel}
func.func @launch_c2_none(%x: tensor<8xf32>) {
  // expected-error @below {{expects results of its outputs' types}}
  mprt.launch @scale ins(%x : tensor<8xf32>) outs(%x : tensor<8xf32>)
  return
}

// -----

func.func private @scale(tensor<8xf32>, tensor<8xf32>) -> tensor<8xf32> attributes {mpcomm.kernel}
func.func @launch_c2_type(%x: tensor<8xf32>) {
  // expected-error @below {{expects results of its outputs' types}}
  %0 = mprt.launch @scale ins(%x : tensor<8xf32>) outs(%x : tensor<8xf32>) -> (tensor<4xf32>)
  return
}

// -----

func.func private @scale(tensor<8xf32>, tensor<8xf32>) -> tensor<8xf32> attributes {mpcomm.kernel}
func.func @launch_c2_buffers(%x: memref<8xf32>) {
  // expected-error @below {{expects no results on buffers}}
  %0 = mprt.launch @scale ins(%x : memref<8xf32>) outs(%x : memref<8xf32>) -> (tensor<8xf32>)
  return
}

// -----

func.func private @scale(tensor<8xf32>, tensor<8xf32>) -> tensor<8xf32> attributes {mpcomm.kernel}
func.func @launch_c3_missing(%x: memref<8xf32>) {
  // expected-error @below {{expects @nothing to be a function with the attribute 'mpcomm.kernel'}}
  mprt.launch @nothing ins(%x : memref<8xf32>) outs(%x : memref<8xf32>)
  return
}

// -----

func.func private @scale(tensor<8xf32>, tensor<8xf32>) -> tensor<8xf32> attributes {mpcomm.kernel}
func.func @launch_c3_kernel(%x: memref<8xf32>) {
  // expected-error @below {{expects @launch_c3_kernel to be a function with the attribute 'mpcomm.kernel'}}
  mprt.launch @launch_c3_kernel outs(%x : memref<8xf32>)
  return
}

// -----

func.func private @scale(tensor<8xf32>, tensor<8xf32>) -> tensor<8xf32> attributes {mpcomm.kernel}
func.func @launch_c3_count(%x: memref<8xf32>) {
  // expected-error @below {{has 1 operands, but @scale takes 2}}
  mprt.launch @scale outs(%x : memref<8xf32>)
  return
}

// -----

func.func private @scale(tensor<8xf32>, tensor<8xf32>) -> tensor<8xf32> attributes {mpcomm.kernel}
func.func @launch_c3_shape(%x: memref<4xf32>) {
  // expected-error @below {{has operand #0 of type 'memref<4xf32>', but @scale takes 'tensor<8xf32>'}}
  mprt.launch @scale ins(%x : memref<4xf32>) outs(%x : memref<4xf32>)
  return
}

// -----

func.func @start_c1_kind(%x: memref<8xf32>) {
  // expected-error @below {{does not know the collective 'total'}}
  mprt.start "total" "" id = 0 communicator = 0 event = 0 peer = -1 accumulate f32 ins() outs(%x : memref<8xf32>)
  return
}

// -----

func.func @start_c1_reduction(%x: memref<8xf32>) {
  // expected-error @below {{expects a reduction for 'all_reduce', got ''}}
  mprt.start "all_reduce" "" id = 0 communicator = 0 event = 0 peer = -1 accumulate f32 ins() outs(%x : memref<8xf32>)
  return
}

// -----

func.func @start_c1_no_reduction(%x: memref<8xf32>) {
  // expected-error @below {{expects no reduction for 'broadcast', got 'sum'}}
  mprt.start "broadcast" "sum" id = 0 communicator = 0 event = 0 peer = -1 accumulate f32 ins() outs(%x : memref<8xf32>)
  return
}

// -----

func.func @start_c2(%x: memref<8xf32>, %y: tensor<8xf32>) {
  // expected-error @below {{expects operands that are all tensors or all buffers}}
  mprt.start "all_gather" "" id = 0 communicator = 0 event = 0 peer = -1 accumulate f32 ins(%x : memref<8xf32>) outs(%y : tensor<8xf32>) -> (tensor<8xf32>)
  return
}

// -----

func.func @start_c3_types(%x: memref<8xf32>, %y: memref<8xf64>) {
  // expected-error @below {{expects operands of one element type}}
  mprt.start "all_reduce" "sum" id = 0 communicator = 0 event = 0 peer = -1 accumulate f32 ins() outs(%x, %y : memref<8xf32>, memref<8xf64>)
  return
}

// -----

func.func @start_c3_all_reduce() {
  // expected-error @below {{does not expect 0 inputs and 0 outputs for 'all_reduce'}}
  mprt.start "all_reduce" "sum" id = 0 communicator = 0 event = 0 peer = -1 accumulate f32 ins() outs()
  return
}

// -----

func.func @start_c3_broadcast(%x: memref<8xf32>) {
  // expected-error @below {{does not expect 1 inputs and 1 outputs for 'broadcast'}}
  mprt.start "broadcast" "" id = 0 communicator = 0 event = 0 peer = -1 accumulate f32 ins(%x : memref<8xf32>) outs(%x : memref<8xf32>)
  return
}

// -----

func.func @start_c3_send(%x: memref<8xf32>) {
  // expected-error @below {{does not expect 0 inputs and 1 outputs for 'send'}}
  mprt.start "send" "" id = 0 communicator = 0 event = 0 peer = -1 accumulate f32 ins() outs(%x : memref<8xf32>)
  return
}

// -----

func.func @start_c3_barrier(%x: memref<8xf32>) {
  // expected-error @below {{does not expect 1 inputs and 0 outputs for 'barrier'}}
  mprt.start "barrier" "" id = 0 communicator = 0 event = 0 peer = -1 accumulate f32 ins(%x : memref<8xf32>) outs()
  return
}

// -----

func.func @start_c3_gather(%x: memref<8xf32>) {
  // expected-error @below {{does not expect 0 inputs and 1 outputs for 'all_gather'}}
  mprt.start "all_gather" "" id = 0 communicator = 0 event = 0 peer = -1 accumulate f32 ins() outs(%x : memref<8xf32>)
  return
}

// -----

func.func @await_c1(%x: memref<8xf32>, %y: tensor<8xf32>) {
  // expected-error @below {{expects operands that are all tensors or all buffers}}
  mprt.await event = 0 ins(%x : memref<8xf32>) outs(%y : tensor<8xf32>) -> (tensor<8xf32>)
  return
}

// -----

func.func @await_c2(%x: memref<8xf32>) {
  // expected-error @below {{expects at most one input, got 2}}
  mprt.await event = 0 ins(%x, %x : memref<8xf32>, memref<8xf32>) outs()
  return
}

// -----

func.func @await_event(%x: memref<8xf32>) {
  // expected-error @below {{expects an event in [0, 1073741822], got -1}}
  mprt.await event = -1 ins() outs(%x : memref<8xf32>)
  return
}

// -----

func.func @gemm_c1_size(%a: memref<8x4xf32>, %b: memref<4x16xf32>, %c: memref<8x16xf32>) {
  // expected-error @below {{expects positive sizes}}
  mprt.gemm %a, %b, %c m = 0 n = 16 k = 4 strides [4, 1] x [16, 1] -> [16, 1] batch [] strides [] x [] -> [] : memref<8x4xf32>, memref<4x16xf32>, memref<8x16xf32>
  return
}

// -----

func.func @gemm_c1_negative(%a: memref<8x4xf32>, %b: memref<4x16xf32>, %c: memref<8x16xf32>) {
  // expected-error @below {{expects positive sizes}}
  mprt.gemm %a, %b, %c m = -8 n = 16 k = 4 strides [4, 1] x [16, 1] -> [16, 1] batch [] strides [] x [] -> [] : memref<8x4xf32>, memref<4x16xf32>, memref<8x16xf32>
  return
}

// -----

func.func @start_numbers(%x: memref<8xf32>) {
  // expected-error @below {{expects numbers that are not negative}}
  mprt.start "all_reduce" "sum" id = 0 communicator = -1 event = 0 peer = -1 accumulate f32 ins() outs(%x : memref<8xf32>)
  return
}

// -----

func.func @gemm_c1_strides(%a: memref<8x4xf32>, %b: memref<4x16xf32>, %c: memref<8x16xf32>) {
  // expected-error @below {{expects two strides for each matrix}}
  mprt.gemm %a, %b, %c m = 8 n = 16 k = 4 strides [4] x [16, 1] -> [16, 1] batch [] strides [] x [] -> [] : memref<8x4xf32>, memref<4x16xf32>, memref<8x16xf32>
  return
}

// -----

func.func @gemm_c1_batch(%a: memref<8x4xf32>, %b: memref<4x16xf32>, %c: memref<8x16xf32>) {
  // expected-error @below {{expects at most 4 batch dimensions, with a stride of each matrix for each}}
  mprt.gemm %a, %b, %c m = 8 n = 16 k = 4 strides [4, 1] x [16, 1] -> [16, 1] batch [2] strides [0] x [] -> [1] : memref<8x4xf32>, memref<4x16xf32>, memref<8x16xf32>
  return
}

// -----

func.func @gemm_c1_batches(%a: memref<8x4xf32>, %b: memref<4x16xf32>, %c: memref<8x16xf32>) {
  // expected-error @below {{expects at most 4 batch dimensions, with a stride of each matrix for each}}
  mprt.gemm %a, %b, %c m = 8 n = 16 k = 4 strides [4, 1] x [16, 1] -> [16, 1] batch [1, 1, 1, 1, 1] strides [0, 0, 0, 0, 0] x [0, 0, 0, 0, 0] -> [0, 0, 0, 0, 0] : memref<8x4xf32>, memref<4x16xf32>, memref<8x16xf32>
  return
}

// -----

func.func @gemm_c2_a(%a: memref<8x4xf32>, %b: memref<4x16xf32>, %c: memref<8x16xf32>) {
  // expected-error @below {{expects a unit stride in A and in B, and in the rows of C}}
  mprt.gemm %a, %b, %c m = 8 n = 16 k = 4 strides [4, 2] x [16, 1] -> [16, 1] batch [] strides [] x [] -> [] : memref<8x4xf32>, memref<4x16xf32>, memref<8x16xf32>
  return
}

// -----

func.func @gemm_c2_c(%a: memref<8x4xf32>, %b: memref<4x16xf32>, %c: memref<8x16xf32>) {
  // expected-error @below {{expects a unit stride in A and in B, and in the rows of C}}
  mprt.gemm %a, %b, %c m = 8 n = 16 k = 4 strides [4, 1] x [16, 1] -> [1, 8] batch [] strides [] x [] -> [] : memref<8x4xf32>, memref<4x16xf32>, memref<8x16xf32>
  return
}

// -----

func.func @copy_c1_shape(%x: memref<8xf32>, %y: memref<4xf32>) {
  // expected-error @below {{expects contiguous buffers of one shape and element type, got 'memref<8xf32>' and 'memref<4xf32>'}}
  mprt.copy %x, %y : memref<8xf32>, memref<4xf32>
  return
}

// -----

func.func @copy_c1_type(%x: memref<8xf32>, %y: memref<8xi32>) {
  // expected-error @below {{expects contiguous buffers of one shape and element type, got 'memref<8xf32>' and 'memref<8xi32>'}}
  mprt.copy %x, %y : memref<8xf32>, memref<8xi32>
  return
}

// -----

func.func @copy_c1_contiguous(%x: memref<8xf32>, %y: memref<8xf32, strided<[2]>>) {
  // expected-error @below {{expects contiguous buffers of one shape and element type}}
  mprt.copy %x, %y : memref<8xf32>, memref<8xf32, strided<[2]>>
  return
}

// -----

func.func @zero_c1(%x: memref<4x4xf32, strided<[8, 1]>>) {
  // expected-error @below {{expects a contiguous buffer, got 'memref<4x4xf32, strided<[8, 1]>>'}}
  mprt.zero %x : memref<4x4xf32, strided<[8, 1]>>
  return
}

// -----

func.func @gemm_c2_b(%a: memref<8x4xf32>, %b: memref<4x16xf32>, %c: memref<8x16xf32>) {
  // expected-error @below {{expects a unit stride in A and in B, and in the rows of C}}
  mprt.gemm %a, %b, %c m = 8 n = 16 k = 4 strides [4, 1] x [16, 2] -> [16, 1] batch [] strides [] x [] -> [] : memref<8x4xf32>, memref<4x16xf32>, memref<8x16xf32>
  return
}

// -----

func.func @gemm_c1_batch_size(%a: memref<8x4xf32>, %b: memref<4x16xf32>, %c: memref<8x16xf32>) {
  // expected-error @below {{expects positive sizes}}
  mprt.gemm %a, %b, %c m = 8 n = 16 k = 4 strides [4, 1] x [16, 1] -> [16, 1] batch [0] strides [0] x [0] -> [0] : memref<8x4xf32>, memref<4x16xf32>, memref<8x16xf32>
  return
}

// -----

// The last element of A that is read is 7 * 4 + 3 * 1 = 31; 2 x 2 are there.
func.func @gemm_c3_a(%a: memref<2x2xf32>, %b: memref<4x16xf32>, %c: memref<8x16xf32>) {
  // expected-error @below {{reaches element 31 of 'memref<2x2xf32>', expected one of its own}}
  mprt.gemm %a, %b, %c m = 8 n = 16 k = 4 strides [4, 1] x [16, 1] -> [16, 1] batch [] strides [] x [] -> [] : memref<2x2xf32>, memref<4x16xf32>, memref<8x16xf32>
  return
}

// -----

func.func @gemm_c3_b(%a: memref<8x4xf32>, %b: memref<4x16xf32>, %c: memref<8x16xf32>) {
  // expected-error @below {{reaches element 66 of 'memref<4x16xf32>', expected one of its own}}
  mprt.gemm %a, %b, %c m = 8 n = 16 k = 4 strides [4, 1] x [17, 1] -> [16, 1] batch [] strides [] x [] -> [] : memref<8x4xf32>, memref<4x16xf32>, memref<8x16xf32>
  return
}

// -----

// 127 in the second batch, which begins at 128.
func.func @gemm_c3_c(%a: memref<8x4xf32>, %b: memref<4x16xf32>, %c: memref<8x16xf32>) {
  // expected-error @below {{reaches element 255 of 'memref<8x16xf32>', expected one of its own}}
  mprt.gemm %a, %b, %c m = 8 n = 16 k = 4 strides [4, 1] x [16, 1] -> [16, 1] batch [2] strides [0] x [0] -> [128] : memref<8x4xf32>, memref<4x16xf32>, memref<8x16xf32>
  return
}

// -----

func.func @gemm_c3_negative(%a: memref<8x4xf32>, %b: memref<4x16xf32>, %c: memref<8x16xf32>) {
  // expected-error @below {{reaches no element of 'memref<8x4xf32>', expected one of its own}}
  mprt.gemm %a, %b, %c m = 8 n = 16 k = 4 strides [-4, 1] x [16, 1] -> [16, 1] batch [] strides [] x [] -> [] : memref<8x4xf32>, memref<4x16xf32>, memref<8x16xf32>
  return
}

// -----

func.func @start_c4_event(%x: memref<8xf32>) {
  // expected-error @below {{expects an event of at most 1073741822, got 3000000000}}
  mprt.start "all_reduce" "sum" id = 0 communicator = 0 event = 3000000000 peer = -1 accumulate f32 ins() outs(%x : memref<8xf32>)
  return
}

// -----

func.func @start_c4_communicator(%x: memref<8xf32>) {
  // expected-error @below {{expects 'communicator' in 32 bits}}
  mprt.start "all_reduce" "sum" id = 0 communicator = 5000000000 event = 0 peer = -1 accumulate f32 ins() outs(%x : memref<8xf32>)
  return
}

// -----

func.func @start_c4_id(%x: memref<8xf32>) {
  // expected-error @below {{expects 'id' in 32 bits}}
  mprt.start "all_reduce" "sum" id = 2147483647 communicator = 0 event = 0 peer = -1 accumulate f32 ins() outs(%x : memref<8xf32>)
  return
}

// -----

func.func @start_c4_peer(%x: memref<8xf32>) {
  // expected-error @below {{expects numbers that are not negative}}
  mprt.start "recv" "" id = 0 communicator = 0 event = 0 peer = -2 accumulate f32 ins() outs(%x : memref<8xf32>)
  return
}

// -----

func.func @await_c3(%x: memref<8xf32>) {
  // expected-error @below {{expects an event in [0, 1073741822], got 3000000000}}
  mprt.await event = 3000000000 ins() outs(%x : memref<8xf32>)
  return
}

// -----

func.func @start_c5_missing(%x: memref<8xf32>, %y: memref<8xf32>) {
  // expected-error @below {{expects 'targets' for 'permute'}}
  mprt.start "permute" "" id = 0 communicator = 0 event = 0 peer = -1 accumulate f32 ins(%x : memref<8xf32>) outs(%y : memref<8xf32>)
  return
}

// -----

func.func @start_c5_other_kind(%x: memref<8xf32>, %y: memref<8xf32>) {
  // expected-error @below {{expects no 'targets' for 'gather'}}
  mprt.start "gather" "" id = 0 communicator = 0 event = 0 peer = 0 accumulate f32 targets [0] ins(%x : memref<8xf32>) outs(%y : memref<8xf32>)
  return
}

// -----

func.func @start_c5_range(%x: memref<8xf32>, %y: memref<8xf32>) {
  // expected-error @below {{expects each of 'targets' in [-1, 2), got 2}}
  mprt.start "permute" "" id = 0 communicator = 0 event = 0 peer = -1 accumulate f32 targets [-1, 2] ins(%x : memref<8xf32>) outs(%y : memref<8xf32>)
  return
}

// -----

func.func @start_c5_twice(%x: memref<8xf32>, %y: memref<8xf32>) {
  // expected-error @below {{has rank 1 as two 'targets'}}
  mprt.start "permute" "" id = 0 communicator = 0 event = 0 peer = -1 accumulate f32 targets [1, 1] ins(%x : memref<8xf32>) outs(%y : memref<8xf32>)
  return
}

// -----

func.func @start_c3_permute(%x: memref<8xf32>) {
  // expected-error @below {{does not expect 0 inputs and 1 outputs for 'permute'}}
  mprt.start "permute" "" id = 0 communicator = 0 event = 0 peer = -1 accumulate f32 targets [0] ins() outs(%x : memref<8xf32>)
  return
}

// -----

func.func @all_slice_c1(%x: memref<8xf32>, %y: tensor<4xf32>) {
  // expected-error @below {{expects operands that are all tensors or all buffers}}
  %r = mprt.all_slice sizes = [2] strides = [1] ins(%x : memref<8xf32>) outs(%y : tensor<4xf32>) -> (tensor<4xf32>)
  return
}

// -----

func.func @all_slice_c1_count(%x: memref<8xf32>, %y: memref<4xf32>) {
  // expected-error @below {{expects one input and one output, got 2 and 1}}
  mprt.all_slice sizes = [2] strides = [1] ins(%x, %x : memref<8xf32>, memref<8xf32>) outs(%y : memref<4xf32>)
  return
}

// -----

func.func @all_slice_c2(%x: memref<8xf32>, %y: memref<4xf32>) {
  // expected-error @below {{expects as many sizes as strides, positive and of 32 bits together, got [2] and [0]}}
  mprt.all_slice sizes = [2] strides = [0] ins(%x : memref<8xf32>) outs(%y : memref<4xf32>)
  return
}

// -----

func.func @all_slice_c2_product(%x: memref<8xf32>, %y: memref<4xf32>) {
  // expected-error @below {{expects as many sizes as strides, positive and of 32 bits together, got [65536, 65536] and [65536, 1]}}
  mprt.all_slice sizes = [65536, 65536] strides = [65536, 1] ins(%x : memref<8xf32>) outs(%y : memref<4xf32>)
  return
}

// -----

func.func @all_slice_c3(%x: memref<8xf32>, %y: memref<4xf32>) {
  // expected-error @below {{expects an input of 4 blocks of the output, got 'memref<8xf32>' and 'memref<4xf32>'}}
  mprt.all_slice sizes = [2, 2] strides = [2, 1] ins(%x : memref<8xf32>) outs(%y : memref<4xf32>)
  return
}

// -----

func.func @all_slice_c3_type(%x: memref<8xf32>, %y: memref<4xi32>) {
  // expected-error @below {{expects an input of 2 blocks of the output}}
  mprt.all_slice sizes = [2] strides = [1] ins(%x : memref<8xf32>) outs(%y : memref<4xi32>)
  return
}
