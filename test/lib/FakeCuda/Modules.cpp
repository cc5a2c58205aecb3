//===- Modules.cpp - images and their kernels -----------------------------===//
//
// Part of the mpcomm project, under the Apache License v2.0 with LLVM
// Exceptions. SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "Modules.h"

#include "State.h"

#include <algorithm>
#include <cstdio>
#include <cstring>
#include <dlfcn.h>
#include <elf.h>
#include <fstream>
#include <iterator>
#include <sys/mman.h>
#include <unistd.h>

using namespace fake;

Module::~Module() {
  if (library)
    dlclose(library);
  if (file >= 0)
    close(file);
}

void fake::forgetModules(const Context &context) {
  state().functions.eraseIf([&](const Function &function) {
    return function.module->context == &context;
  });
  state().modules.eraseIf(
      [&](const Module &module) { return module.context == &context; });
}

//===----------------------------------------------------------------------===//
// Loading
//===----------------------------------------------------------------------===//

#if defined(__x86_64__)
static constexpr unsigned hostMachine = EM_X86_64;
#elif defined(__aarch64__)
static constexpr unsigned hostMachine = EM_AARCH64;
#else
static constexpr unsigned hostMachine = 0;
#endif

/// The bytes of an ELF file, by its headers.
static size_t sizeOfElf(const char *image) {
  Elf64_Ehdr header;
  std::memcpy(&header, image, sizeof header);
  size_t size = header.e_shoff + size_t(header.e_shnum) * header.e_shentsize;
  for (unsigned i = 0; i < header.e_phnum; ++i) {
    Elf64_Phdr segment;
    std::memcpy(&segment, image + header.e_phoff + i * header.e_phentsize,
                sizeof segment);
    size = std::max(size, size_t(segment.p_offset + segment.p_filesz));
  }
  for (unsigned i = 0; i < header.e_shnum; ++i) {
    Elf64_Shdr section;
    std::memcpy(&section, image + header.e_shoff + i * header.e_shentsize,
                sizeof section);
    if (section.sh_type != SHT_NOBITS)
      size = std::max(size, size_t(section.sh_offset + section.sh_size));
  }
  return size;
}

static CUresult load(Module &module, const char *image, std::string &why) {
  if (!state().options.computes)
    return CUDA_SUCCESS;
  if (std::memcmp(image, ELFMAG, SELFMAG) != 0) {
    bool text = std::strstr(image, ".version") != nullptr;
    if (text && std::strstr(image, ".entry mprt_zero_words(")) {
      // The runtime's own kernels are here.
      Dl_info self;
      if (dladdr(reinterpret_cast<void *>(&load), &self))
        module.library = dlopen(self.dli_fname, RTLD_NOW | RTLD_NOLOAD);
      return module.library ? CUDA_SUCCESS : CUDA_ERROR_INVALID_PTX;
    }
    const std::string &file = state().options.ptx;
    if (text && !file.empty()) {
      std::ifstream stream(file, std::ios::binary);
      std::vector<char> bytes(std::istreambuf_iterator<char>(stream), {});
      if (bytes.size() > sizeof(Elf64_Ehdr) &&
          std::memcmp(bytes.data(), ELFMAG, SELFMAG) == 0)
        return load(module, bytes.data(), why);
      why = "no image in " + file;
      return CUDA_ERROR_INVALID_PTX;
    }
    why = text ? "the fake device runs no PTX" : "not an ELF image";
    return text ? CUDA_ERROR_INVALID_PTX : CUDA_ERROR_INVALID_IMAGE;
  }
  Elf64_Ehdr header;
  std::memcpy(&header, image, sizeof header);
  if (header.e_ident[EI_CLASS] != ELFCLASS64 || header.e_type != ET_DYN ||
      header.e_machine != hostMachine) {
    why = "not a shared object for this host";
    return CUDA_ERROR_NO_BINARY_FOR_GPU;
  }
  // The image calls mpemu_…, whatever way this library was loaded.
  Dl_info self;
  if (dladdr(reinterpret_cast<void *>(&load), &self))
    dlopen(self.dli_fname, RTLD_NOW | RTLD_GLOBAL | RTLD_NOLOAD);
  size_t size = sizeOfElf(image);
  module.file = memfd_create("fake-cuda-image", MFD_CLOEXEC);
  if (module.file < 0)
    return CUDA_ERROR_OUT_OF_MEMORY;
  for (size_t done = 0; done < size;) {
    ssize_t wrote = write(module.file, image + done, size - done);
    if (wrote <= 0)
      return CUDA_ERROR_OUT_OF_MEMORY;
    done += size_t(wrote);
  }
  // The file stays open while it is loaded: the loader goes by its name.
  char path[64];
  std::snprintf(path, sizeof path, "/proc/self/fd/%d", module.file);
  module.library = dlopen(path, RTLD_NOW | RTLD_LOCAL);
  if (module.library)
    return CUDA_SUCCESS;
  why = dlerror();
  return CUDA_ERROR_INVALID_IMAGE;
}

static CUresult loadModule(Entry &entry, CUmodule *handle, const void *image,
                           std::string &why) {
  if (!handle || !image)
    return CUDA_ERROR_INVALID_VALUE;
  if (CUresult error = refuseWhileCapturing())
    return error;
  auto module = std::make_shared<Module>(entry.context);
  if (CUresult error = load(*module, static_cast<const char *>(image), why)) {
    explain("an image cannot be loaded: %s", why.c_str());
    return error;
  }
  *handle = static_cast<CUmodule>(state().modules.add(std::move(module)));
  return CUDA_SUCCESS;
}

CUresult cuModuleLoadData(CUmodule *module, const void *image) {
  FAKE_ENTER(cuModuleLoadData, Current);
  std::string why;
  return loadModule(entry, module, image, why);
}

CUresult cuModuleLoadDataEx(CUmodule *module, const void *image, unsigned count,
                            CUjit_option *options, void **values) {
  FAKE_ENTER(cuModuleLoadDataEx, Current);
  std::string why;
  CUresult result = loadModule(entry, module, image, why);
  char *buffer = nullptr;
  for (unsigned i = 0; i < count; ++i)
    if (int(options[i]) == CU_JIT_ERROR_LOG_BUFFER)
      buffer = static_cast<char *>(values[i]);
  for (unsigned i = 0; i < count; ++i)
    if (int(options[i]) == CU_JIT_ERROR_LOG_BUFFER_SIZE_BYTES) {
      size_t room = reinterpret_cast<uintptr_t>(values[i]) & 0xffffffff;
      if (buffer && room)
        std::snprintf(buffer, room, "%s", why.c_str());
      // In: the room, out: what was written, both in the pointer itself.
      values[i] = reinterpret_cast<void *>(std::min(room, why.size() + 1));
    }
  return result;
}

CUresult cuModuleUnload(CUmodule handle) {
  FAKE_ENTER(cuModuleUnload, Current);
  std::shared_ptr<Module> module = state().modules.find(handle);
  if (!module)
    return CUDA_ERROR_INVALID_HANDLE;
  if (CUresult error = refuseWhileCapturing())
    return error;
  state().functions.eraseIf(
      [&](const Function &function) { return function.module == module; });
  state().modules.erase(handle);
  return CUDA_SUCCESS;
}

//===----------------------------------------------------------------------===//
// Functions
//===----------------------------------------------------------------------===//

CUresult cuModuleGetFunction(CUfunction *function, CUmodule handle,
                             const char *name) {
  FAKE_ENTER(cuModuleGetFunction, Current);
  std::shared_ptr<Module> module = state().modules.find(handle);
  if (!module)
    return CUDA_ERROR_INVALID_HANDLE;
  if (!function || !name || !*name)
    return CUDA_ERROR_INVALID_VALUE;
  auto made = std::make_shared<Function>();
  made->module = module;
  made->name = name;
  // A kernel of any image, which is never run.
  if (!state().options.computes) {
    made->mostDynamicShared = 48 << 10;
    *function = static_cast<CUfunction>(state().functions.add(std::move(made)));
    return CUDA_SUCCESS;
  }
  auto symbol = [&](const std::string &name) {
    return dlsym(module->library, name.c_str());
  };
  void *code = symbol(name);
  auto *operands =
      static_cast<int32_t *>(symbol(std::string("mpemu_operands_") + name));
  auto *shared =
      static_cast<int32_t *>(symbol(std::string("mpemu_shared_") + name));
  if (!code)
    return CUDA_ERROR_NOT_FOUND;
  if (!operands) {
    explain("%s has no mpemu_operands_%s", name, name);
    return CUDA_ERROR_NOT_FOUND;
  }
  made->kernel = reinterpret_cast<EmulatedKernel>(code);
  made->operands = *operands;
  made->staticShared = shared ? *shared : 0;
  made->mostDynamicShared = (48 << 10) - made->staticShared;
  *function = static_cast<CUfunction>(state().functions.add(std::move(made)));
  return CUDA_SUCCESS;
}

CUresult cuFuncGetAttribute(int *value, CUfunction_attribute attribute,
                            CUfunction handle) {
  FAKE_ENTER(cuFuncGetAttribute, Current);
  std::shared_ptr<Function> function = state().functions.find(handle);
  if (!function)
    return CUDA_ERROR_INVALID_HANDLE;
  switch (int(attribute)) {
  case CU_FUNC_ATTRIBUTE_MAX_THREADS_PER_BLOCK:
    *value = 1024;
    return CUDA_SUCCESS;
  case CU_FUNC_ATTRIBUTE_SHARED_SIZE_BYTES:
    *value = function->staticShared;
    return CUDA_SUCCESS;
  case CU_FUNC_ATTRIBUTE_CONST_SIZE_BYTES:
  case CU_FUNC_ATTRIBUTE_LOCAL_SIZE_BYTES:
    *value = 0;
    return CUDA_SUCCESS;
  case CU_FUNC_ATTRIBUTE_NUM_REGS:
    *value = 32;
    return CUDA_SUCCESS;
  case CU_FUNC_ATTRIBUTE_PTX_VERSION:
  case CU_FUNC_ATTRIBUTE_BINARY_VERSION:
    *value = state().options.chip;
    return CUDA_SUCCESS;
  case CU_FUNC_ATTRIBUTE_MAX_DYNAMIC_SHARED_SIZE_BYTES:
    *value = function->mostDynamicShared;
    return CUDA_SUCCESS;
  case CU_FUNC_ATTRIBUTE_PREFERRED_SHARED_MEMORY_CARVEOUT:
    *value = -1;
    return CUDA_SUCCESS;
  default:
    return CUDA_ERROR_INVALID_VALUE;
  }
}

CUresult cuFuncSetAttribute(CUfunction handle, CUfunction_attribute attribute,
                            int value) {
  FAKE_ENTER(cuFuncSetAttribute, Current);
  std::shared_ptr<Function> function = state().functions.find(handle);
  if (!function)
    return CUDA_ERROR_INVALID_HANDLE;
  if (int(attribute) == CU_FUNC_ATTRIBUTE_PREFERRED_SHARED_MEMORY_CARVEOUT)
    return value >= -1 && value <= 100 ? CUDA_SUCCESS
                                       : CUDA_ERROR_INVALID_VALUE;
  int most = sharedBytesOfSm() - 1024 - function->staticShared;
  if (int(attribute) != CU_FUNC_ATTRIBUTE_MAX_DYNAMIC_SHARED_SIZE_BYTES ||
      value < 0 || value > most)
    return CUDA_ERROR_INVALID_VALUE;
  function->mostDynamicShared = value;
  return CUDA_SUCCESS;
}

CUresult cuOccupancyMaxActiveBlocksPerMultiprocessor(int *blocks,
                                                     CUfunction handle,
                                                     int threads,
                                                     size_t dynamicShared) {
  FAKE_ENTER(cuOccupancyMaxActiveBlocksPerMultiprocessor, Current);
  std::shared_ptr<Function> function = state().functions.find(handle);
  if (!function)
    return CUDA_ERROR_INVALID_HANDLE;
  if (!blocks || threads < 1)
    return CUDA_ERROR_INVALID_VALUE;
  *blocks = 0;
  if (threads > 1024 || dynamicShared > size_t(function->mostDynamicShared))
    return CUDA_SUCCESS;
  int byShared =
      sharedBytesOfSm() / (int(dynamicShared) + function->staticShared + 1024);
  *blocks = std::min({2048 / ((threads + 31) / 32 * 32), byShared, 32});
  return CUDA_SUCCESS;
}

CUresult fake::makeLaunch(const std::shared_ptr<Function> &function,
                          const unsigned (&grid)[3], const unsigned (&block)[3],
                          unsigned sharedBytes, void *const *operands,
                          void **extra, Work &work) {
  if (grid[0] < 1 || grid[0] > 0x7fffffff || grid[1] < 1 || grid[2] < 1 ||
      block[0] < 1 || block[1] < 1 || block[2] < 1 ||
      uint64_t(block[0]) * block[1] * block[2] > 1024)
    return CUDA_ERROR_INVALID_VALUE;
  if (grid[1] != 1 || grid[2] != 1 || block[1] != 1 || block[2] != 1 || extra) {
    explain("%s: only grids of one dimension and operands by address are "
            "emulated",
            function->name.c_str());
    return CUDA_ERROR_NOT_SUPPORTED;
  }
  if (sharedBytes > unsigned(function->mostDynamicShared) ||
      (function->operands && !operands))
    return CUDA_ERROR_INVALID_VALUE;
  (void)state().options.count(function->name + ":" + std::to_string(grid[0]));
  work.kind = Work::Device;
  work.name = function->name.c_str();
  std::vector<void *> translated;
  for (int i = 0; i < function->operands; ++i) {
    uint64_t address;
    std::memcpy(&address, operands[i], sizeof address);
    if (address)
      work.touched.push_back({address, 0});
    translated.push_back(state().memory.translate(address));
  }
  work.run = [function, gridX = grid[0], blockX = block[0], sharedBytes,
              translated]() -> CUresult {
    if (!function->kernel)
      return CUDA_SUCCESS;
    return runKernel(function->name.c_str(), function->kernel,
                     translated.data(), gridX, blockX,
                     uint32_t(function->staticShared), sharedBytes);
  };
  return CUDA_SUCCESS;
}

CUresult cuLaunchKernel(CUfunction handle, unsigned gridX, unsigned gridY,
                        unsigned gridZ, unsigned blockX, unsigned blockY,
                        unsigned blockZ, unsigned sharedBytes,
                        CUstream streamHandle, void **operands, void **extra) {
  FAKE_ENTER(cuLaunchKernel, Current);
  std::shared_ptr<Function> function = state().functions.find(handle);
  std::shared_ptr<Stream> stream = findStream(entry, streamHandle);
  if (!function || !stream || function->module->context != stream->context)
    return CUDA_ERROR_INVALID_HANDLE;
  Work work;
  if (CUresult error =
          makeLaunch(function, {gridX, gridY, gridZ}, {blockX, blockY, blockZ},
                     sharedBytes, operands, extra, work))
    return error;
  return enqueue(*stream, std::move(work));
}
