// SPDX-License-Identifier: Apache-2.0
// Where a file lies: its file system, and how far the kernel reads ahead on it.
#include "os/storage.h"

#include <sys/stat.h>
#include <sys/statfs.h>
#include <sys/sysmacros.h>

#include <cerrno>

#include "core/try.h"
#include "os/host.h"

namespace weig::os {
namespace {

enum class Where { local, remote, memory };

struct Kind {
  std::uint32_t magic;
  const char* name;
  Where where;
};

// Numbers from linux/magic.h and statfs(2); of remote ones also those that only the
// kernel's own sources or coreutils list. What is not here is taken for local, under
// its number, and said not to be known.
constexpr Kind kKinds[] = {
    {0xef53, "ext4", Where::local},           {0x58465342, "xfs", Where::local},
    {0x9123683e, "btrfs", Where::local},      {0xf2f52010, "f2fs", Where::local},
    {0x2fc12fc1, "zfs", Where::local},        {0xca451a4e, "bcachefs", Where::local},
    {0x794c7630, "overlay", Where::local},    {0x73717368, "squashfs", Where::local},
    {0xe0f5e1e2, "erofs", Where::local},      {0x9660, "iso9660", Where::local},
    {0x4d44, "vfat", Where::local},           {0x2011bab0, "exfat", Where::local},
    {0x7366746e, "ntfs3", Where::local},      {0x15013346, "udf", Where::local},
    {0x3434, "nilfs2", Where::local},         {0x52654973, "reiserfs", Where::local},
    {0x3153464a, "jfs", Where::local},        {0x482b, "hfsplus", Where::local},
    {0x24051905, "ubifs", Where::local},      {0x72b6, "jffs2", Where::local},
    {0x28cd3d45, "cramfs", Where::local},     {0x4d5a, "minix", Where::local},
    {0x01021994, "tmpfs", Where::memory},     {0x858458f6, "ramfs", Where::memory},
    {0x958458f6, "hugetlbfs", Where::memory}, {0x6969, "nfs", Where::remote},
    {0xff534d42, "cifs", Where::remote},      {0xfe534d42, "smb2", Where::remote},
    {0x517b, "smb", Where::remote},           {0x65735546, "fuse", Where::remote},
    {0x01021997, "9p", Where::remote},        {0x00c36400, "ceph", Where::remote},
    {0x5346414f, "afs", Where::remote},       {0x73757245, "coda", Where::remote},
    {0x0bd00bd0, "lustre", Where::remote},    {0x47504653, "gpfs", Where::remote},
    {0x19830326, "beegfs", Where::remote},    {0x01161970, "gfs2", Where::remote},
    {0x7461636f, "ocfs2", Where::remote},     {0x20030528, "orangefs", Where::remote},
    {0x7c7c6673, "prl_fs", Where::remote},    {0x6b414653, "afs", Where::remote},
    {0xbacbacbc, "vmhgfs", Where::remote},    {0x786f4256, "vboxsf", Where::remote},
    {0xaad7aaea, "panfs", Where::remote},     {0x00c0ffee, "hostfs", Where::remote}};

std::optional<std::uint64_t> read_ahead_of(unsigned major, unsigned minor) {
  const std::string number = std::to_string(major) + ":" + std::to_string(minor);
  const std::string block = "/sys/dev/block/" + number;
  // Of a partition, its disk says. What has no device, its mount says.
  for (const std::string& path :
       {block + "/queue/read_ahead_kb", block + "/../queue/read_ahead_kb",
        "/sys/class/bdi/" + number + "/read_ahead_kb"})
    if (const auto kib = number_after("kb " + read_text(path), "kb"))
      return *kib * 1024;
  return {};
}

Result<Storage> storage_at(int descriptor) {
  struct statfs system;
  struct stat status;
  if (::fstatfs(descriptor, &system) != 0 || ::fstat(descriptor, &status) != 0)
    return system_error(Code::cannot_open, "look at the file system", errno);
  const auto magic = static_cast<std::uint32_t>(system.f_type);
  Storage storage;
  storage.file_system = "type " + std::to_string(magic);
  for (const Kind& kind : kKinds) {
    if (kind.magic != magic) continue;
    storage.known = true;
    storage.file_system = kind.name;
    storage.remote = kind.where == Where::remote;
    storage.in_memory = kind.where == Where::memory;
  }
  storage.device =
      std::to_string(major(status.st_dev)) + ":" + std::to_string(minor(status.st_dev));
  storage.read_ahead = read_ahead_of(major(status.st_dev), minor(status.st_dev));
  return storage;
}

}  // namespace

Result<Storage> storage_of(const InputFile& file) {
  return storage_at(file.descriptor());
}

}  // namespace weig::os

namespace weig {

Result<Storage> storage_of(const std::string& path) {
  WEIG_TRY_ASSIGN(file, os::InputFile::open(path));
  return os::storage_of(file);
}

}  // namespace weig
