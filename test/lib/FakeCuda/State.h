//===- State.h - what the fake CUDA driver keeps --------------------------===//
//
// Part of the mpcomm project, under the Apache License v2.0 with LLVM
// Exceptions. SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// All of it is after one mutex, which every call of the API takes. It is never
// freed: work may be under way while the process ends.
//
//===----------------------------------------------------------------------===//

#ifndef MPCOMM_TEST_LIB_FAKECUDA_STATE_H
#define MPCOMM_TEST_LIB_FAKECUDA_STATE_H

#include "CudaApi.h"
#include "Memory.h"
#include "Options.h"
#include "Random.h"
#include "Scheduler.h"

#include <deque>
#include <memory>
#include <mutex>
#include <thread>
#include <unordered_map>

namespace fake {

using Lock = std::unique_lock<std::mutex>;

/// Objects by handle. Handles are numbers that point to nothing, and none is
/// given out twice.
template <typename T> class Handles {
public:
  void *add(std::shared_ptr<T> object) {
    static_assert(sizeof(void *) == 8);
    void *handle = reinterpret_cast<void *>(next);
    next += 16;
    objects.emplace(handle, std::move(object));
    return handle;
  }
  std::shared_ptr<T> find(const void *handle) const {
    auto found = objects.find(const_cast<void *>(handle));
    return found == objects.end() ? nullptr : found->second;
  }
  bool erase(const void *handle) {
    return objects.erase(const_cast<void *>(handle)) != 0;
  }
  template <typename Condition> void eraseIf(Condition condition) {
    std::erase_if(objects,
                  [&](const auto &entry) { return condition(*entry.second); });
  }
  auto begin() const { return objects.begin(); }
  auto end() const { return objects.end(); }

private:
  std::unordered_map<void *, std::shared_ptr<T>> objects;
  static inline uintptr_t next = 0x5f00'0000'0010;
};

/// A graph: its nodes, in an order that respects their dependences until one is
/// added.
struct Graph {
  struct GraphNode {
    std::shared_ptr<const Work> work;
    unsigned group;
    int priority; // of the stream
    std::vector<size_t> after;
    bool destroyed = false;
  };
  struct Context *context = nullptr;
  std::deque<GraphNode> nodes; // which stay where they are
};

/// A capture that goes on, or that has gone wrong and not been ended.
struct Capture {
  std::shared_ptr<Graph> graph;
  CUstreamCaptureMode mode;
  std::thread::id thread;
  struct Stream *origin;
  bool invalid = false, ended = false;
};

/// Where the work of a stream ends: the last node while it runs, the nodes of
/// the graph while it is being captured.
struct Mark {
  std::shared_ptr<Node> node;
  std::shared_ptr<Capture> capture;
  std::vector<size_t> tail;
};

struct Stream {
  Context *context;
  unsigned flags;
  int priority;
  unsigned group;
  Mark end;

  bool isCapturing() const { return end.capture != nullptr; }
};

struct Event {
  Context *context;
  unsigned flags;
  bool recorded = false;
  Mark mark;
};

struct GraphExec {
  std::shared_ptr<Graph> graph;
  std::shared_ptr<Node> last;
};

struct Module;
struct Function;

/// The primary context of a device.
struct Context {
  int device;
  unsigned references = 0;
  CUresult error = CUDA_SUCCESS; // sticks
  void *handle = nullptr;
  std::shared_ptr<Stream> legacy;
};

struct State {
  std::mutex mutex;
  Options options;
  Random random;
  Scheduler scheduler;
  DeviceMemory memory;
  bool initialised = false;
  int process = 0;
  unsigned groups = 0;
  std::vector<Context *> devices; // of the contexts below
  Handles<Context> contexts;
  Handles<Stream> streams;
  Handles<Event> events;
  Handles<Module> modules;
  Handles<Function> functions;
  Handles<Graph> graphs;
  Handles<GraphExec> execs;
  std::vector<std::shared_ptr<Capture>> captures;
};

State &state();

/// A call of the API: counts it, makes it fail where that was asked for, and
/// holds the lock until it returns.
class Entry {
public:
  enum Needs { Nothing, Initialised, Current };
  Entry(const char *name, Needs needs);

  CUresult result = CUDA_SUCCESS;
  Lock lock;
  Context *context = nullptr; // the thread's, where one is needed
};

#define FAKE_ENTER(name, needs)                                                \
  Entry entry(#name, Entry::needs);                                            \
  if (entry.result != CUDA_SUCCESS)                                            \
  return entry.result

/// The thread's stack of contexts.
std::vector<Context *> &contextStack();

/// The stream after a handle, null where there is none.
std::shared_ptr<Stream> findStream(const Entry &entry, CUstream handle);

/// Adds work to a stream, or to the graph that it is being captured into.
CUresult enqueue(Stream &stream, Work work,
                 std::shared_ptr<Node> *node = nullptr);

/// An error, and the end of the capture, where this thread may not call what
/// could wait for the device or allocate.
CUresult refuseWhileCapturing();

/// Says on standard error what the driver would not say.
void explain(const char *format, ...) __attribute__((format(printf, 1, 2)));

} // namespace fake

#endif // MPCOMM_TEST_LIB_FAKECUDA_STATE_H
