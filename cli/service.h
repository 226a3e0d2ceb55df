// SPDX-License-Identifier: Apache-2.0
// What a process that keeps running tells the one that started it.
#pragma once

namespace weig::cli {

// Tells a service manager that asked for it (NOTIFY_SOCKET: systemd with Type=notify)
// that all is ready. Does nothing where nobody asked.
void tell_ready() noexcept;

}  // namespace weig::cli
