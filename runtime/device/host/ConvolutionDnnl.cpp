//===- ConvolutionDnnl.cpp - convolutions by oneDNN -----------------------===//
//
// Part of the mpcomm project, under the Apache License v2.0 with LLVM
// Exceptions. SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// A primitive is prepared once for a descriptor. Filters are in the layout that
// the library likes best, brought there from the program's at each call: they
// change with each step. Activations are taken as they are where channels come
// last, which the library's kernels read as fast as its own layout: measured on
// one core of a Zen 4, the 20 convolutions of a ResNet-18 at 64x64, batch 16,
// forward and both gradients, take 132 ms against 133 ms. Any other layout is
// brought into the library's own.
//
//===----------------------------------------------------------------------===//

#include "device/host/ConvolutionDnnl.h"

#include "device/Descriptors.h"
#include "device/host/ConvolutionAndPool.h"
#include "device/host/DnnlObjects.h"

#include <array>
#include <cstdlib>
#include <cstring>
#include <unordered_map>

using namespace mprt;
using namespace mprt::host;

//===----------------------------------------------------------------------===//
// Prepared primitives
//===----------------------------------------------------------------------===//

namespace {

using Memory = DnnlOwned<dnnl_memory_t, dnnl_memory_destroy>;
using Primitive = DnnlOwned<dnnl_primitive_t, dnnl_primitive_destroy>;
using PrimitiveDesc =
    DnnlOwned<dnnl_primitive_desc_t, dnnl_primitive_desc_destroy>;
using Attributes =
    DnnlOwned<dnnl_primitive_attr_t, dnnl_primitive_attr_destroy>;
using Choices = DnnlOwned<dnnl_primitive_desc_iterator_t,
                          dnnl_primitive_desc_iterator_destroy>;

/// Scratch that grows to the greatest need and stays.
struct Buffer {
  void *data = nullptr;
  size_t size = 0;

  ~Buffer() { std::free(data); }
  bool grow(size_t need) {
    if (need <= size)
      return true;
    std::free(data);
    size = (need + 4095) / 4096 * 4096;
    data = std::aligned_alloc(4096, size);
    if (!data)
      size = 0;
    return data;
  }
};

/// An operand in the program's layout and in the primitive's; `reorder` goes
/// from one to the other where they differ.
struct Operand {
  int argument = 0;
  Memory given, own;
  Primitive reorder;
  size_t bytes = 0; // in the primitive's layout, where they differ
};

/// `primitive` is null where the library has no fast one.
struct Prepared {
  Primitive primitive;
  Memory scratchpad;
  size_t scratchpadBytes = 0;
  Operand operands[3];
};

/// All numbers of a descriptor that a primitive depends on.
using Key = std::array<int64_t, 30>;

} // namespace

struct DnnlConvolution::Implementation {
  DnnlEngine cpu; // outlives what is prepared for it
  std::unordered_map<Key, std::unique_ptr<Prepared>, DnnlKeyHash> prepared;
  Buffer scratchpad, own[3];

  Error find(const mprt_window_desc &desc, Prepared *&result);
  Error prepare(const mprt_window_desc &desc, bool asGiven, Prepared &result);
  Error prepareOperand(const dnnl_memory_desc_t &given,
                       const dnnl_memory_desc_t &own, bool isResult,
                       Operand &result);
  Error execute(Prepared &convolution, void *const data[3]);
  Error submit(dnnl_primitive_t primitive, int count,
               const dnnl_exec_arg_t *arguments);
};

DnnlConvolution::DnnlConvolution()
    : implementation(std::make_unique<Implementation>()) {}

DnnlConvolution::~DnnlConvolution() = default;

//===----------------------------------------------------------------------===//
// Descriptions
//===----------------------------------------------------------------------===//

/// Which of x, w and y operand 0, 1 or 2 is.
static constexpr int roles[3][3] = {{0, 1, 2}, {2, 1, 0}, {2, 0, 1}};

/// Describes an operand with `strides`, or in whatever layout is best where
/// there are none. A filter in groups has a dimension for them.
static dnnl_status_t describe(const mprt_window_desc &d, int operand,
                              const int64_t *strides,
                              dnnl_memory_desc_t &result) {
  int64_t sizes[4];
  sizesOfOperand(d, operand, sizes);
  dnnl_data_type_t type = d.type == MPRT_BF16 ? dnnl_bf16 : dnnl_f32;
  bool grouped = d.groups > 1 && roles[d.kind][operand] == 1;
  dnnl_dims_t dims, steps;
  int rank = 0;
  if (grouped) {
    dims[0] = d.groups, steps[0] = 0;
    if (strides)
      steps[0] = strides[0] * (sizes[0] / d.groups);
    sizes[0] /= d.groups, rank = 1;
  }
  for (int i = 0; i < 4; ++i, ++rank) {
    dims[rank] = sizes[i];
    steps[rank] = strides ? strides[i] : 0;
  }
  if (!strides)
    return dnnl_memory_desc_init_by_tag(&result, rank, dims, type,
                                        dnnl_format_tag_any);
  return dnnl_memory_desc_init_by_strides(&result, rank, dims, type, steps);
}

static const char *nameOf(const PrimitiveDesc &desc) {
  const char *name = "";
  dnnl_primitive_desc_query(desc.value, dnnl_query_impl_info_str, 0, &name);
  return name;
}

/// Forward, the library's first choice is a kernel of batched products for most
/// shapes. Its layout of 16-bit filters takes 1 ns an element to make, that of
/// the direct kernel 0.2, which is twice as fast for few channels, and up to 8
/// % slower for many positions. On one core of a Zen 4, 3 x 3, bf16, with the
/// filter's way, batched and direct, in us:
///   32 x 16 to 16 channels, 8 x 8     78   40
///   8 x 3 to 64, 64 x 64             703  643
///   8 x 64 to 64, 16 x 16            668  597
///   8 x 128 to 128, 8 x 8            739  645
///   2 x 128 to 128, 28 x 28         2150 2191
static bool prefersDirect(const mprt_window_desc &d) {
  return d.input[1] / d.groups < 16 ||
         d.output[0] * d.output[2] * d.output[3] <= 2048;
}

static dnnl_status_t chooseForward(const mprt_window_desc &d,
                                   const dnnl_convolution_desc_t &convolution,
                                   dnnl_primitive_attr_t attributes,
                                   dnnl_engine_t engine,
                                   PrimitiveDesc &result) {
  Choices choices;
  dnnl_status_t status = dnnl_primitive_desc_iterator_create(
      &choices, &convolution, attributes, engine, nullptr);
  if (status)
    return status;
  *&result = dnnl_primitive_desc_iterator_fetch(choices.value);
  // Kernels for tiles of a processor that has them are fastest.
  if (!prefersDirect(d) || std::strncmp(nameOf(result), "brgconv", 7) ||
      std::strstr(nameOf(result), "amx"))
    return dnnl_success;
  while (!dnnl_primitive_desc_iterator_next(choices.value)) {
    PrimitiveDesc other;
    *&other = dnnl_primitive_desc_iterator_fetch(choices.value);
    if (!std::strncmp(nameOf(other), "jit", 3) &&
        std::strstr(nameOf(other), "avx512")) {
      std::swap(result.value, other.value);
      break;
    }
  }
  return dnnl_success;
}

/// Makes the description of the primitive with these layouts of x, w and y.
static dnnl_status_t makePrimitive(const mprt_window_desc &d,
                                   const dnnl_memory_desc_t layouts[3],
                                   dnnl_engine_t engine,
                                   PrimitiveDesc &result) {
  int64_t dilates[2], high[2];
  for (int i = 0; i < 2; ++i) {
    dilates[i] = d.dilation[i] - 1;
    high[i] = (d.output[2 + i] - 1) * d.strides[i] +
              (d.window[i] - 1) * d.dilation[i] + 1 - d.input[2 + i] - d.low[i];
  }
  const dnnl_memory_desc_t *x = &layouts[0], *w = &layouts[1], *y = &layouts[2];
  dnnl_convolution_desc_t convolution;
  dnnl_status_t status = dnnl_dilated_convolution_forward_desc_init(
      &convolution, dnnl_forward_training, dnnl_convolution_direct, x, w,
      nullptr, y, d.strides, dilates, d.low, high);
  Attributes attributes;
  if (!status)
    status = dnnl_primitive_attr_create(&attributes);
  if (!status)
    status = dnnl_primitive_attr_set_scratchpad_mode(attributes.value,
                                                     dnnl_scratchpad_mode_user);
  PrimitiveDesc forward;
  if (!status)
    status = chooseForward(d, convolution, attributes.value, engine, forward);
  if (status)
    return status;
  switch (d.kind) {
  case MPRT_CONVOLUTION:
    std::swap(result.value, forward.value);
    return dnnl_success;
  case MPRT_CONVOLUTION_INPUT_GRAD:
    status = dnnl_dilated_convolution_backward_data_desc_init(
        &convolution, dnnl_convolution_direct, x, w, y, d.strides, dilates,
        d.low, high);
    break;
  default:
    status = dnnl_dilated_convolution_backward_weights_desc_init(
        &convolution, dnnl_convolution_direct, x, w, nullptr, y, d.strides,
        dilates, d.low, high);
  }
  if (status)
    return status;
  return dnnl_primitive_desc_create(&result, &convolution, attributes.value,
                                    engine, forward.value);
}

/// What the primitive calls x, w or y of this kind, and the query for it.
static std::pair<int, dnnl_query_t> argumentOf(uint8_t kind, int role) {
  switch (role) {
  case 0:
    return kind == MPRT_CONVOLUTION_INPUT_GRAD
               ? std::pair(DNNL_ARG_DIFF_SRC, dnnl_query_diff_src_md)
               : std::pair(DNNL_ARG_SRC, dnnl_query_src_md);
  case 1:
    return kind == MPRT_CONVOLUTION_FILTER_GRAD
               ? std::pair(DNNL_ARG_DIFF_WEIGHTS, dnnl_query_diff_weights_md)
               : std::pair(DNNL_ARG_WEIGHTS, dnnl_query_weights_md);
  default:
    return kind == MPRT_CONVOLUTION
               ? std::pair(DNNL_ARG_DST, dnnl_query_dst_md)
               : std::pair(DNNL_ARG_DIFF_DST, dnnl_query_diff_dst_md);
  }
}

Error DnnlConvolution::Implementation::prepareOperand(
    const dnnl_memory_desc_t &given, const dnnl_memory_desc_t &own,
    bool isResult, Operand &result) {
  if (dnnl_status_t status = dnnl_memory_create(
          &result.given, &given, cpu.engine.value, DNNL_MEMORY_NONE))
    return dnnlFailure("memory", status);
  if (dnnl_memory_desc_equal(&given, &own))
    return {};
  result.bytes = dnnl_memory_desc_get_size(&own);
  if (dnnl_status_t status = dnnl_memory_create(
          &result.own, &own, cpu.engine.value, DNNL_MEMORY_NONE))
    return dnnlFailure("memory", status);
  PrimitiveDesc reorder;
  dnnl_status_t status = dnnl_reorder_primitive_desc_create(
      &reorder, isResult ? &own : &given, cpu.engine.value,
      isResult ? &given : &own, cpu.engine.value, nullptr);
  if (!status)
    status = dnnl_primitive_create(&result.reorder, reorder.value);
  return status ? dnnlFailure("reorder", status) : Error();
}

Error DnnlConvolution::Implementation::prepare(const mprt_window_desc &d,
                                               bool asGiven, Prepared &result) {
  const int64_t *strides[3] = {d.strides_a, d.strides_b, d.strides_c};
  dnnl_memory_desc_t given[3], layouts[3];
  for (int operand = 0; operand < 3; ++operand) {
    int role = roles[d.kind][operand];
    bool own = role == 1 || !asGiven;
    if (describe(d, operand, strides[operand], given[operand]) ||
        describe(d, operand, own ? nullptr : strides[operand], layouts[role]))
      return {};
  }
  PrimitiveDesc desc;
  if (makePrimitive(d, layouts, cpu.engine.value, desc))
    return {};
  // The library's reference code is slower than the built-in way.
  if (!std::strncmp(nameOf(desc), "ref", 3))
    return {};
  for (int operand = 0; operand < 3; ++operand) {
    auto [argument, query] = argumentOf(d.kind, roles[d.kind][operand]);
    result.operands[operand].argument = argument;
    if (Error error = prepareOperand(
            given[operand], *dnnl_primitive_desc_query_md(desc.value, query, 0),
            operand == 2, result.operands[operand]))
      return error;
  }
  const dnnl_memory_desc_t *scratch =
      dnnl_primitive_desc_query_md(desc.value, dnnl_query_scratchpad_md, 0);
  result.scratchpadBytes = dnnl_memory_desc_get_size(scratch);
  dnnl_status_t status = dnnl_memory_create(&result.scratchpad, scratch,
                                            cpu.engine.value, DNNL_MEMORY_NONE);
  if (!status)
    status = dnnl_primitive_create(&result.primitive, desc.value);
  return status ? dnnlFailure("convolution", status) : Error();
}

Error DnnlConvolution::Implementation::find(const mprt_window_desc &d,
                                            Prepared *&result) {
  Key key = {};
  size_t at = 0;
  key[at++] = d.kind | d.type << 8;
  key[at++] = d.groups;
  auto append = [&](const int64_t *list, int count) {
    for (int i = 0; i < count; ++i)
      key[at++] = list[i];
  };
  append(d.input, 4), append(d.output, 4);
  append(d.window, 2), append(d.strides, 2);
  append(d.low, 2), append(d.dilation, 2);
  append(d.strides_a, 4), append(d.strides_b, 4), append(d.strides_c, 4);
  static_assert(2 + 8 + 8 + 12 == std::tuple_size_v<Key>);
  std::unique_ptr<Prepared> &entry = prepared[key];
  if (!entry) {
    if (Error error = cpu.open())
      return error;
    bool channelsLast = true;
    const int64_t *strides[3] = {d.strides_a, d.strides_b, d.strides_c};
    for (int operand = 0; operand < 3; ++operand)
      channelsLast &= roles[d.kind][operand] == 1 || strides[operand][1] == 1;
    auto made = std::make_unique<Prepared>();
    if (channelsLast)
      if (Error error = prepare(d, /*asGiven=*/true, *made))
        return error;
    if (!made->primitive.value)
      if (Error error = prepare(d, /*asGiven=*/false, *made))
        return error;
    entry = std::move(made);
  }
  result = entry.get();
  return {};
}

//===----------------------------------------------------------------------===//
// Execution
//===----------------------------------------------------------------------===//

Error DnnlConvolution::Implementation::submit(
    dnnl_primitive_t primitive, int count, const dnnl_exec_arg_t *arguments) {
  if (dnnl_status_t status =
          dnnl_primitive_execute(primitive, cpu.stream.value, count, arguments))
    return dnnlFailure("execute", status);
  if (dnnl_status_t status = dnnl_stream_wait(cpu.stream.value))
    return dnnlFailure("wait", status);
  return {};
}

Error DnnlConvolution::Implementation::execute(Prepared &p,
                                               void *const data[3]) {
  bool enough = scratchpad.grow(p.scratchpadBytes);
  for (int i = 0; i < 3; ++i)
    enough &= own[i].grow(p.operands[i].bytes);
  if (!enough)
    return makeError(MPRT_OUT_OF_MEMORY, "no memory for scratch");
  dnnl_exec_arg_t arguments[4];
  dnnl_memory_set_data_handle(p.scratchpad.value, scratchpad.data);
  arguments[3] = {DNNL_ARG_SCRATCHPAD, p.scratchpad.value};
  for (int i = 0; i < 3; ++i) {
    Operand &operand = p.operands[i];
    dnnl_memory_set_data_handle(operand.given.value, data[i]);
    dnnl_memory_t used = operand.given.value;
    if (operand.reorder.value) {
      used = operand.own.value;
      dnnl_memory_set_data_handle(used, own[i].data);
      dnnl_exec_arg_t both[] = {{DNNL_ARG_FROM, operand.given.value},
                                {DNNL_ARG_TO, used}};
      if (i < 2)
        if (Error error = submit(operand.reorder.value, 2, both))
          return error;
    }
    arguments[i] = {operand.argument, used};
  }
  if (Error error = submit(p.primitive.value, 4, arguments))
    return error;
  Operand &result = p.operands[2];
  if (!result.reorder.value)
    return {};
  dnnl_exec_arg_t both[] = {{DNNL_ARG_FROM, result.own.value},
                            {DNNL_ARG_TO, result.given.value}};
  return submit(result.reorder.value, 2, both);
}

Error DnnlConvolution::run(const mprt_window_desc &d, const void *a,
                           const void *b, void *c, bool &done) {
  done = false;
  if (d.type != MPRT_F32 && d.type != MPRT_BF16)
    return {};
  Prepared *convolution = nullptr;
  if (Error error = implementation->find(d, convolution))
    return error;
  if (!convolution->primitive.value)
    return {};
  done = true;
  void *data[] = {const_cast<void *>(a), const_cast<void *>(b), c};
  return c ? implementation->execute(*convolution, data) : Error();
}
