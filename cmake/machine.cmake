# SPDX-License-Identifier: Apache-2.0
# For WEIG_MACHINE, a processor that is not this one: the distribution's cross compiler,
# tests under qemu-user, and libraries from the folder that scripts/machines.sh fills.
set(CMAKE_SYSTEM_NAME Linux)
set(CMAKE_SYSTEM_PROCESSOR ${WEIG_MACHINE})
list(APPEND CMAKE_TRY_COMPILE_PLATFORM_VARIABLES WEIG_MACHINE)
set(triple ${WEIG_MACHINE}-linux-gnu)
set(libraries ${CMAKE_CURRENT_LIST_DIR}/../build/libraries-${WEIG_MACHINE})
cmake_path(NORMAL_PATH libraries)

set(CMAKE_CXX_COMPILER ${triple}-g++)
set(CMAKE_CROSSCOMPILING_EMULATOR qemu-${WEIG_MACHINE} -L /usr/${triple})
set(CMAKE_LIBRARY_ARCHITECTURE ${triple})
set(CMAKE_FIND_ROOT_PATH ${libraries} /usr/${triple})
set(CMAKE_FIND_ROOT_PATH_MODE_PROGRAM NEVER)
set(CMAKE_FIND_ROOT_PATH_MODE_LIBRARY ONLY)
set(CMAKE_FIND_ROOT_PATH_MODE_INCLUDE ONLY)
set(CMAKE_FIND_ROOT_PATH_MODE_PACKAGE ONLY)
set(ENV{PKG_CONFIG_LIBDIR} ${libraries}/usr/lib/${triple}/pkgconfig)
set(ENV{PKG_CONFIG_SYSROOT_DIR} ${libraries})
