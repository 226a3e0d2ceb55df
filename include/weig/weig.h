// SPDX-License-Identifier: Apache-2.0
// Everything weig offers in C++. Start with Model::open (weig/model.h).
#pragma once

#include <weig/convert.h>
#include <weig/diff.h>
#include <weig/dtype.h>
#include <weig/error.h>
#include <weig/file_range.h>
#include <weig/format.h>
#include <weig/guard.h>
#include <weig/host.h>
#include <weig/load.h>
#include <weig/lora.h>
#include <weig/memory_lock.h>
#include <weig/memory_use.h>
#include <weig/metadata.h>
#include <weig/model.h>
#include <weig/model_set.h>
#include <weig/overlay.h>
#include <weig/page_cache.h>
#include <weig/parts.h>
#include <weig/progress.h>
#include <weig/quantize.h>
#include <weig/verify.h>
#include <weig/version.h>
#include <weig/view.h>
#include <weig/window.h>
#include <weig/writer.h>
