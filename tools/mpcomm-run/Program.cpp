//===- Program.cpp - a loaded program file --------------------------------===//
//
// Part of the mpcomm project, under the Apache License v2.0 with LLVM
// Exceptions. SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// The file is first opened with its functions unbound, so that a program of
// another ABI is told so rather than "undefined symbol"; once its number and
// its features are right, it is bound completely.
//
//===----------------------------------------------------------------------===//

#include "Program.h"

#include "CpuFeatures.h"

#include <cerrno>
#include <cstring>
#include <dlfcn.h>
#include <fcntl.h>
#include <link.h>
#include <sys/stat.h>
#include <unistd.h>

using namespace mpcomm::run;

namespace {

/// Whether everything that an ELF file says it has lies in it: the loader maps
/// what is there, and the rest is a bus error at its first use.
Status checkWhole(const std::string &path, int descriptor, uint64_t bytes) {
  Status cut = fail(path, ": not a whole program file: it ends after ", bytes,
                    " bytes; copy or compile it again");
  auto holds = [bytes](uint64_t at, uint64_t count) {
    return at <= bytes && count <= bytes - at;
  };
  ElfW(Ehdr) header;
  if (pread(descriptor, &header, sizeof(header), 0) != sizeof(header))
    return cut;
  // Of another class or byte order: for the loader to refuse.
  if (header.e_ident[EI_CLASS] != ELFCLASS64 ||
      header.e_phentsize != sizeof(ElfW(Phdr)))
    return {};
  if (!holds(header.e_phoff, uint64_t(header.e_phnum) * sizeof(ElfW(Phdr))) ||
      !holds(header.e_shoff, uint64_t(header.e_shnum) * header.e_shentsize))
    return cut;
  for (unsigned i = 0; i < header.e_phnum; ++i) {
    ElfW(Phdr) segment;
    auto at = static_cast<off_t>(header.e_phoff + i * sizeof(segment));
    if (pread(descriptor, &segment, sizeof(segment), at) != sizeof(segment) ||
        !holds(segment.p_offset, segment.p_filesz))
      return cut;
  }
  return {};
}

/// Checks the table of images at `table`, of which the file says that it has
/// `bytes` (0: it does not say).
Status checkImages(const std::string &path, const mprt_image *table,
                   uint64_t bytes) {
  if (!bytes)
    return {};
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

/// Hashes the file, and refuses what is no ELF file before the loader sees it.
Result<uint64_t> digestOf(const std::string &path) {
  int descriptor = open(path.c_str(), O_RDONLY | O_CLOEXEC | O_NONBLOCK);
  if (descriptor < 0)
    return fail(path, ": cannot open: ", std::strerror(errno));
  struct stat info;
  if (fstat(descriptor, &info) != 0 || !S_ISREG(info.st_mode)) {
    close(descriptor);
    return fail(path, ": not a regular file");
  }
  uint64_t hash = 0xcbf29ce484222325u;
  char buffer[1 << 14];
  bool first = true, elf = false;
  ssize_t got;
  while ((got = read(descriptor, buffer, sizeof(buffer))) > 0) {
    if (first)
      elf = got >= 4 && std::memcmp(buffer, "\177ELF", 4) == 0;
    first = false;
    for (ssize_t i = 0; i < got; ++i)
      hash = (hash ^ static_cast<unsigned char>(buffer[i])) * 0x100000001b3u;
  }
  int error = got < 0 ? errno : 0;
  Status whole;
  if (elf && !error)
    whole = checkWhole(path, descriptor, static_cast<uint64_t>(info.st_size));
  close(descriptor);
  if (error)
    return fail(path, ": cannot read: ", std::strerror(error));
  if (!elf)
    return fail(path, ": not a program file: expected a shared object made by "
                      "mpcomm-compile");
  if (whole.failed())
    return whole;
  return hash;
}

std::string loaderMessage() {
  const char *message = dlerror();
  return printable(message ? message : "unknown error", 400);
}

/// Bytes of the exported object `symbol`; zero where the file does not say.
uint64_t sizeOfSymbol(void *symbol) {
  Dl_info info;
  const ElfW(Sym) *entry = nullptr;
  if (!dladdr1(symbol, &info,
               reinterpret_cast<void **>(const_cast<ElfW(Sym) **>(&entry)),
               RTLD_DL_SYMENT) ||
      !entry)
    return 0;
  return entry->st_size;
}

} // namespace

Result<Program> Program::load(const std::string &path) {
  Program program;
  program.file = path;
  Result<uint64_t> digest = digestOf(path);
  if (digest.failed())
    return digest.status();
  program.hash = *digest;

  // Without a slash the loader would search its own folders.
  std::string address =
      path.find('/') == std::string::npos ? "./" + path : path;
  void *handle = dlopen(address.c_str(), RTLD_LAZY | RTLD_LOCAL);
  if (!handle)
    return fail(path, ": cannot load: ", loaderMessage());
  auto missing = [&](const std::string &symbol) {
    return fail(path, ": symbol '", printable(symbol),
                "' is missing, expected a program made by mpcomm-compile");
  };
  void *abi = dlsym(handle, "mpcomm_abi_version");
  if (!abi)
    return missing("mpcomm_abi_version");
  uint32_t version;
  std::memcpy(&version, abi, sizeof(version));
  if (version != MPRT_ABI_VERSION)
    return fail(path, ": compiled for ABI ", version,
                " of the runtime, this one has ABI ", MPRT_ABI_VERSION,
                "; compile the program again");
  void *text = dlsym(handle, "mpcomm_manifest");
  if (!text)
    return missing("mpcomm_manifest");
  const char *manifestText = static_cast<const char *>(text);
  uint64_t bound = sizeOfSymbol(text);
  size_t length =
      bound ? strnlen(manifestText, bound) : std::strlen(manifestText);
  Result<Manifest> manifest =
      parseManifest(std::string_view(manifestText, length));
  if (manifest.failed())
    return fail(path, ": ", manifest.message());
  program.description = manifest.take();
  if (program.description.abi != version)
    return fail(path, ": manifest says ABI ", program.description.abi,
                ", the program ", version);

  std::string lacking;
  for (const std::string &feature :
       missingCpuFeatures(program.description.features))
    lacking += (lacking.empty() ? "" : ", ") + feature;
  if (!lacking.empty())
    return fail(path, ": compiled for processor '",
                printable(program.description.cpu), "'; this one lacks ",
                lacking);

  // The loader binds a file that is open already no further.
  dlclose(handle);
  handle = dlopen(address.c_str(), RTLD_NOW | RTLD_LOCAL);
  if (!handle)
    return fail(path, ": cannot load: ", loaderMessage());
  for (const ManifestFunction &function : program.description.functions) {
    void *entry = dlsym(handle, function.entry.c_str());
    if (!entry)
      return missing(function.entry);
    program.entries[function.entry] = reinterpret_cast<mprt_entry>(entry);
  }
  if (program.description.device == "cuda") {
    void *images = dlsym(handle, "mpcomm_images");
    if (!images)
      return missing("mpcomm_images");
    program.kernels = static_cast<const mprt_image *>(images);
    if (Status status =
            checkImages(path, program.kernels, sizeOfSymbol(images));
        status.failed())
      return status;
  }
  return program;
}
