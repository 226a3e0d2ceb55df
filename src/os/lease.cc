// SPDX-License-Identifier: Apache-2.0
#include "os/lease.h"

#include <fcntl.h>
#include <pthread.h>
#include <signal.h>
#include <sys/mman.h>
#include <unistd.h>

#include <atomic>
#include <cerrno>
#include <memory>
#include <mutex>
#include <utility>
#include <vector>

#include "core/try.h"
#include "os/host.h"

namespace weig::os {
namespace {

// The number of this process among its forebears. Kept where the kernel itself wipes it
// in a child, since a bare clone(2) calls no handler.
class Generation {
 public:
  Generation() noexcept {
    const auto size = static_cast<std::size_t>(::sysconf(_SC_PAGESIZE));
    void* page = ::mmap(nullptr, size, PROT_READ | PROT_WRITE,
                        MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    if (page == MAP_FAILED) return;
    ::madvise(page, size, MADV_WIPEONFORK);  // before Linux 4.14, wipe() alone
    number_ = std::construct_at(static_cast<std::atomic<std::uint64_t>*>(page), 0);
  }
  std::uint64_t now() noexcept {
    std::uint64_t number = *number_;
    if (number != 0) return number;
    const std::uint64_t next = ++last_;
    return number_->compare_exchange_strong(number, next) ? next : number;
  }
  void wipe() noexcept { *number_ = 0; }

 private:
  std::atomic<std::uint64_t> unwiped_ = 0;
  std::atomic<std::uint64_t>* number_ = &unwiped_;
  std::atomic<std::uint64_t> last_ = 0;
};

// The descriptors that hold leases. A forked child closes its copies: a lease lives
// until the last of them is closed, should its owner die or lose the right to give it
// up. (A child of clone(2) keeps them until it calls exec.)
class LeasedFiles {
 public:
  static LeasedFiles& all() {
    // Never destroyed: a fork may come at any time.
    static auto* const files = new LeasedFiles;
    return *files;
  }

  Result<Descriptor> open(const std::string& path) {
    if (deaf_ != 0) return system_error(Code::no_memory, "be told of forks", deaf_);
    const std::lock_guard lock(mutex_);
    Descriptor file(::open(path.c_str(), O_RDONLY | O_CLOEXEC));
    if (!file) return system_error(Code::unsupported, "open the file again", errno);
    numbers_.push_back(file.number());
    return file;
  }
  void close(Descriptor file) noexcept {
    const std::lock_guard lock(mutex_);
    std::erase(numbers_, file.number());
    const Descriptor closed_here = std::move(file);
  }
  std::uint64_t generation() noexcept { return generation_.now(); }

 private:
  LeasedFiles()
      : deaf_(::pthread_atfork([] { all().mutex_.lock(); },
                               [] { all().mutex_.unlock(); },
                               [] { all().be_child(); })) {}
  void be_child() noexcept {
    for (const int number : numbers_) ::close(number);
    numbers_.clear();
    generation_.wipe();
    mutex_.unlock();
  }

  const int deaf_;  // why it would not be told of forks, or 0
  std::mutex mutex_;
  std::vector<int> numbers_;
  Generation generation_;
};

Error no_lease(int error_number) {
  const auto because = [&](const char* why) {
    return system_error(Code::unsupported, std::string("take a lease (") + why + ")",
                        error_number);
  };
  switch (error_number) {
    case EAGAIN:
      return because("the file is open for writing");
    case EACCES:
      return because("the file is another user's, and CAP_LEASE is missing");
    default:
      return because("the file system has none, or fs.leases-enable is 0");
  }
}

}  // namespace

Result<Lease> Lease::take(const InputFile& file) {
  const std::string self = "/proc/self/fd/" + std::to_string(file.descriptor());
  Lease lease;
  WEIG_TRY_ASSIGN(file_with_lease, LeasedFiles::all().open(self));
  lease.file_ = std::move(file_with_lease);
  // Before the lease: without an owner, the whole process would be told.
  const f_owner_ex owner{.type = F_OWNER_TID, .pid = ::gettid()};
  if (::fcntl(lease.file_.number(), F_SETOWN_EX, &owner) != 0)
    return system_error(Code::unsupported, "choose who is told of writers", errno);
  if (::fcntl(lease.file_.number(), F_SETLEASE, F_RDLCK) != 0) return no_lease(errno);
  lease.seen_held_ = std::chrono::steady_clock::now();
  return lease;
}

Lease::Lease(Lease&& other) noexcept = default;
Lease& Lease::operator=(Lease&& other) noexcept {
  release();
  file_ = std::move(other.file_);
  seen_held_ = other.seen_held_;
  return *this;
}
Lease::~Lease() { release(); }

bool Lease::is_held() noexcept {
  const auto now = std::chrono::steady_clock::now();
  if (::fcntl(file_.number(), F_GETLEASE) != F_RDLCK) return false;
  seen_held_ = now;
  return true;
}

bool Lease::release() noexcept {
  if (!file_) return true;
  bool was_there = ::fcntl(file_.number(), F_SETLEASE, F_UNLCK) == 0;
  if (!was_there && errno == EACCES) {
    // The right to is gone, and whether the lease is, is not told. Closing gives it up.
    const std::chrono::duration<double> passed =
        std::chrono::steady_clock::now() - seen_held_;
    const auto allowed = lease_break_seconds();
    was_there = !allowed || passed.count() < *allowed;
  }
  LeasedFiles::all().close(std::move(file_));
  return was_there;
}

std::optional<double> lease_break_seconds() noexcept try {
  const std::string text = read_text("/proc/sys/fs/lease-break-time");
  const auto seconds = number_after("seconds " + text, "seconds");
  if (seconds == 0U) return {};
  return static_cast<double>(seconds.value_or(45));  // the kernel's default
} catch (...) {                                      // out of memory for a line of text
  return 45;
}

Result<std::uint64_t> start_quiet_thread(void (*work)(void*), void* context) {
  struct Task {
    void (*work)(void*);
    void* context;
  };
  const auto enter = [](void* given) -> void* {
    const Task task = *static_cast<Task*>(given);
    delete static_cast<Task*>(given);
    task.work(task.context);
    return nullptr;
  };
  auto* task = new Task{work, context};
  sigset_t all;
  sigset_t before;
  ::sigfillset(&all);
  ::pthread_sigmask(SIG_BLOCK, &all, &before);
  pthread_t started{};
  const int failed = ::pthread_create(&started, nullptr, enter, task);
  ::pthread_sigmask(SIG_SETMASK, &before, nullptr);
  if (failed == 0) return std::uint64_t{started};
  delete task;
  return system_error(Code::no_memory, "start a thread", failed);
}

void join_thread(std::uint64_t thread) noexcept { ::pthread_join(thread, nullptr); }

std::uint64_t process_generation() noexcept { return LeasedFiles::all().generation(); }

}  // namespace weig::os
