// SPDX-License-Identifier: Apache-2.0
// What decides how fast a model loads here: memory that may be used, CPUs, and the
// storage that a file lies on.
#pragma once

#include <cstdint>
#include <optional>
#include <string>

#include <weig/error.h>

namespace weig {

// CPUs that this process may use: of its affinity mask, and no more than the quotas of
// its cgroups (v1 and v2; asked for once), rounded up. At least 1.
unsigned usable_cpus() noexcept;

struct MemoryLimit {
  std::uint64_t limit = 0;      // bytes that this process may use at most
  std::uint64_t available = 0;  // of these not in use now, reclaimable cache counted in
  std::string source;           // "this machine", or the cgroup that sets the limit
};
// The tightest of the machine's memory and the limits of the process's cgroups (v1 and
// v2, all levels up to the root). Where nothing can be found out: 2^63, "unknown".
MemoryLimit memory_limit();

struct Storage {
  std::string file_system;  // as mount(8) calls it: "ext4", "nfs", "fuse", ...
  bool remote = false;      // over a network, or served by a process (FUSE)
  bool in_memory = false;   // tmpfs and the like: always resident
  std::string device;       // number of the device or of the mount, "254:0"
  std::optional<std::uint64_t> read_ahead;  // bytes; nothing if not known
  bool known = false;  // the kind of file system is; else it is taken for a local one
};
// Where a file lies. Fails with cannot_open.
Result<Storage> storage_of(const std::string& path);

}  // namespace weig
