//===- Scheduler.cpp - the order in which the fake device works -----------===//
//
// Part of the mpcomm project, under the Apache License v2.0 with LLVM
// Exceptions. SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "Scheduler.h"

#include "Faults.h"
#include "State.h"

#include <algorithm>
#include <thread>

using namespace fake;
using Clock = std::chrono::steady_clock;
using std::chrono::microseconds;

/// With nothing waited for, how long until work goes on.
static constexpr microseconds patience(2000);
/// How often a value in memory is looked at.
static constexpr microseconds pollInterval(50);

void Scheduler::start() {
  if (started)
    return;
  started = true;
  std::thread([this] { workLoop(); }).detach();
  std::thread([this] { hostLoop(); }).detach();
}

std::shared_ptr<Node>
Scheduler::add(Context &context, unsigned group,
               std::shared_ptr<const Work> work,
               const std::vector<std::shared_ptr<Node>> &before) {
  start();
  auto node = std::make_shared<Node>();
  node->work = std::move(work);
  node->context = &context;
  node->group = group;
  for (const std::shared_ptr<Node> &other : before) {
    if (!other || other->done)
      continue;
    other->after.push_back(node);
    node->before.push_back(other);
    ++node->pending;
  }
  if (node->pending == 0)
    ready.push_back(node);
  if (unfinished.size() % 1024 == 1023)
    std::erase_if(unfinished, [](const auto &other) { return other->done; });
  unfinished.push_back(node);
  Random &random = state().random;
  if (random.once(8))
    credits += unsigned(random.below(4));
  lastAsked = Clock::now();
  // The device sleeps for as long as nothing is ready.
  if (credits || ready.size() == 1)
    wake.notify_one();
  return node;
}

void Scheduler::waitFor(std::unique_lock<std::mutex> &lock,
                        const std::vector<std::shared_ptr<Node>> &nodes) {
  std::vector<Node *> stack;
  for (const std::shared_ptr<Node> &node : nodes)
    if (node)
      stack.push_back(node.get());
  while (!stack.empty()) {
    Node *node = stack.back();
    stack.pop_back();
    if (node->done || node->needed)
      continue;
    node->needed = true;
    for (const std::shared_ptr<Node> &before : node->before)
      stack.push_back(before.get());
  }
  wake.notify_one();
  for (const std::shared_ptr<Node> &node : nodes)
    if (node)
      progress.wait(lock, [&] { return node->done; });
}

void Scheduler::waitForAll(std::unique_lock<std::mutex> &lock,
                           const Context &context) {
  std::vector<std::shared_ptr<Node>> nodes;
  for (const std::shared_ptr<Node> &node : unfinished)
    if (!node->done && node->context == &context)
      nodes.push_back(node);
  waitFor(lock, nodes);
}

void Scheduler::nudge() {
  credits += unsigned(state().random.below(3));
  wake.notify_one();
}

std::shared_ptr<Node> Scheduler::choose() {
  std::vector<size_t> all, needed;
  for (size_t i = 0; i < ready.size(); ++i) {
    const Work &work = *ready[i]->work;
    if (work.kind == Work::Host && atHost)
      continue;
    if (work.kind == Work::Poll && !ready[i]->context->error && !work.holds())
      continue;
    all.push_back(i);
    if (ready[i]->needed)
      needed.push_back(i);
  }
  Random &random = state().random;
  std::vector<size_t> *from = &all;
  if (!needed.empty()) {
    if (!random.once(8))
      from = &needed;
  } else if (credits) {
    --credits;
  } else if (Clock::now() - lastAsked < patience) {
    return nullptr;
  }
  if (from->empty())
    return nullptr;
  size_t index = (*from)[random.below(from->size())];
  if (!random.once(4))
    for (size_t i : *from)
      if (ready[i]->group == lastGroup) {
        index = i;
        break;
      }
  std::shared_ptr<Node> node = ready[index];
  lastGroup = node->group;
  ready[index] = ready.back();
  ready.pop_back();
  return node;
}

void Scheduler::execute(std::unique_lock<std::mutex> &lock, Node &node) {
  const Work &work = *node.work;
  Context &context = *node.context;
  if (work.run && !context.error) {
    CUresult result = CUDA_SUCCESS;
    for (const Work::Touched &touched : work.touched)
      if (!state().memory.covers(touched.address, touched.bytes, true)) {
        explain("%s reaches %zu bytes at %#lx, which are not (or not yet, or "
                "no longer) allocated when it runs",
                work.name, touched.bytes, (unsigned long)touched.address);
        result = CUDA_ERROR_ILLEGAL_ADDRESS;
        break;
      }
    if (!result) {
      lock.unlock();
      {
        FaultScope scope(work.name);
        result = work.run();
      }
      lock.lock();
    }
    if (!result && work.kind == Work::Device)
      if (uint64_t address = state().memory.findOverrun()) {
        explain("%s wrote beyond the allocation at %#lx", work.name,
                (unsigned long)address);
        result = CUDA_ERROR_ILLEGAL_ADDRESS;
      }
    if (result && !context.error)
      context.error = result;
  }
  finish(node);
}

void Scheduler::finish(Node &node) {
  node.done = true;
  node.doneAt = Clock::now() + ahead;
  for (const std::shared_ptr<Node> &after : node.after)
    if (--after->pending == 0)
      ready.push_back(after);
  node.after.clear();
  node.before.clear();
  node.work.reset();
  progress.notify_all();
}

void Scheduler::workLoop() {
  useFaultStack();
  Lock lock(state().mutex);
  while (true) {
    if (std::shared_ptr<Node> node = choose()) {
      if (node->work->kind == Work::Host) {
        atHost = std::move(node);
        wakeHost.notify_one();
      } else {
        execute(lock, *node);
      }
      continue;
    }
    if (ready.empty())
      wake.wait(lock);
    else
      wake.wait_for(lock, pollInterval);
  }
}

static thread_local bool runsHostFunction = false;

bool fake::isHostFunctionThread() { return runsHostFunction; }

void Scheduler::hostLoop() {
  runsHostFunction = true;
  Lock lock(state().mutex);
  while (true) {
    wakeHost.wait(lock, [&] { return atHost != nullptr; });
    execute(lock, *atHost);
    atHost = nullptr;
    wake.notify_one();
  }
}
