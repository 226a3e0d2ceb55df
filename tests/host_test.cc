// SPDX-License-Identifier: Apache-2.0
// Limits of memory and CPUs, from the files of systems made for the test.
#include "os/host.h"

#include <gtest/gtest.h>

#include <filesystem>
#include <fstream>

#include "image.h"

namespace weig::test {
namespace {

class System {
 public:
  void set(const std::string& path, const std::string& text) const {
    const std::filesystem::path file = root() + path;
    std::filesystem::create_directories(file.parent_path());
    std::ofstream(file) << text;
  }
  std::string root() const { return folder_.path("root"); }

 private:
  Folder folder_;
};

constexpr const char* kMeminfo =
    "MemTotal:       16000000 kB\nMemFree:         1000000 kB\n"
    "MemAvailable:   12000000 kB\n";

TEST(Host, without_cgroups_the_machine_is_the_limit) {
  const System system;
  system.set("/proc/meminfo", kMeminfo);
  const MemoryLimit limit = os::memory_limit(system.root());
  EXPECT_EQ(limit.limit, 16'384'000'000u);
  EXPECT_EQ(limit.available, 12'288'000'000u);
  EXPECT_EQ(limit.source, "this machine");
  EXPECT_FALSE(os::cpu_quota(system.root()));
}

TEST(Host, knows_nothing_where_nothing_is_said) {
  const System system;
  const MemoryLimit limit = os::memory_limit(system.root());
  EXPECT_EQ(limit.limit, std::uint64_t{1} << 63);
  EXPECT_EQ(limit.source, "unknown");
}

TEST(Host, the_tightest_cgroup_of_version_2_counts) {
  const System system;
  system.set("/proc/meminfo", kMeminfo);
  system.set("/proc/self/cgroup", "0::/outer/inner\n");
  system.set("/proc/self/mountinfo",
             "30 23 0:26 / /sys/fs/cgroup rw,nosuid shared:9 - cgroup2 cgroup2 rw\n");
  const std::string outer = "/sys/fs/cgroup/outer";
  system.set(outer + "/memory.max", "4000000000\n");
  system.set(outer + "/memory.current", "3500000000\n");
  system.set(outer + "/memory.stat", "anon 1\nfile 2500000000\nfile_mapped 7\n");
  system.set(outer + "/inner/memory.max", "max\n");
  system.set(outer + "/inner/cpu.max", "150000 100000\n");
  system.set(outer + "/cpu.max", "max 100000\n");
  const MemoryLimit limit = os::memory_limit(system.root());
  EXPECT_EQ(limit.limit, 4'000'000'000u);
  EXPECT_EQ(limit.available, 3'000'000'000u);  // cache can be had back
  EXPECT_EQ(limit.source, "/sys/fs/cgroup/outer");
  EXPECT_EQ(os::cpu_quota(system.root()), 1.5);
}

TEST(Host, version_1_is_read_controller_by_controller) {
  const System system;
  system.set("/proc/meminfo", kMeminfo);
  system.set("/proc/self/cgroup", "4:memory:/job\n3:cpu,cpuacct:/slice\n0::/\n");
  system.set("/proc/self/mountinfo",
             "31 30 0:27 / /sys/fs/cgroup/unified rw - cgroup2 cgroup2 rw\n"
             "32 30 0:28 / /sys/fs/cgroup/memory rw - cgroup cgroup rw,memory\n"
             "33 30 0:29 / /sys/fs/cgroup/cpu rw - cgroup cgroup rw,cpu,cpuacct\n");
  const std::string job = "/sys/fs/cgroup/memory/job";
  system.set(job + "/memory.limit_in_bytes", "1000000000\n");
  system.set(job + "/memory.usage_in_bytes", "900000000\n");
  system.set(job + "/memory.stat", "cache 5\ntotal_cache 400000000\n");
  system.set("/sys/fs/cgroup/memory/memory.limit_in_bytes", "9223372036854771712\n");
  system.set("/sys/fs/cgroup/cpu/slice/cpu.cfs_quota_us", "-1\n");
  system.set("/sys/fs/cgroup/cpu/slice/cpu.cfs_period_us", "100000\n");
  const MemoryLimit limit = os::memory_limit(system.root());
  EXPECT_EQ(limit.limit, 1'000'000'000u);
  EXPECT_EQ(limit.available, 500'000'000u);
  EXPECT_EQ(limit.source, job);
  EXPECT_FALSE(os::cpu_quota(system.root()));
  system.set("/sys/fs/cgroup/cpu/slice/cpu.cfs_quota_us", "50000\n");
  EXPECT_EQ(os::cpu_quota(system.root()), 0.5);
}

TEST(Host, a_container_sees_its_part_of_the_hierarchy) {
  const System system;
  system.set("/proc/meminfo", kMeminfo);
  system.set("/proc/self/cgroup", "0::/docker/abc/app\n");
  system.set("/proc/self/mountinfo",
             "30 23 0:26 /docker/abc /sys/fs/cgroup ro - cgroup2 cgroup rw\n");
  system.set("/sys/fs/cgroup/app/memory.max", "2000000000\n");
  EXPECT_EQ(os::memory_limit(system.root()).limit, 2'000'000'000u);
  // A mount whose root only begins alike shows nothing of ours.
  system.set("/proc/self/cgroup", "0::/docker/abcdef/app\n");
  EXPECT_EQ(os::memory_limit(system.root()).limit, 16'384'000'000u);
  EXPECT_EQ(os::memory_limit(system.root()).source, "this machine");
}

TEST(Host, this_process_may_use_a_cpu) { EXPECT_GE(usable_cpus(), 1u); }

TEST(Host, storage_of_a_file_is_told) {
  const Folder folder;
  write_file(folder.path("f"), {});
  const Storage storage = storage_of(folder.path("f")).value();
  EXPECT_FALSE(storage.file_system.empty());
  EXPECT_FALSE(storage.remote);
  EXPECT_TRUE(storage.known);
  EXPECT_NE(storage.device.find(':'), std::string::npos);
  const Storage of_proc = storage_of("/proc/self/status").value();
  EXPECT_TRUE(of_proc.file_system.starts_with("type "));
  EXPECT_FALSE(of_proc.known);
  EXPECT_EQ(storage_of(folder.path("none")).error().code(), Code::cannot_open);
}

}  // namespace
}  // namespace weig::test
