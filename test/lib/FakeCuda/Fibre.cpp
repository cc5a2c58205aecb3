//===- Fibre.cpp - a stack of its own to run on ---------------------------===//
//
// Part of the mpcomm project, under the Apache License v2.0 with LLVM
// Exceptions. SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "Fibre.h"

#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <sys/mman.h>

using namespace fake;

static constexpr size_t pageBytes = 4096, stackBytes = 64 << 10;

/// The fibre that is being begun.
static Fibre *entering = nullptr;

Fibre::Fibre() {
  void *memory = mmap(nullptr, pageBytes + stackBytes, PROT_READ | PROT_WRITE,
                      MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
  if (memory == MAP_FAILED || mprotect(memory, pageBytes, PROT_NONE) != 0) {
    std::perror("fake CUDA: no stack for a thread");
    std::abort();
  }
  stack = static_cast<char *>(memory) + pageBytes;
}

void Fibre::enter() {
  Fibre *self = entering;
  while (true) {
    self->function(self->data);
    self->suspend();
  }
}

#if defined(__x86_64__)

// Saves what a function must keep on the stack, and the stack's pointer at
// `save`; takes over the stack at `load`. (ucontext does the same with two
// system calls.)
extern "C" __attribute__((visibility("hidden"))) void
mpfake_switch_stack(void **save, void *load);

asm(R"(
  .text
  .globl mpfake_switch_stack
  .hidden mpfake_switch_stack
  .type mpfake_switch_stack, @function
mpfake_switch_stack:
  pushq %rbp
  pushq %rbx
  pushq %r12
  pushq %r13
  pushq %r14
  pushq %r15
  subq $8, %rsp
  stmxcsr (%rsp)
  fnstcw 4(%rsp)
  movq %rsp, (%rdi)
  movq %rsi, %rsp
  ldmxcsr (%rsp)
  fldcw 4(%rsp)
  addq $8, %rsp
  popq %r15
  popq %r14
  popq %r13
  popq %r12
  popq %rbx
  popq %rbp
  ret
  .size mpfake_switch_stack, . - mpfake_switch_stack
)");

void Fibre::begin(void (*newFunction)(void *), void *newData) {
  function = newFunction, data = newData;
  auto *top = reinterpret_cast<uint64_t *>(stack + stackBytes);
  *--top = 0; // where `enter` would return to
  *--top = reinterpret_cast<uint64_t>(&Fibre::enter);
  for (int i = 0; i < 6; ++i)
    *--top = 0;
  *--top = uint64_t(0x037f) << 32 | 0x1f80; // the processor's defaults
  inside = top;
}

void Fibre::resume() {
  entering = this;
  mpfake_switch_stack(&outside, inside);
}

void Fibre::suspend() { mpfake_switch_stack(&inside, outside); }

#else

void Fibre::begin(void (*newFunction)(void *), void *newData) {
  function = newFunction, data = newData;
  getcontext(&inside);
  inside.uc_stack.ss_sp = stack;
  inside.uc_stack.ss_size = stackBytes;
  inside.uc_link = nullptr;
  makecontext(&inside, &Fibre::enter, 0);
}

void Fibre::resume() {
  entering = this;
  swapcontext(&outside, &inside);
}

void Fibre::suspend() { swapcontext(&inside, &outside); }

#endif
