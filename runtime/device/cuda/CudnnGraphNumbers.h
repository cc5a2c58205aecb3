//===- CudnnGraphNumbers.h - numbers of cuDNN's graph API -----------------===//
//
// Part of the mpcomm project, under the Apache License v2.0 with LLVM
// Exceptions. SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// As in cudnn_graph.h of version 9: F(name, number). A test build compares them
// with the header where it is installed.
//
//===----------------------------------------------------------------------===//

#ifndef MPCOMM_RUNTIME_DEVICE_CUDA_CUDNNGRAPHNUMBERS_H
#define MPCOMM_RUNTIME_DEVICE_CUDA_CUDNNGRAPHNUMBERS_H

#define MPRT_CUDNN_GRAPH_NUMBERS(F)                                            \
  F(CUDNN_DATA_INT32, 4)                                                       \
  F(CUDNN_DATA_BOOLEAN, 11)                                                    \
  F(CUDNN_BACKEND_POINTWISE_DESCRIPTOR, 0)                                     \
  F(CUDNN_BACKEND_ENGINE_DESCRIPTOR, 2)                                        \
  F(CUDNN_BACKEND_ENGINECFG_DESCRIPTOR, 3)                                     \
  F(CUDNN_BACKEND_ENGINEHEUR_DESCRIPTOR, 4)                                    \
  F(CUDNN_BACKEND_EXECUTION_PLAN_DESCRIPTOR, 5)                                \
  F(CUDNN_BACKEND_OPERATION_POINTWISE_DESCRIPTOR, 13)                          \
  F(CUDNN_BACKEND_OPERATIONGRAPH_DESCRIPTOR, 15)                               \
  F(CUDNN_BACKEND_VARIANT_PACK_DESCRIPTOR, 16)                                 \
  F(CUDNN_BACKEND_TENSOR_DESCRIPTOR, 17)                                       \
  F(CUDNN_BACKEND_MATMUL_DESCRIPTOR, 18)                                       \
  F(CUDNN_BACKEND_OPERATION_MATMUL_DESCRIPTOR, 19)                             \
  F(CUDNN_BACKEND_REDUCTION_DESCRIPTOR, 21)                                    \
  F(CUDNN_BACKEND_OPERATION_REDUCTION_DESCRIPTOR, 22)                          \
  F(CUDNN_BACKEND_OPERATION_RESHAPE_DESCRIPTOR, 31)                            \
  F(CUDNN_TYPE_HANDLE, 0)                                                      \
  F(CUDNN_TYPE_DATA_TYPE, 1)                                                   \
  F(CUDNN_TYPE_BOOLEAN, 2)                                                     \
  F(CUDNN_TYPE_INT64, 3)                                                       \
  F(CUDNN_TYPE_FLOAT, 4)                                                       \
  F(CUDNN_TYPE_VOID_PTR, 6)                                                    \
  F(CUDNN_TYPE_HEUR_MODE, 8)                                                   \
  F(CUDNN_TYPE_NUMERICAL_NOTE, 11)                                             \
  F(CUDNN_TYPE_POINTWISE_MODE, 14)                                             \
  F(CUDNN_TYPE_BACKEND_DESCRIPTOR, 15)                                         \
  F(CUDNN_TYPE_REDUCTION_OPERATOR_TYPE, 18)                                    \
  F(CUDNN_ATTR_POINTWISE_MODE, 0)                                              \
  F(CUDNN_ATTR_POINTWISE_MATH_PREC, 1)                                         \
  F(CUDNN_ATTR_POINTWISE_AXIS, 9)                                              \
  F(CUDNN_ATTR_ENGINEHEUR_MODE, 200)                                           \
  F(CUDNN_ATTR_ENGINEHEUR_OPERATION_GRAPH, 201)                                \
  F(CUDNN_ATTR_ENGINEHEUR_RESULTS, 202)                                        \
  F(CUDNN_ATTR_ENGINECFG_ENGINE, 300)                                          \
  F(CUDNN_ATTR_EXECUTION_PLAN_HANDLE, 400)                                     \
  F(CUDNN_ATTR_EXECUTION_PLAN_ENGINE_CONFIG, 401)                              \
  F(CUDNN_ATTR_EXECUTION_PLAN_WORKSPACE_SIZE, 402)                             \
  F(CUDNN_ATTR_OPERATION_POINTWISE_PW_DESCRIPTOR, 750)                         \
  F(CUDNN_ATTR_OPERATION_POINTWISE_XDESC, 751)                                 \
  F(CUDNN_ATTR_OPERATION_POINTWISE_BDESC, 752)                                 \
  F(CUDNN_ATTR_OPERATION_POINTWISE_YDESC, 753)                                 \
  F(CUDNN_ATTR_OPERATION_POINTWISE_TDESC, 758)                                 \
  F(CUDNN_ATTR_OPERATIONGRAPH_HANDLE, 800)                                     \
  F(CUDNN_ATTR_OPERATIONGRAPH_OPS, 801)                                        \
  F(CUDNN_ATTR_TENSOR_BYTE_ALIGNMENT, 900)                                     \
  F(CUDNN_ATTR_TENSOR_DATA_TYPE, 901)                                          \
  F(CUDNN_ATTR_TENSOR_DIMENSIONS, 902)                                         \
  F(CUDNN_ATTR_TENSOR_STRIDES, 903)                                            \
  F(CUDNN_ATTR_TENSOR_UNIQUE_ID, 906)                                          \
  F(CUDNN_ATTR_TENSOR_IS_VIRTUAL, 907)                                         \
  F(CUDNN_ATTR_TENSOR_IS_BY_VALUE, 908)                                        \
  F(CUDNN_ATTR_VARIANT_PACK_UNIQUE_IDS, 1000)                                  \
  F(CUDNN_ATTR_VARIANT_PACK_DATA_POINTERS, 1001)                               \
  F(CUDNN_ATTR_VARIANT_PACK_WORKSPACE, 1003)                                   \
  F(CUDNN_ATTR_ENGINE_NUMERICAL_NOTE, 1303)                                    \
  F(CUDNN_ATTR_MATMUL_COMP_TYPE, 1500)                                         \
  F(CUDNN_ATTR_OPERATION_MATMUL_ADESC, 1520)                                   \
  F(CUDNN_ATTR_OPERATION_MATMUL_BDESC, 1521)                                   \
  F(CUDNN_ATTR_OPERATION_MATMUL_CDESC, 1522)                                   \
  F(CUDNN_ATTR_OPERATION_MATMUL_DESC, 1523)                                    \
  F(CUDNN_ATTR_REDUCTION_OPERATOR, 1600)                                       \
  F(CUDNN_ATTR_REDUCTION_COMP_TYPE, 1601)                                      \
  F(CUDNN_ATTR_OPERATION_REDUCTION_XDESC, 1610)                                \
  F(CUDNN_ATTR_OPERATION_REDUCTION_YDESC, 1611)                                \
  F(CUDNN_ATTR_OPERATION_REDUCTION_DESC, 1612)                                 \
  F(CUDNN_ATTR_OPERATION_RESHAPE_XDESC, 2200)                                  \
  F(CUDNN_ATTR_OPERATION_RESHAPE_YDESC, 2201)                                  \
  F(CUDNN_HEUR_MODE_A, 3)                                                      \
  F(CUDNN_NUMERICAL_NOTE_NONDETERMINISTIC, 4)                                  \
  F(CUDNN_POINTWISE_ADD, 0)                                                    \
  F(CUDNN_POINTWISE_MUL, 1)                                                    \
  F(CUDNN_POINTWISE_DIV, 6)                                                    \
  F(CUDNN_POINTWISE_SUB, 9)                                                    \
  F(CUDNN_POINTWISE_EXP, 13)                                                   \
  F(CUDNN_POINTWISE_LOG, 15)                                                   \
  F(CUDNN_POINTWISE_CMP_GE, 303)                                               \
  F(CUDNN_POINTWISE_GEN_INDEX, 501)                                            \
  F(CUDNN_POINTWISE_BINARY_SELECT, 601)                                        \
  F(CUDNN_REDUCE_TENSOR_ADD, 0)                                                \
  F(CUDNN_REDUCE_TENSOR_MAX, 3)

#endif // MPCOMM_RUNTIME_DEVICE_CUDA_CUDNNGRAPHNUMBERS_H
