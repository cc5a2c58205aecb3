/*===-- mprt.h - the C ABI between compiled programs and the runtime ------===*\
|*                                                                            *|
|* Part of the mpcomm project, under the Apache License v2.0 with LLVM        *|
|* Exceptions. SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception        *|
|*                                                                            *|
|* A compiled program (step.so) uses only these functions of the runtime. The *|
|* runtime uses only the symbols that a program exports (see the end of this  *|
|* file). Neither links the other.                                            *|
|*                                                                            *|
|* Errors are sticky: a call that fails marks the context, and each later     *|
|* call on it does nothing and returns the same status. So generated code is  *|
|* straight-line, and an entry point returns mprt_status_of(ctx).             *|
|*                                                                            *|
\*===----------------------------------------------------------------------===*/

#ifndef MPCOMM_RUNTIME_MPRT_H
#define MPCOMM_RUNTIME_MPRT_H

#include <stdint.h>

#ifdef __cplusplus
extern "C" {
/* With a fixed type, an invalid number from a program is a value that can be
 * inspected and rejected. */
#define MPRT_ENUM_TYPE : int32_t
#else
#define MPRT_ENUM_TYPE
#endif

/* Incremented whenever a structure or a signature below changes. A program
 * exports the number for which it was compiled as `mpcomm_abi_version`. */
#define MPRT_ABI_VERSION 10u

typedef enum MPRT_ENUM_TYPE {
  MPRT_OK = 0,
  MPRT_INVALID_ARGUMENT = 1, /* the caller's fault; nothing was done       */
  MPRT_OUT_OF_MEMORY = 2,
  MPRT_UNSUPPORTED = 3, /* this device or communicator cannot do it   */
  MPRT_TIMEOUT = 4,     /* a peer did not arrive in time              */
  MPRT_PEER_FAILED = 5, /* a peer died or reported a failure          */
  MPRT_MISMATCH = 6,    /* ranks called different collectives         */
  MPRT_IO_ERROR = 7,
  MPRT_INTERNAL = 8,
  MPRT_NOT_FOUND = 9, /* no file, tensor or function of that name    */
  MPRT_NOT_READY = 10 /* not possible now; another call comes first  */
} mprt_status;

typedef enum MPRT_ENUM_TYPE {
  MPRT_F32 = 0,
  MPRT_F64 = 1,
  MPRT_F16 = 2,
  MPRT_BF16 = 3,
  MPRT_I8 = 4,
  MPRT_U8 = 5,
  MPRT_I16 = 6,
  MPRT_I32 = 7,
  MPRT_I64 = 8,
  MPRT_BOOL = 9, /* one byte, 0 or 1 */
  MPRT_F8E4M3 = 10,
  MPRT_F8E5M2 = 11
} mprt_dtype;

typedef enum MPRT_ENUM_TYPE {
  MPRT_SUM = 0,
  MPRT_PROD = 1,
  MPRT_MIN = 2,
  MPRT_MAX = 3,
  MPRT_MEAN = 4 /* the sum over the group, divided by its size */
} mprt_reduction;

typedef enum MPRT_ENUM_TYPE {
  MPRT_ALL_REDUCE = 0,
  MPRT_REDUCE_SCATTER = 1,
  MPRT_ALL_GATHER = 2,
  MPRT_ALL_TO_ALL = 3,
  MPRT_BROADCAST = 4,
  MPRT_SEND = 5,
  MPRT_RECV = 6,
  MPRT_BARRIER = 7,
  MPRT_PERMUTE = 8,
  MPRT_REDUCE = 9,
  MPRT_GATHER = 10,
  MPRT_SCATTER = 11
} mprt_collective_kind;

/* The instance of a program in one process: its device, streams, communicators
 * and arena. Opaque to programs. */
typedef struct mprt_context mprt_context;

/* Stream 0 computes. Stream 1 + c belongs to communicator c. Work on one
 * stream runs in the order of the calls. Only events order different streams.
 */
#define MPRT_COMPUTE_STREAM 0u
#define MPRT_COMM_STREAM(c) (1u + (c))

/* A generated kernel. It takes one pointer per operand, in the order of the
 * launch; all shapes are compiled in. `bytes` and `flops` are the memory
 * traffic and the arithmetic of one launch, for traces and reports.
 *
 * In a program for the host, `fn` is the kernel, and all fields after `flops`
 * are 0. In a program for a GPU, `fn` is null, and `symbol` names the kernel in
 * the program's images. It runs in blocks of `threads` threads (one dimension).
 * If `grid_stride` is 1, each block continues with the piece of work that is
 * gridDim.x blocks further, so any grid is correct: the device takes as many
 * blocks as it can run at a time, but not more than `blocks`. If it is 0, the
 * grid has `blocks` blocks. If `scratch_bytes` is not 0, the kernel has one
 * more pointer, the last, to that many bytes that belong to the stream: their
 * contents persist from one launch to the next on the stream. */
typedef struct {
  uint32_t id;
  void (*fn)(void *const *args);
  const char *name;
  const char *location;
  uint64_t bytes;
  uint64_t flops;
  const char *symbol;
  uint32_t operands; /* pointers in `args` */
  uint32_t threads;  /* of a block; a multiple of 32, at most 1024 */
  uint64_t blocks;
  uint32_t grid_stride;
  uint32_t shared_bytes; /* dynamic shared memory of a block */
  uint64_t scratch_bytes;
} mprt_kernel;

/* The kernels of a program for a GPU, for one chip: machine code, or PTX, which
 * the driver compiles for newer chips. */
typedef struct {
  uint32_t chip;    /* 90 for sm_90 */
  uint32_t is_text; /* 1: PTX, ended by a zero byte; 0: a cubin (ELF) */
  const void *data;
  uint64_t bytes;
} mprt_image;

/* The largest number of batch dimensions of a mprt_gemm. */
#define MPRT_GEMM_MAX_BATCH 4

/* C[..., i, j] = sum_k A[..., i, k] * B[..., k, j]  (+ C if accumulate).
 *
 * Strides are in elements; [0] is the stride of the first of the two matrix
 * dimensions (i for A and C, k for B), [1] that of the second. One of the two
 * strides of a matrix must be 1 (for C: strides_c[1]). Batch dimension d has
 * size batch[d] and its own stride in each operand (0 broadcasts; never in C).
 * Types: all three f32 or all f64; or A and B bf16 or f16, and C f32 or the
 * same type; or A and B f8e4m3, one of them perhaps f8e5m2, and C f32, bf16 or
 * f16. Sums are computed in f32 (f64 for f64; of 8 bits on a GPU in what its
 * tensor cores have, which is less).
 *
 * GPUs multiply 8 bits from compute capability 8.9 on, and only if strides_a[1]
 * and strides_b[0] are 1, sizes and other strides of A and B are multiples of
 * 16, and those of C are multiples of 16 bytes. */
typedef struct {
  uint32_t id;
  uint8_t type_a, type_b, type_c; /* mprt_dtype */
  uint8_t accumulate;             /* 0: overwrite C, 1: add to it */
  uint32_t batch_rank;            /* 0 .. MPRT_GEMM_MAX_BATCH */
  int64_t m, n, k;
  int64_t strides_a[2], strides_b[2], strides_c[2];
  int64_t batch[MPRT_GEMM_MAX_BATCH];
  int64_t batch_a[MPRT_GEMM_MAX_BATCH];
  int64_t batch_b[MPRT_GEMM_MAX_BATCH];
  int64_t batch_c[MPRT_GEMM_MAX_BATCH];
  const char *name;
  const char *location;
} mprt_gemm_desc;

typedef enum MPRT_ENUM_TYPE {
  MPRT_BIAS = 1,          /* C[i, j] += bias[j]                              */
  MPRT_BIAS_GELU = 2,     /* then C = gelu(C)                                */
  MPRT_BIAS_GELU_AUX = 3, /* then matrix = gelu(C); C stays                  */
  MPRT_GELU_GRAD = 4,     /* C[i, j] *= gelu'(matrix[i, j])                  */
  MPRT_BIAS_GRAD_A = 5,   /* bias[i] = the sum over k of A[i, k]             */
  MPRT_BIAS_GRAD_B = 6,   /* bias[j] = the sum over k of B[k, j]             */
  MPRT_SCALE = 7          /* nothing but its scales                          */
} mprt_epilogue_kind;

/* An operation that a library may fuse into a matrix product without batch
 * dimensions, which saves a pass over memory. gelu is the tanh approximation;
 * the matrix has the type and the strides of C. A library computes it in f32
 * and rounds once, when it stores. MPRT_SCALE has
 * scales, and kinds that add a bias may have some, of products of 8 bits:
 * numbers in f32 that C is multiplied by before anything else. */
typedef struct {
  int32_t kind;          /* mprt_epilogue_kind */
  uint32_t bias, matrix; /* index into the kernels' pointers, if the kind has
                          * one; else 0 */
  uint32_t bias_type;    /* mprt_dtype, if the kind has a bias; that of C for
                          * a bias that is added */
  uint32_t count;        /* of kernels, at least 1 */
  uint32_t scale_count;  /* at most 2 */
  uint32_t scales[2];    /* indices into the kernels' pointers */
  const mprt_kernel *const *kernels; /* run in order if the device does not
                                      * support the operation */
} mprt_epilogue;

typedef enum MPRT_ENUM_TYPE {
  MPRT_CONVOLUTION = 0,             /* a: x, b: w, c: y                      */
  MPRT_CONVOLUTION_INPUT_GRAD = 1,  /* a: dy, b: w, c: dx                    */
  MPRT_CONVOLUTION_FILTER_GRAD = 2, /* a: dy, b: x, c: dw                    */
  MPRT_MAX_POOL = 3,                /* a: x, c: y; NaN is the maximum        */
  MPRT_MAX_POOL_GRAD = 4,           /* a: dy, b: x, c: dx; to the first
                                     * maximum of a window, row-major        */
  MPRT_AVG_POOL = 5,                /* a: x, c: y                            */
  MPRT_AVG_POOL_GRAD = 6            /* a: dy, c: dx                          */
} mprt_window_kind;

/* A convolution, pooling, or the gradient of one: windows slide over x[N, C, H,
 * W] and give y[N, K, P, Q]. Output position p reads the rows p * strides[0] -
 * low[0] + i * dilation[0] of x for i < window[0], if x has them; columns
 * likewise. A filter is w[K, C / groups, window[0], window[1]].
 *
 * `input` has the sizes of x, `output` those of y. Strides are in elements, in
 * the logical order of dimensions given here, for any layout; those of an
 * absent operand are not read. c is overwritten. avg_pool divides by the number
 * of elements of x in the window or, with count_padding, by the size of the
 * window. Types: all operands f32, f64, bf16 or f16; sums are computed in f32
 * (f64 for f64). */
typedef struct {
  uint32_t id;
  uint8_t kind;          /* mprt_window_kind */
  uint8_t type;          /* mprt_dtype of all operands */
  uint8_t count_padding; /* 0 or 1 */
  uint8_t reserved;      /* 0 */
  int64_t input[4], output[4];
  int64_t window[2], strides[2], low[2], dilation[2];
  int64_t groups;
  int64_t strides_a[4], strides_b[4], strides_c[4];
  const char *name;
  const char *location;
} mprt_window_desc;

typedef enum MPRT_ENUM_TYPE {
  MPRT_ATTENTION = 0,     /* q, k, v, the mask; out, lse                    */
  MPRT_ATTENTION_GRAD = 1 /* dout, q, k, v, out, lse, the mask; dq, dk, dv  */
} mprt_attention_kind;

/* The most operands of an attention. */
#define MPRT_ATTENTION_MAX_OPERANDS 10

/* Attention, or its gradient, for which the program has kernels and a device
 * may have a library. For each batch and head,
 *   s[i, j] = scale * sum_d q[i, d] k[j, d], -infinity where the mask is 0
 *   lse[i]  = log sum_j exp s[i, j]
 *   out[i]  = sum_j exp(s[i, j] - lse[i]) v[j]
 * q, out and their gradients are [batch, rows, heads, size], k, v and theirs
 * [batch, columns, heads, size], lse [batch, heads, rows] of f32, the mask
 * [rows, columns] of bytes. The mask has the same contents in each call, unless
 * its buffer is an argument of the program that is replaced from outside.
 * Outputs overlap neither each other nor inputs, so the call may be repeated. */
typedef struct {
  uint32_t id;
  uint8_t kind;     /* mprt_attention_kind */
  uint8_t type;     /* MPRT_BF16 or MPRT_F16: all but lse and the mask */
  uint8_t has_mask; /* 0: there is no such operand */
  uint8_t reserved; /* 0 */
  int64_t batch, heads, rows, columns, size;
  double scale;
  /* In elements, by operand, in the order of its dimensions given here. */
  int64_t strides[MPRT_ATTENTION_MAX_OPERANDS][4];
  uint32_t count;     /* of kernels, at least 1 */
  uint32_t reserved2; /* 0 */
  const mprt_kernel *const *kernels; /* compute it, in order; they take the
                                      * operands of the call */
  const char *name;
  const char *location;
} mprt_attention_desc;

/* One collective of a program. `count` is in elements of `type`:
 *   all_reduce      send[count], recv[count]
 *   reduce_scatter  send[count * size], recv[count]
 *   all_gather      send[count], recv[count * size]
 *   all_to_all      send[count * size], recv[count * size]; block r goes to r
 *   broadcast       root's send[count], every recv[count]
 *   send / recv     buffer of count elements, to or from group rank `peer`
 *   barrier         no buffers
 *   permute         send[count], recv[count]; from rank r to rank targets[r]
 *   reduce          send[count], recv[count]; the result is on the root
 *   gather          send[count], recv[count * size]; the blocks are on the root
 *   scatter         root's send[count * size], every recv[count]; block r to r
 * If nothing arrives in a recv (the rank is not a target, or not the root), it
 * is filled with zeros. The buffers of the last four do not overlap. send ==
 * recv is "in place" for all_reduce, broadcast and all_to_all. In place,
 * reduce_scatter has recv == send + rank * count, and all_gather has send ==
 * recv + rank * count. `type` is the wire type; sums are computed in
 * `accumulate`. */
typedef struct {
  uint32_t id;           /* the same on every rank that takes part */
  uint8_t kind;          /* mprt_collective_kind */
  uint8_t reduction;     /* mprt_reduction, if the kind reduces */
  uint8_t type;          /* mprt_dtype of the buffers and on the wire */
  uint8_t accumulate;    /* mprt_dtype of partial sums */
  uint32_t communicator; /* index into the manifest's communicators */
  int32_t peer;          /* group rank: root, destination or source; else -1 */
  uint64_t count;
  const char *name;
  const char *location;
  const int32_t *targets; /* permute: for each group rank its destination, or
                           * -1; no destination twice. Else null */
  uint32_t num_targets;   /* permute: the size of the group. Else 0 */
  uint32_t reserved;      /* 0 */
} mprt_collective;

/* Runs `kernel` on `stream`. */
mprt_status mprt_launch(mprt_context *ctx, uint32_t stream,
                        const mprt_kernel *kernel, void *const *args);

/* Matrix product on `stream`; see mprt_gemm_desc. */
mprt_status mprt_gemm(mprt_context *ctx, uint32_t stream,
                      const mprt_gemm_desc *desc, const void *a, const void *b,
                      void *c);

/* A product and the kernels after it, which take `args`; see mprt_epilogue. */
mprt_status mprt_gemm_epilogue(mprt_context *ctx, uint32_t stream,
                               const mprt_gemm_desc *desc, const void *a,
                               const void *b, void *c,
                               const mprt_epilogue *epilogue,
                               void *const *args);

/* Attention or its gradient on `stream`; `args` are the operands, see
 * mprt_attention_desc. */
mprt_status mprt_attention(mprt_context *ctx, uint32_t stream,
                           const mprt_attention_desc *desc, void *const *args);

/* Convolution or pooling on `stream`, or a gradient of one; see
 * mprt_window_desc, whose kind is one of the call's. b is null if the kind does
 * not have it. */
mprt_status mprt_convolution(mprt_context *ctx, uint32_t stream,
                             const mprt_window_desc *desc, const void *a,
                             const void *b, void *c);
mprt_status mprt_pool(mprt_context *ctx, uint32_t stream,
                      const mprt_window_desc *desc, const void *a,
                      const void *b, void *c);

/* Copies `bytes` from src to dst (no overlap), or fills dst with zero bytes. */
mprt_status mprt_copy(mprt_context *ctx, uint32_t stream, void *dst,
                      const void *src, uint64_t bytes);
mprt_status mprt_zero(mprt_context *ctx, uint32_t stream, void *dst,
                      uint64_t bytes);

/* The rank that runs the program: row-major over the axes of the manifest's
 * mesh, of which the last varies fastest; 0 for one that runs alone. It is the
 * same in every call of a context. */
uint32_t mprt_rank(const mprt_context *ctx);

/* The address on the device of a constant of the program that has `bytes` bytes
 * at `host`: `host` itself, or on a GPU a copy that the first call of a context
 * creates. Null after an error. */
const void *mprt_constant(mprt_context *ctx, const void *host, uint64_t bytes);

/* Enqueues a collective on `stream` and returns. The collective, and later work
 * on that stream, owns the buffers until an event that is recorded after it on
 * the stream has been waited for. All ranks of a communicator enqueue the same
 * collectives in the same order. Buffers inside the arena are reduced without
 * staging if the communicator supports that. The descriptor must outlive the
 * context: the stream may read it after an error, and traces at any time. */
mprt_status mprt_collective_run(mprt_context *ctx, uint32_t stream,
                                const mprt_collective *collective,
                                const void *send, void *recv);

/* Events are numbered 0 .. events - 1 (the manifest gives the number). An event
 * may be recorded again after the last call that waits for it. `record` marks
 * the current end of the stream. `stream_wait` makes later work on `stream`
 * wait for the mark that the event has at the time of the call. On the host
 * device the compute stream is the calling thread. */
mprt_status mprt_event_record(mprt_context *ctx, uint32_t stream,
                              uint32_t event);
mprt_status mprt_stream_wait(mprt_context *ctx, uint32_t stream,
                             uint32_t event);

/* The first error of this context, or MPRT_OK, and its message: one line with
 * the call, the rank, the collective and its source location. The string lives
 * as long as the context. */
mprt_status mprt_status_of(const mprt_context *ctx);
const char *mprt_message_of(const mprt_context *ctx);

/* A program exports (the names are looked up in its symbol table):
 *   const uint32_t   mpcomm_abi_version   MPRT_ABI_VERSION at compile time
 *   const char       mpcomm_manifest[]    JSON, see docs/Design/Manifest.md
 *   const mprt_image mpcomm_images[]      only for a GPU: its kernels for each
 *                                         chip; an image with chip 0 ends it
 * and for each function of the manifest one entry point of type mprt_entry,
 * with the name that its key `entry` gives: `mpcomm_` and the name of the
 * function. A file with other plans of the same functions, which take the same
 * state, exports
 *   const char       mpcomm_variants[]    their names, one a line
 * and for each the same symbols with `.` and the name of the plan behind them;
 * names have letters, digits, `-` and `_`.
 *
 * `args` has the buffers of the function's arguments in order, then those of
 * the results that do not alias an argument. `arena` has `arena_bytes` of
 * scratch memory, aligned to 64 bytes; its contents do not persist from one
 * call to the next. The result is mprt_status_of(ctx). */
typedef int32_t (*mprt_entry)(mprt_context *ctx, void *const *args,
                              void *arena);

#ifdef __cplusplus
} /* extern "C" */
#endif

#endif /* MPCOMM_RUNTIME_MPRT_H */
