// SPDX-License-Identifier: Apache-2.0
#include "service.h"

#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

#include <algorithm>
#include <cstddef>
#include <cstdlib>
#include <string_view>

namespace weig::cli {

void tell_ready() noexcept {
  const char* asked = std::getenv("NOTIFY_SOCKET");
  if (asked == nullptr) return;
  const std::string_view path = asked;
  sockaddr_un address{};
  address.sun_family = AF_UNIX;
  if (path.empty() || path.size() >= sizeof address.sun_path) return;
  std::ranges::copy(path, address.sun_path);
  if (address.sun_path[0] == '@') address.sun_path[0] = 0;  // an abstract socket's name
  const int socket = ::socket(AF_UNIX, SOCK_DGRAM | SOCK_CLOEXEC, 0);
  if (socket < 0) return;
  constexpr std::string_view kReady = "READY=1";
  const void* to = &address;
  [[maybe_unused]] const auto ignored =
      ::sendto(socket, kReady.data(), kReady.size(), MSG_NOSIGNAL,
               static_cast<const sockaddr*>(to),
               static_cast<socklen_t>(offsetof(sockaddr_un, sun_path) + path.size()));
  ::close(socket);
}

}  // namespace weig::cli
