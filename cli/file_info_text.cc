// SPDX-License-Identifier: Apache-2.0
// FileInfo for people: one screen.
#include <fmt/format.h>

#include <algorithm>
#include <filesystem>
#include <string>
#include <vector>

#include "file_info.h"
#include "quantity.h"
#include "tensor_text.h"
#include "terminal.h"

namespace weig::cli {
namespace {

constexpr std::string_view kSourceKeys = "weig.source.";
constexpr std::string_view kSourceHash = "weig.source.sha256";
constexpr std::size_t kLabelWidth = 14;
constexpr std::size_t kMaxEntries = 12;
constexpr std::size_t kMaxKeyWidth = 32;

// Lines of a label and text; lines that continue one have an empty label.
class Lines {
 public:
  Lines(Output& output, std::size_t width) : output_(output), width_(width) {}

  void add(std::string_view label, const std::string& text) {
    const std::string line = fmt::format("  {:<{}}{}", label, kLabelWidth, text);
    output_.print("{}\n", fitting(Stream::output, line, 2 + kLabelWidth));
  }
  // Text of any length, cut to the screen.
  void add_cut(std::string_view label, const std::string& text) {
    add(label, shortened(text, std::max<std::size_t>(room(), 20)));
  }
  std::size_t room() const {
    return width_ > kLabelWidth + 3 ? width_ - kLabelWidth - 3 : 0;
  }

 private:
  Output& output_;
  std::size_t width_;
};

std::string padded(std::string text, std::size_t width) {
  const std::size_t used = display_width(text);
  if (used < width) text.append(width - used, ' ');
  return text;
}

void add_format(Lines& lines, const FileInfo& info) {
  const Model& model = info.first();
  std::string text(file_format_name(model.format()));
  if (model.sealed()) text += ", sealed";
  if (model.format() == FileFormat::weig_minimal) text += ": no seal, no digests";
  if (info.is_set())
    text += fmt::format(", a set of {}", counted(info.set->member_count(), "file"));
  lines.add("format", text);
  lines.add(info.is_set() ? "size of all" : "file size",
            full_bytes(info.set->file_size()));
}

// The files of a set, by name, with what they hold.
void add_members(Lines& lines, const ModelSet& set) {
  const std::uint32_t count = set.member_count();
  for (std::uint32_t m = 0; m < count; ++m) {
    if (m == kMaxEntries && m + 1 < count) {
      lines.add("", fmt::format("... {} more", grouped(count - m - 1)));
      m = count - 1;
    }
    const Model& member = *set.member(m);
    const std::string name = std::filesystem::path(set.path(m)).filename().string();
    lines.add(m == 0 ? "members" : "", fmt::format("{}  {}, {}", printable(name),
                                                   counted(member.size(), "tensor"),
                                                   short_bytes(member.file_size())));
  }
}

// Which set it is; of a member alone, which part of it.
void add_shard(Lines& lines, const FileInfo& info) {
  if (!info.shard) return;
  const Shard& shard = *info.shard;
  if (info.set->whole())
    lines.add("set id", digest_text({.low = shard.set_low, .high = shard.set_high}));
  else
    lines.add("shard", fmt::format("{} of {}, a set of {}", shard.index + 1,
                                   shard.count, counted(shard.tensors, "tensor")));
}

void add_counts(Lines& lines, const Summary& summary) {
  std::string tensors = grouped(summary.tensors);
  if (summary.aliases > 0)
    tensors += fmt::format(", of them {}", counted(summary.aliases, "alias"));
  lines.add("tensors", tensors);
  std::string parameters = grouped(summary.parameters);
  const std::string words = short_count(summary.parameters);
  if (!words.empty()) parameters += fmt::format(" ({})", words);
  lines.add("parameters", parameters);
  std::size_t type_width = 0;
  for (const DtypeCount& count : summary.dtypes)
    type_width = std::max(type_width, dtype_text(count.dtype).size());
  const std::size_t bytes_width = grouped(summary.bytes).size();
  std::string_view label = "bytes by type";
  for (const DtypeCount& count : summary.dtypes) {
    const double share = summary.bytes == 0 ? 0
                                            : 100.0 * static_cast<double>(count.bytes) /
                                                  static_cast<double>(summary.bytes);
    lines.add(label,
              fmt::format("{:<{}}  {:>{}}  {:>6.2f} %  {}", dtype_text(count.dtype),
                          type_width, grouped(count.bytes), bytes_width, share,
                          counted(count.tensors, "tensor")));
    label = "";
  }
}

void add_groups(Lines& lines, const std::vector<SetGroup>& groups) {
  if (groups.empty()) return lines.add("groups", "none");
  std::string text = fmt::format("{}:", grouped(groups.size()));
  const std::size_t last = groups.size() - 1;
  for (std::size_t i = 0; i <= last; ++i) {
    if (i > 1 && i < last) continue;
    if (i == last && last > 2) text += ", ...";
    text += fmt::format("{} {} ({})", i > 0 ? "," : "", printable(groups[i].name),
                        counted(groups[i].count, "tensor"));
  }
  lines.add_cut("groups", text);
}

void add_alignment(Lines& lines, const Summary& summary) {
  if (summary.with_bytes == 0) return lines.add("alignment", "no data");
  lines.add(
      "alignment",
      fmt::format("{}; {} on 4 KiB, {} on 2 MiB", counted(summary.alignment, "byte"),
                  grouped(summary.on_4_kib), grouped(summary.on_2_mib)));
}

std::string entry_text(const Metadata::Entry& entry, std::size_t room) {
  // As many bytes as could be shown: values can be megabytes.
  std::string text = printable(std::string_view(entry.value).substr(0, 4 * room + 16));
  if (entry.type == "array")
    return fmt::format("({} array) {}", entry.element_type, text);
  if (entry.hex) return "(not UTF-8) " + text;
  if (entry.type == "string") return text;
  return fmt::format("({}) {}", entry.type, text);
}

bool is_about_source(const Metadata::Entry& entry) {
  return entry.key.starts_with(kSourceKeys);
}

// A digest and, of several files, whose it is; as sha256sum prints them.
void add_source_hash(Lines& lines, const Metadata::Entry& entry) {
  std::string text = printable(entry.value);
  if (entry.key.size() > kSourceHash.size())
    text +=
        "  " + printable(std::string_view(entry.key).substr(kSourceHash.size() + 1));
  lines.add("sha256", text);
}

void add_origin(Lines& lines, const FileInfo& info) {
  if (info.source) {
    const bool safetensors = info.source->format == SourceHeader::Format::safetensors;
    lines.add("source", fmt::format("{}, {} bytes; export restores it exactly",
                                    safetensors ? "safetensors" : "GGUF",
                                    grouped(info.source->file_size)));
  } else if (info.first().sealed()) {
    lines.add("source", "no single file that export could restore exactly");
  }
  for (const auto& entry : info.metadata.entries()) {
    if (!is_about_source(entry)) continue;
    if (entry.key.starts_with(kSourceHash))
      add_source_hash(lines, entry);
    else
      lines.add("", printable(entry.key) + " " + printable(entry.value));
  }
}

void add_metadata(Lines& lines, const Metadata& metadata) {
  const auto entries = metadata.entries();
  if (entries.empty()) return lines.add("metadata", "none");
  std::vector<const Metadata::Entry*> shown;
  for (const auto& entry : entries)
    if (!is_about_source(entry)) shown.push_back(&entry);
  std::string count = counted(entries.size(), "key");
  if (shown.size() < entries.size())
    count += fmt::format(", {} of them above", grouped(entries.size() - shown.size()));
  lines.add("metadata", count);
  const std::size_t hidden = shown.size() - std::min(shown.size(), kMaxEntries);
  shown.resize(shown.size() - hidden);
  std::size_t key_width = 0;
  for (const auto* entry : shown)
    key_width = std::max(key_width, display_width(printable(entry->key)));
  key_width = std::min(key_width, kMaxKeyWidth);
  for (const auto* entry : shown)
    lines.add_cut(
        "", padded(shortened(printable(entry->key), kMaxKeyWidth), key_width) + "  " +
                entry_text(*entry, lines.room()));
  if (hidden > 0)
    lines.add("", fmt::format("... and {} more; --json shows all", grouped(hidden)));
}

}  // namespace

void print_info(Output& output, const FileInfo& info, std::size_t width) {
  output.print("{}\n", printable(info.first().path()));
  Lines lines(output, width);
  add_format(lines, info);
  if (info.is_set()) add_members(lines, *info.set);
  add_counts(lines, info.summary);
  if (info.first().sealed()) add_groups(lines, info.groups);
  add_alignment(lines, info.summary);
  if (info.quantized > 0) lines.add("quantization", counted(info.quantized, "tensor"));
  add_shard(lines, info);
  lines.add("digests", info.has_digests ? "yes, one a tensor" : "no");
  if (info.first().sealed() && !info.is_set())
    lines.add("file id", digest_text(info.first().file_id()));
  add_origin(lines, info);
  add_metadata(lines, info.metadata);
}

}  // namespace weig::cli
