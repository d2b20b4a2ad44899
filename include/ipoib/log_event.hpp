// Log messages about important events, which programs that read systemd's journal find by their id
// (MESSAGE_ID, see systemd.journal-fields(7)); ipoibd(8) lists them.
//
//   log.log(message_id(events::kInterfaceUp), spdlog::level::info, "up as {}", address);
#pragma once

#include <spdlog/common.h>

#include <string_view>

namespace ipoib {

namespace events {
inline constexpr const char* kInterfaceUp = "79ba30051527b827c8fc4c681fccca51";
inline constexpr const char* kInterfaceDown = "c71bcb7c79ed46b60797c3a46e714398";
inline constexpr const char* kDuplicateAddress = "349993389ce95078da423b88720cd64a";
inline constexpr const char* kFalseClaim = "77b9540b78a078e8ab70080379e79c38";
inline constexpr const char* kDeviceLost = "899d9290c8ad9307ab460f852b155d87";
inline constexpr const char* kFailover = "5ad7f4e0b11f4c6c9f0c9d3c2f6be7a1";
}  // namespace events

/// Marks a message with an id, which takes the place of the source location: the project's log has
/// none.
[[nodiscard]] inline spdlog::source_loc message_id(const char* id) { return {"", 1, id}; }
/// The id of a marked message; empty if it has none.
[[nodiscard]] inline std::string_view message_id_of(const spdlog::source_loc& source) {
  return source.empty() ? std::string_view() : std::string_view(source.funcname);
}

}  // namespace ipoib
