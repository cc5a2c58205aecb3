//===- Program.cpp - a loaded program file --------------------------------===//
//
// Part of the mpcomm project, under the Apache License v2.0 with LLVM
// Exceptions. SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// All that can be checked is checked in the file's bytes (see ProgramFile.h),
// before they are opened: not the file, which somebody may write to while it is
// mapped, but a copy of them in memory.
//
//===----------------------------------------------------------------------===//

#include "session/program/Program.h"

#include "session/program/CpuFeatures.h"
#include "session/program/ProgramFile.h"

#include <algorithm>
#include <cctype>
#include <cerrno>
#include <cstring>
#include <dlfcn.h>
#include <fcntl.h>
#include <sys/mman.h>
#include <unistd.h>

using namespace mprt;

namespace {

/// Checks the table of images at `table`, which has `bytes`.
Error checkImages(const std::string &path, const mprt_image *table,
                  uint64_t bytes) {
  for (uint64_t i = 0; (i + 1) * sizeof(mprt_image) <= bytes; ++i) {
    if (table[i].chip == 0)
      return {};
    const char *data = static_cast<const char *>(table[i].data);
    bool whole = data && table[i].bytes >= 4 && table[i].is_text <= 1;
    // The driver reads text up to its end, and code as its header says.
    if (whole)
      whole = table[i].is_text ? data[table[i].bytes - 1] == 0
                               : std::memcmp(data, "\177ELF", 4) == 0;
    if (!whole)
      return fail(path, ": image ", i, " of symbol 'mpcomm_images' is neither ",
                  "a cubin nor PTX that ends with a zero byte");
  }
  return fail(path, ": symbol 'mpcomm_images' does not end with a chip 0");
}

std::string loaderMessage() {
  const char *message = dlerror();
  return printable(message ? message : "unknown error", 400);
}

/// A file in memory with these bytes, which nobody can change; -1 and errno.
int sealedCopyOf(const std::string &name, std::string_view bytes) {
  int copy = memfd_create(name.c_str(), MFD_CLOEXEC | MFD_ALLOW_SEALING);
  while (copy >= 0 && !bytes.empty()) {
    ssize_t put = write(copy, bytes.data(), bytes.size());
    if (put > 0)
      bytes.remove_prefix(static_cast<size_t>(put));
    else if (put == 0 || errno != EINTR)
      break;
  }
  constexpr int seals =
      F_SEAL_WRITE | F_SEAL_GROW | F_SEAL_SHRINK | F_SEAL_SEAL;
  if (copy < 0 || (bytes.empty() && fcntl(copy, F_ADD_SEALS, seals) == 0))
    return copy;
  int error = errno;
  close(copy);
  errno = error;
  return -1;
}

/// The runtime may have been loaded for one library alone, as an interpreter's
/// module is. Programs look for it among what all libraries see.
void showRuntime() {
  Dl_info runtime;
  if (dladdr(reinterpret_cast<void *>(&mprt_launch), &runtime))
    (void)dlopen(runtime.dli_fname, RTLD_NOW | RTLD_NOLOAD | RTLD_GLOBAL);
}

/// Opens a library of these bytes, which is closed with the last copy of it.
Expected<std::shared_ptr<void>> openLibrary(const std::string &path,
                                            std::string_view bytes) {
  int copy = sealedCopyOf(path.substr(path.rfind('/') + 1, 200), bytes);
  if (copy < 0)
    return fail(path, ": cannot copy it into memory: ", std::strerror(errno));
  std::string name = "/proc/self/fd/" + std::to_string(copy);
  showRuntime();
  if (void *handle = dlopen(name.c_str(), RTLD_NOW | RTLD_LOCAL))
    // The loader knows a library again by its name, which has this number: it
    // stays open as long, so that it is nobody else's.
    return std::shared_ptr<void>(handle, [copy](void *library) {
      dlclose(library);
      close(copy);
    });
  Error status = fail(path, ": cannot load: ", loaderMessage());
  close(copy);
  return status;
}

Error missingSymbol(const std::string &path, const std::string &symbol) {
  return fail(path, ": symbol '", printable(symbol),
              "' is missing, expected a program made by mpcomm-compile");
}

/// Checks the file's ABI number and processor features; its manifest. What a
/// variant exports has a `suffix`.
Expected<Manifest> readManifest(const std::string &path,
                                const ProgramFile &file,
                                const std::string &suffix) {
  uint32_t version;
  std::string_view abi = file.contentsOf("mpcomm_abi_version" + suffix);
  if (abi.size() != sizeof(version))
    return missingSymbol(path, "mpcomm_abi_version" + suffix);
  std::memcpy(&version, abi.data(), sizeof(version));
  if (version != MPRT_ABI_VERSION)
    return fail(path, ": compiled for ABI ", version,
                " of the runtime, this one has ABI ", MPRT_ABI_VERSION,
                "; compile the program again");
  std::string_view text = file.contentsOf("mpcomm_manifest" + suffix);
  if (text.empty())
    return missingSymbol(path, "mpcomm_manifest" + suffix);
  Expected<Manifest> manifest = parseManifest(text.substr(0, text.find('\0')));
  if (manifest.failed())
    return fail(path, ": ", manifest.message());
  if (manifest->abi != version)
    return fail(path, ": manifest says ABI ", manifest->abi, ", the program ",
                version);
  std::string lacking;
  for (const std::string &feature : missingCpuFeatures(manifest->features))
    lacking += (lacking.empty() ? "" : ", ") + feature;
  if (!lacking.empty())
    return fail(path, ": compiled for processor '", printable(manifest->cpu),
                "'; this one lacks ", lacking);
  return manifest;
}

/// The names of the variants in a file, one a line.
Expected<std::vector<std::string>> readVariants(const std::string &path,
                                                const ProgramFile &file) {
  std::vector<std::string> names;
  std::string_view text = file.contentsOf("mpcomm_variants");
  text = text.substr(0, text.find('\0'));
  while (!text.empty()) {
    size_t end = std::min(text.find('\n'), text.size());
    std::string name(text.substr(0, end));
    bool isName =
        !name.empty() && std::all_of(name.begin(), name.end(), [](char c) {
          return std::isalnum(static_cast<unsigned char>(c)) || c == '-' ||
                 c == '_';
        });
    if (!isName || std::find(names.begin(), names.end(), name) != names.end())
      return fail(path, ": symbol 'mpcomm_variants' has the line '",
                  printable(name), "', expected names, each once");
    names.push_back(name);
    text.remove_prefix(std::min(end + 1, text.size()));
  }
  return names;
}

std::string suffixOf(const std::string &variant) {
  return variant.empty() ? "" : "." + variant;
}

} // namespace

/// All that can be checked before the file is opened.
Error Program::read(const ProgramFile &from) {
  std::string suffix = suffixOf(name);
  Expected<Manifest> manifest = readManifest(file, from, suffix);
  if (manifest.failed())
    return manifest.error();
  description = manifest.take();
  std::string_view whole = from.contentsOf("mpcomm_manifest" + suffix);
  text = whole.substr(0, whole.find('\0'));
  for (const ManifestFunction &function : description.functions)
    if (!from.exports(function.entry + suffix))
      return missingSymbol(file, function.entry + suffix);
  if (description.device == "cuda" && from.contentsOf("mpcomm_images").empty())
    return missingSymbol(file, "mpcomm_images");
  return {};
}

/// Finds the entry points in the library.
Error Program::bind() {
  std::string suffix = suffixOf(name);
  for (const ManifestFunction &function : description.functions) {
    std::string symbol = function.entry + suffix;
    void *entry = dlsym(library.get(), symbol.c_str());
    if (!entry)
      return missingSymbol(file, symbol);
    entries[function.entry] = reinterpret_cast<mprt_entry>(entry);
  }
  return {};
}

Expected<Program> Program::load(const std::string &path) {
  // Not blocking, so that a pipe under that name cannot hang the run.
  int descriptor = open(path.c_str(), O_RDONLY | O_CLOEXEC | O_NONBLOCK);
  if (descriptor < 0)
    return makeError(errno == ENOENT ? MPRT_NOT_FOUND : MPRT_IO_ERROR, path,
                     ": cannot open: ", std::strerror(errno));
  Expected<ProgramFile> file = ProgramFile::read(path, descriptor);
  close(descriptor);
  if (file.failed())
    return file.error();
  Program program;
  program.file = path;
  program.hash = file->digest();
  if (Error error = program.read(*file))
    return error;
  Expected<std::vector<std::string>> names = readVariants(path, *file);
  if (names.failed())
    return names.error();
  std::vector<Program> variants(names->size());
  for (size_t i = 0; i < variants.size(); ++i) {
    variants[i].file = path;
    variants[i].hash = program.hash;
    variants[i].name = (*names)[i];
    if (Error error = variants[i].read(*file))
      return error;
  }
  std::string_view table = file->contentsOf("mpcomm_images");

  Expected<std::shared_ptr<void>> handle = openLibrary(path, file->bytes());
  if (handle.failed())
    return handle.error();
  program.library = *handle;
  if (Error error = program.bind())
    return error;
  if (program.description.device == "cuda") {
    void *images = dlsym(handle->get(), "mpcomm_images");
    if (!images)
      return missingSymbol(path, "mpcomm_images");
    program.kernels = static_cast<const mprt_image *>(images);
    if (Error status = checkImages(path, program.kernels, table.size());
        status.failed())
      return status;
  }
  for (Program &variant : variants) {
    variant.library = *handle;
    if (Error error = variant.bind())
      return error;
    program.others.push_back(
        std::make_shared<const Program>(std::move(variant)));
  }
  return program;
}
