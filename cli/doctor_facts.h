// SPDX-License-Identifier: Apache-2.0
// What `weig doctor` looks at: facts about this system and one file, without judgement.
#pragma once

#include <weig/host.h>
#include <weig/memory_lock.h>
#include <weig/model.h>
#include <weig/page_cache.h>

#include <cstdint>
#include <optional>
#include <string>
#include <utility>

#include "strip.h"
#include "summary.h"

namespace weig::cli {

struct SystemFacts {
  std::string kernel;                     // "6.18.3-amd64"
  std::pair<unsigned, unsigned> version;  // 6, 18
  bool root = false;
  bool may_raise_limits = false;  // root with CAP_SYS_RESOURCE, which containers lack
  unsigned cpus = 1;
  std::uint64_t page_size = 4096;
  bool has_populate = true;  // MADV_POPULATE_READ
  bool has_cachestat = true;
  bool has_page_scan = true;  // PAGEMAP_SCAN
  std::string huge_pages;     // "always", "madvise", "never"; empty: not built in
  bool huge_pages_off_here = false;  // for this process and its children (prctl)
  LockLimit lock;
  std::optional<std::uint64_t> address_space;  // RLIMIT_AS; nothing: unlimited
  std::optional<std::uint64_t> address_space_hard;
  std::uint64_t address_space_used = 0;
  std::optional<std::uint64_t> max_map_count;
  unsigned overcommit = 0;         // vm.overcommit_memory
  std::uint64_t commit_limit = 0;  // bytes; of weight for overcommit == 2
  std::uint64_t committed = 0;
  MemoryLimit memory;
};

struct FileFacts {
  std::string path;
  std::uint64_t size = 0;
  Storage storage;
  std::string mount_point;
  bool read_only_mount = false;
  std::string read_ahead_file;  // that sets it; empty: not known
  Residency residency;
  std::string why_unknown;  // where residency is
  // Whether the file system keeps files in 2 MiB folios; nothing: not known.
  std::optional<bool> large_folios;
  bool measured = false;         // on this file, not by the kernel's version
  std::optional<Error> refusal;  // of opening it
  FileFormat format = FileFormat::weig;
  bool sealed = false;
  Summary summary;               // where it could be opened
  std::uint64_t misaligned = 0;  // tensors whose elements cannot be read in place
};

SystemFacts system_facts();

// Fails where the file cannot be opened at all. May read 2 MiB of it, which it drops
// again.
Result<FileFacts> file_facts(const std::string& path, const SystemFacts& system);

}  // namespace weig::cli
