// SPDX-License-Identifier: Apache-2.0
// Facts about the system: limits, settings, and which calls the kernel has. What kernel
// headers may lack is declared here.
#include <linux/capability.h>
#include <sys/ioctl.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/syscall.h>
#include <sys/utsname.h>
#include <unistd.h>

#include <cerrno>
#include <cstdio>
#include <fstream>
#include <sstream>
#include <string>

#include "doctor_facts.h"

namespace weig::cli {
namespace {

std::string text_of(const std::string& path) {
  std::ifstream file(path);
  std::ostringstream text;
  text << file.rdbuf();
  return text.str();
}

std::optional<std::uint64_t> number_in(const std::string& path) {
  std::ifstream file(path);
  std::uint64_t number = 0;
  if (!(file >> number)) return {};
  return number;
}

// The figure of a line "NAME:  123 kB" of /proc/meminfo, in bytes.
std::uint64_t memory_figure(const std::string& meminfo, const std::string& name) {
  const std::size_t at = meminfo.find("\n" + name + ":");
  if (at == meminfo.npos) return 0;
  return std::stoull(meminfo.substr(at + name.size() + 2)) * 1024;
}

// Populates a page of our own: EINVAL where the kernel does not know the advice.
bool has_populate() {
  constexpr int kPopulateRead = 22;
  const auto page = static_cast<std::size_t>(::sysconf(_SC_PAGESIZE));
  void* at = ::mmap(nullptr, page, PROT_READ, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  if (at == MAP_FAILED) return true;  // not known to be missing
  const bool has = ::madvise(at, page, kPopulateRead) == 0 || errno != EINVAL;
  ::munmap(at, page);
  return has;
}

// The calls are made wrongly on purpose: a kernel that has them says so otherwise.
bool has_cachestat() {
  constexpr long kCachestat = 451;
  return ::syscall(kCachestat, -1, nullptr, nullptr, 0) == 0 || errno != ENOSYS;
}
bool has_page_scan() {
  constexpr std::size_t kArgumentBytes = 96;
  const unsigned long request = _IOC(_IOC_READ | _IOC_WRITE, 'f', 16, kArgumentBytes);
  std::FILE* pagemap = std::fopen("/proc/self/pagemap", "re");
  if (pagemap == nullptr) return false;
  const bool has = ::ioctl(::fileno(pagemap), request, nullptr) == 0 || errno != ENOTTY;
  std::fclose(pagemap);
  return has;
}

// Of this process, now.
bool may_raise_limits() {
  __user_cap_header_struct header{.version = _LINUX_CAPABILITY_VERSION_3, .pid = 0};
  __user_cap_data_struct data[_LINUX_CAPABILITY_U32S_3] = {};
  if (::syscall(SYS_capget, &header, data) != 0)
    return true;  // not known to be missing
  return (data[0].effective >> CAP_SYS_RESOURCE & 1U) != 0;
}

// "always [madvise] never" -> "madvise".
std::string chosen(const std::string& text) {
  const std::size_t begin = text.find('[');
  const std::size_t end = text.find(']');
  if (begin == text.npos || end == text.npos) return {};
  return text.substr(begin + 1, end - begin - 1);
}

std::optional<std::uint64_t> limit_of(rlim_t value) {
  if (value == RLIM_INFINITY) return {};
  return value;
}

void add_limits(SystemFacts& facts) {
  rlimit space{};
  if (::getrlimit(RLIMIT_AS, &space) == 0) {
    facts.address_space = limit_of(space.rlim_cur);
    facts.address_space_hard = limit_of(space.rlim_max);
  }
  facts.address_space_used =
      number_in("/proc/self/statm").value_or(0) * facts.page_size;
  facts.max_map_count = number_in("/proc/sys/vm/max_map_count");
  facts.overcommit =
      static_cast<unsigned>(number_in("/proc/sys/vm/overcommit_memory").value_or(0));
  const std::string meminfo = text_of("/proc/meminfo");
  facts.commit_limit = memory_figure(meminfo, "CommitLimit");
  facts.committed = memory_figure(meminfo, "Committed_AS");
}

}  // namespace

SystemFacts system_facts() {
  SystemFacts facts;
  utsname name{};
  if (::uname(&name) == 0) facts.kernel = name.release;
  if (std::sscanf(facts.kernel.c_str(), "%u.%u", &facts.version.first,
                  &facts.version.second) != 2)
    facts.version = {0, 0};
  facts.root = ::geteuid() == 0;
  facts.may_raise_limits = facts.root && may_raise_limits();
  facts.cpus = usable_cpus();
  facts.page_size = static_cast<std::uint64_t>(::sysconf(_SC_PAGESIZE));
  facts.has_populate = has_populate();
  facts.has_cachestat = has_cachestat();
  facts.has_page_scan = has_page_scan();
  facts.huge_pages = chosen(text_of("/sys/kernel/mm/transparent_hugepage/enabled"));
  facts.huge_pages_off_here = ::prctl(PR_GET_THP_DISABLE, 0, 0, 0, 0) == 1;
  facts.lock = memory_lock_limit();
  facts.memory = memory_limit();
  add_limits(facts);
  return facts;
}

}  // namespace weig::cli
